//! Serves the API on an address, for clients that need a socket: `kubectl`, controllers in other
//! processes.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;
#[cfg(feature = "https")]
use std::{error::Error, sync::Arc};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;
#[cfg(feature = "https")]
use tokio_rustls::rustls::{ServerConfig, crypto::aws_lc_rs, pki_types::PrivatePkcs8KeyDer};

use crate::ApiServer;

/// The time limit for the TLS handshake of a client, and the least time between two lines of the log.
const PATIENCE: Duration = Duration::from_secs(10);

/// The scheme of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTPS, with a certificate created for this address.
    #[cfg(feature = "https")]
    Https,
}

/// A served address. Dropping it stops the server there.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    /// In PEM; `None` without TLS.
    authority: Option<String>,
    task: JoinHandle<()>,
    /// `None` once it ends.
    runtime: Option<Runtime>,
}

impl Serving {
    /// The address.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// A kubeconfig for this server. The server does not authenticate; the token is there for
    /// clients that insist on one.
    pub fn kubeconfig(&self) -> String {
        let mut cluster = json!({"server": self.url()});
        if let Some(pem) = &self.authority {
            cluster["certificate-authority-data"] = STANDARD.encode(pem).into();
        }
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "embedded",
            "clusters": [{"name": "embedded", "cluster": cluster}],
            "users": [{"name": "anybody", "user": {"token": "anything"}}],
            "contexts": [{"name": "embedded", "context": {"cluster": "embedded", "user": "anybody"}}],
        });
        // JSON is YAML.
        format!("{config:#}\n")
    }

    /// Stops listening and closes all connections.
    pub async fn stop(mut self) {
        self.task.abort();
        // The task was cancelled, as intended.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
        // The caller may be within another runtime, where nothing may block.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl ApiServer {
    /// Serves an address, such as `127.0.0.1:0`, and runs the scheduled work, on a thread of its own. It goes on
    /// when the runtime of the caller ends or is blocked.
    ///
    /// Its time passes even if a test pauses the clock of tokio. That clock may jump while the test waits for an
    /// answer, so a timeout around the request may end at once. [`client`](Self::client) follows a paused clock.
    ///
    /// # Errors
    /// The address cannot be bound, or the operating system provides no thread.
    pub async fn serve(&self, address: SocketAddr, scheme: Scheme) -> io::Result<Serving> {
        let (acceptor, authority) = match scheme {
            Scheme::Http => (None, None),
            #[cfg(feature = "https")]
            Scheme::Https => {
                let (acceptor, authority) = acceptor(address).map_err(io::Error::other)?;
                (Some(acceptor), Some(authority))
            }
        };
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let within = runtime.enter();
        let listener = TcpListener::from_std(listener)?;
        drop(within);
        let task = runtime.spawn(accept(self.clone(), listener, acceptor));
        Ok(Serving { address, authority, task, runtime: Some(runtime) })
    }
}

/// An acceptor with a certificate for the address, which is its own authority.
#[cfg(feature = "https")]
fn acceptor(address: SocketAddr) -> Result<(TlsAcceptor, String), Box<dyn Error + Send + Sync>> {
    let names = ["localhost".to_owned(), address.ip().to_string()];
    let own = rcgen::generate_simple_self_signed(names)?;
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key.into())?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok((TlsAcceptor::from(Arc::new(config)), own.cert.pem()))
}

/// Accepts connections until it is dropped, which also closes them.
async fn accept(server: ApiServer, listener: TcpListener, acceptor: Option<TlsAcceptor>) {
    let mut connections = JoinSet::new();
    let due = server.run();
    tokio::pin!(due);
    let mut said: Option<Instant> = None;
    loop {
        tokio::select! {
            () = &mut due => {}
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(server.clone(), stream, acceptor.clone()));
                }
                // The client has disconnected, or too many files are open. An immediate retry helps
                // in neither case.
                Err(error) => {
                    if said.is_none_or(|said| said.elapsed() >= PATIENCE) {
                        said = Some(Instant::now());
                        tracing::warn!(
                            %error,
                            "cannot accept a client; raise the limit of open files (`ulimit -n`) if it is reached"
                        );
                    }
                    sleep(Duration::from_millis(10)).await;
                }
            }
        }
    }
}

async fn connection(server: ApiServer, stream: TcpStream, acceptor: Option<TlsAcceptor>) {
    // Otherwise each small answer waits until the previous one is acknowledged.
    let _ = stream.set_nodelay(true);
    match acceptor {
        None => talk(server, stream).await,
        Some(acceptor) => {
            let handshake = timeout(PATIENCE, acceptor.accept(stream));
            if let Ok(Ok(stream)) = handshake.await {
                talk(server, stream).await;
            }
        }
    }
}

async fn talk(server: ApiServer, stream: impl AsyncRead + AsyncWrite + Unpin) {
    let service = TowerToHyperService::new(server);
    // The client notices connection errors itself.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
