//! Accepts and serves connections, until they end or are ended.

use std::sync::Arc;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{UnixListener, UnixStream};

use super::service;
use super::shared::Shared;

/// Accepts connections, restart after restart.
pub(super) async fn accept(shared: Arc<Shared>, first: UnixListener) {
    let mut generations = shared.listener.generations();
    let mut listener = Some(first);
    loop {
        let listening = match listener.take() {
            Some(listener) => listener,
            None => match shared.listener.bind() {
                Ok(listener) => listener,
                Err(_) => return,
            },
        };
        loop {
            tokio::select! {
                biased;
                changed = generations.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let down = generations.borrow_and_update().down;
                    if let Some(down) = down {
                        drop(listening);
                        shared.listener.remove();
                        tokio::time::sleep(down).await;
                        break;
                    }
                }
                accepted = listening.accept() => {
                    if let Ok((stream, _)) = accepted {
                        tokio::spawn(serve(Arc::clone(&shared), stream));
                    }
                }
            }
        }
    }
}

/// Serves a connection, until it ends or is ended.
async fn serve(shared: Arc<Shared>, stream: UnixStream) {
    let mut generations = shared.listener.generations();
    let calls = hyper::service::service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, std::convert::Infallible>(service::dispatch(shared, request).await) }
    });
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.initial_stream_window_size(1 << 20).initial_connection_window_size(1 << 20);
    tokio::select! {
        _ = http.serve_connection(TokioIo::new(stream), calls) => {}
        _ = generations.changed() => {}
    }
}
