//! What stands in front of the embedded API server: TLS, and users who must show who they are.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::{
    DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme, crypto,
};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::pki::Pair;

/// Who is let through.
#[derive(Clone, Debug)]
pub enum Accepts {
    /// The bearer of a token.
    Token(&'static str),
    /// The owner of a certificate.
    Certificate(CertificateDer<'static>),
}

/// A running front. Each request is served as the state of that moment says.
pub struct Front {
    pub address: SocketAddr,
    state: Arc<State>,
    _task: AbortOnDropHandle<()>,
}

struct State {
    tls: Mutex<TlsAcceptor>,
    accepts: Mutex<Accepts>,
    /// The header `impersonate-user` of each request that was let through.
    impersonated: Mutex<Vec<Option<String>>>,
    cut: Mutex<CancellationToken>,
    backend: SocketAddr,
    client: Client<HttpConnector, Incoming>,
}

impl Front {
    pub async fn start(backend: SocketAddr, server: &Pair, accepts: Accepts) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            tls: Mutex::new(acceptor(server)),
            accepts: Mutex::new(accepts),
            impersonated: Mutex::default(),
            cut: Mutex::default(),
            backend,
            client: Client::builder(TokioExecutor::new()).build_http(),
        });
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let cut = shared.cut.lock().unwrap().clone();
                let serving = serve(stream, Arc::clone(&shared));
                tokio::spawn(async move { cut.run_until_cancelled(serving).await });
            }
        });
        Self { address, state, _task: AbortOnDropHandle::new(task) }
    }

    /// From now on only these are let through.
    pub fn accept(&self, accepts: Accepts) {
        *self.state.accepts.lock().unwrap() = accepts;
    }

    /// Restarts with another certificate.
    pub fn present(&self, server: &Pair) {
        *self.state.tls.lock().unwrap() = acceptor(server);
        std::mem::take(&mut *self.state.cut.lock().unwrap()).cancel();
    }

    pub fn impersonated(&self) -> Vec<Option<String>> {
        self.state.impersonated.lock().unwrap().clone()
    }
}

fn acceptor(server: &Pair) -> TlsAcceptor {
    let key = PrivateKeyDer::try_from(server.key.serialize_der()).unwrap();
    let config = ServerConfig::builder().with_client_cert_verifier(Arc::new(Anyone));
    let mut config = config.with_single_cert(vec![server.der.clone()], key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

async fn serve(stream: TcpStream, state: Arc<State>) {
    let tls = state.tls.lock().unwrap().clone();
    // A client that rejects the certificate ends here.
    let Ok(stream) = tls.accept(stream).await else { return };
    let (_, session) = stream.get_ref();
    let certificate = session.peer_certificates().and_then(|chain| chain.first()).cloned();
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    let service = service_fn(move |request| answer(request, certificate.clone(), Arc::clone(&state)));
    let io = TokioIo::new(stream);
    // Clients end connections as they like.
    if is_http2 {
        let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .serve_connection(io, service)
            .await;
    } else {
        let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
    }
}

async fn answer(
    mut request: Request<Incoming>,
    certificate: Option<CertificateDer<'static>>,
    state: Arc<State>,
) -> Result<Response<BoxBody<Bytes, hyper::Error>>, Infallible> {
    let header = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let is_known = match &*state.accepts.lock().unwrap() {
        Accepts::Token(token) => header("authorization") == Some(format!("Bearer {token}")),
        Accepts::Certificate(known) => certificate.as_ref() == Some(known),
    };
    let text = |code, text: &'static str| {
        let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed();
        let answer = Response::builder().status(code).header("content-type", "application/json");
        Ok(answer.body(body).unwrap())
    };
    if !is_known {
        let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#;
        return text(StatusCode::UNAUTHORIZED, status);
    }
    state.impersonated.lock().unwrap().push(header("impersonate-user"));
    // As behind a load balancer that serves several clusters.
    let path = request.uri().path_and_query().unwrap().as_str();
    let path = path.strip_prefix("/clusters/one").unwrap_or(path);
    *request.uri_mut() = format!("http://{}{path}", state.backend).parse().unwrap();
    *request.version_mut() = http::Version::HTTP_11;
    match state.client.request(request).await {
        Ok(answer) => Ok(answer.map(BodyExt::boxed)),
        Err(_) => text(StatusCode::BAD_GATEWAY, ""),
    }
}

/// Asks for a certificate and looks at none, as kube-apiserver does during the handshake.
#[derive(Debug)]
struct Anyone;

impl ClientCertVerifier for Anyone {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        crypto::aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
