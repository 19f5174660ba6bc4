//! The server.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rcgen::{CertificateParams, KeyPair};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// One part of a flood.
const WAVE: &[u8] = &[b'.'; 16 << 10];

/// How it behaves.
#[derive(Clone, Copy, Debug)]
pub struct Manners {
    /// Whether it offers HTTP/2.
    pub http2: bool,
    /// The number of streams on a connection.
    pub streams: u32,
}

impl Default for Manners {
    fn default() -> Self {
        Self { http2: true, streams: 100 }
    }
}

/// Answers `/hello` with a word and then silence, and `/flood` without end. A stream of `/flood` counts as
/// flooded when it has filled its window.
pub struct Server {
    certificate: Vec<u8>,
    port: u16,
    seen: Arc<Observed>,
    _task: AbortOnDropHandle<()>,
}

struct Observed {
    connections: AtomicUsize,
    /// Connections that are open.
    open: watch::Sender<usize>,
    /// Streams on which as much as possible has been sent.
    flooded: watch::Sender<usize>,
    /// Those of the connections that are open now.
    cut: Mutex<CancellationToken>,
    frozen: Mutex<CancellationToken>,
}

impl Server {
    pub async fn start(manners: Manners) -> Self {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        let mut tls = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        tls.alpn_protocols = match manners.http2 {
            true => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            false => vec![b"http/1.1".to_vec()],
        };
        let tls = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Observed {
            connections: AtomicUsize::new(0),
            open: watch::channel(0).0,
            flooded: watch::channel(0).0,
            cut: Mutex::default(),
            frozen: Mutex::default(),
        });
        let shared = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let seen = Arc::clone(&shared);
                let (cut, frozen) = (seen.cut.lock().unwrap().clone(), seen.frozen.lock().unwrap().clone());
                let open = seen.open.clone();
                let serving = serve(stream, tls.clone(), manners, seen);
                tokio::spawn(async move {
                    open.send_modify(|open| *open += 1);
                    let mut serving = std::pin::pin!(serving);
                    tokio::select! {
                        () = &mut serving => {}
                        () = cut.cancelled() => {}
                        () = frozen.cancelled() => std::future::pending().await,
                    }
                    open.send_modify(|open| *open -= 1);
                });
            }
        });
        Self { certificate: certificate.to_vec(), port, seen, _task: AbortOnDropHandle::new(task) }
    }

    pub fn config(&self) -> kube::Config {
        let mut config = kube::Config::new(format!("https://127.0.0.1:{}", self.port).parse().unwrap());
        config.root_cert = Some(vec![self.certificate.clone()]);
        config
    }

    /// How many connections there ever were.
    pub fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    /// Until so many connections are open.
    pub async fn until_open(&self, count: usize) {
        let mut open = self.seen.open.subscribe();
        let all = open.wait_for(|open| *open == count);
        tokio::time::timeout(super::SOON, all).await.expect("as many connections").unwrap();
    }

    /// Until so many streams take no more.
    pub async fn until_flooded(&self, streams: usize) {
        let mut flooded = self.seen.flooded.subscribe();
        let all = flooded.wait_for(|flooded| *flooded >= streams);
        tokio::time::timeout(super::SOON, all).await.expect("a flood").unwrap();
    }

    /// Drops all connections.
    pub fn cut(&self) {
        std::mem::take(&mut *self.seen.cut.lock().unwrap()).cancel();
    }

    /// From now on nothing comes on the connections that are open, and nothing closes them.
    pub fn freeze(&self) {
        std::mem::take(&mut *self.seen.frozen.lock().unwrap()).cancel();
    }
}

async fn serve(stream: TcpStream, tls: TlsAcceptor, manners: Manners, seen: Arc<Observed>) {
    seen.connections.fetch_add(1, Ordering::SeqCst);
    // A client that rejects the certificate ends here.
    let Ok(stream) = tls.accept(stream).await else { return };
    let service = service_fn(|request: Request<Incoming>| {
        let body = match request.uri().path() {
            "/hello" => hello(),
            "/flood" => flood(Arc::clone(&seen)),
            path => panic!("{path}"),
        };
        async { Ok::<_, Infallible>(Response::new(body)) }
    });
    let io = TokioIo::new(stream);
    // That it breaks off is what some tests are about.
    let _ = match manners.http2 {
        true => {
            hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .max_concurrent_streams(manners.streams)
                .serve_connection(io, service)
                .await
        }
        false => hyper::server::conn::http1::Builder::new().serve_connection(io, service).await,
    };
}

type Sent = BoxBody<Bytes, Infallible>;

fn hello() -> Sent {
    let word = futures::stream::iter([Ok(Frame::data(Bytes::from_static(b"hello")))]);
    BodyExt::boxed(StreamBody::new(word.chain(futures::stream::pending())))
}

/// An endless body. It is not asked for more when its window is full.
fn flood(seen: Arc<Observed>) -> Sent {
    let (mut sent, enough) = (0, super::STREAM_WINDOW as usize);
    let waves = futures::stream::repeat_with(move || {
        sent += WAVE.len();
        if (enough..enough + WAVE.len()).contains(&sent) {
            seen.flooded.send_modify(|flooded| *flooded += 1);
        }
        Ok(Frame::data(Bytes::from_static(WAVE)))
    });
    BodyExt::boxed(StreamBody::new(waves))
}
