//! Pins for a runtime that has none: containerd 1.6, Debian's, cannot pin an image.

use std::collections::HashSet;
use std::future::ready;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use http::header::CONTENT_LENGTH;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper::service::service_fn;
use hyper::{client, server};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use prost::bytes::Bytes;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};
use tonic::Status;
use tonic::body::Body;

use crate::messages::{Image, ImageStatusResponse, ListImagesResponse};
use crate::{ApiVersion, Endpoint, Rpc};

/// A proxy in front of a runtime that says of some images that they are pinned, until it is dropped.
///
/// It sets `pinned` in the answers to `ListImages` and `ImageStatus` of CRI v1, as containerd 1.7 and
/// CRI-O do for an image with a pin. These two answers lose the fields that [`messages`](crate::messages)
/// does not have. Everything else passes through as it is. In particular, a pinned image can be removed,
/// as in the runtimes themselves.
#[derive(Debug)]
pub struct Pins {
    endpoint: Endpoint,
    accepting: JoinHandle<()>,
}

impl Pins {
    /// Listens on a socket beside the runtime's. `names` are tags of the pinned images.
    ///
    /// # Errors
    ///
    /// The socket cannot be made.
    pub fn start<'a>(runtime: &Endpoint, names: impl IntoIterator<Item = &'a str>) -> io::Result<Self> {
        let socket = runtime.path().with_file_name("pins.sock");
        let endpoint = Endpoint::parse(&socket.to_string_lossy()).map_err(io::Error::other)?;
        let listener = UnixListener::bind(&socket)?;
        let names = Arc::new(names.into_iter().map(str::to_owned).collect());
        let accepting = tokio::spawn(accept(listener, runtime.path().to_owned(), names));
        Ok(Self { endpoint, accepting })
    }

    /// The socket.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        self.accepting.abort();
        let _ = std::fs::remove_file(self.endpoint.path());
    }
}

/// Accepts connections. Each has a task, which ends with this one.
async fn accept(listener: UnixListener, runtime: PathBuf, names: Arc<HashSet<String>>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((stream, _)) = listener.accept() => {
                let (runtime, names) = (runtime.clone(), Arc::clone(&names));
                // Why a connection ends is what the calls on it fail with.
                connections.spawn(async { drop(serve(stream, runtime, names).await) });
            }
            Some(_) = connections.join_next() => {}
            else => return,
        }
    }
}

/// Serves a connection over one of its own to the runtime. When one of them ends, so does the other.
async fn serve(stream: UnixStream, runtime: PathBuf, names: Arc<HashSet<String>>) -> io::Result<()> {
    let runtime = TokioIo::new(UnixStream::connect(runtime).await?);
    let connected = client::conn::http2::handshake(TokioExecutor::new(), runtime).await;
    let (sender, connection) = connected.map_err(io::Error::other)?;
    let calls = service_fn(|request| call(sender.clone(), Arc::clone(&names), request));
    let served =
        server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), calls);
    tokio::select! {
        ended = connection => ended,
        ended = served => ended,
    }
    .map_err(io::Error::other)
}

/// Forwards a call.
async fn call(
    mut runtime: SendRequest<Incoming>,
    names: Arc<HashSet<String>>,
    request: Request<Incoming>,
) -> hyper::Result<Response<Body>> {
    let path = request.uri().path().to_owned();
    let answer = runtime.send_request(request).await?;
    let changed = if path == Rpc::ListImages.path(ApiVersion::V1) {
        pin::<ListImagesResponse>(answer, &names).await
    } else if path == Rpc::ImageStatus.path(ApiVersion::V1) {
        pin::<ImageStatusResponse>(answer, &names).await
    } else {
        return Ok(answer.map(Body::new));
    };
    Ok(changed.unwrap_or_else(|why| {
        Status::internal(format!("the proxy cannot read the answer to {path}: {why}")).into_http()
    }))
}

/// Sets the pins in an answer, and keeps its headers and trailers.
async fn pin<M: Images>(
    answer: Response<Incoming>,
    names: &HashSet<String>,
) -> Result<Response<Body>, String> {
    let (mut head, body) = answer.into_parts();
    let body = body.collect().await.map_err(|error| error.to_string())?;
    let trailers = body.trailers().cloned().map(Ok);
    let message = pin_message::<M>(body.to_bytes(), names)?;
    head.headers.remove(CONTENT_LENGTH);
    Ok(Response::from_parts(head, Body::new(Full::new(message).with_trailers(ready(trailers)))))
}

/// The same for the message, in the frame that gRPC gives it: whether it is compressed, its length.
fn pin_message<M: Images>(framed: Bytes, names: &HashSet<String>) -> Result<Bytes, String> {
    // The call has failed, and its status is in the headers or trailers.
    if framed.is_empty() {
        return Ok(framed);
    }
    let Some(([0, length @ ..], message)) = framed.split_first_chunk::<5>() else {
        return Err("no message that is not compressed".to_owned());
    };
    let length = u32::from_be_bytes(*length);
    if usize::try_from(length) != Ok(message.len()) {
        return Err(format!("{} bytes are not one message of {length}", message.len()));
    }
    let mut message = M::decode(message).map_err(|error| error.to_string())?;
    for image in message.images() {
        image.pinned |= image.repo_tags.iter().any(|tag| names.contains(tag));
    }
    frame(&message)
}

/// A message as gRPC sends it.
fn frame(message: &impl Message) -> Result<Bytes, String> {
    let length = u32::try_from(message.encoded_len()).map_err(|error| error.to_string())?;
    Ok([&[0], &length.to_be_bytes()[..], &message.encode_to_vec()].concat().into())
}

/// An answer that has images.
trait Images: Message + Default {
    fn images(&mut self) -> impl Iterator<Item = &mut Image>;
}

impl Images for ListImagesResponse {
    fn images(&mut self) -> impl Iterator<Item = &mut Image> {
        self.images.iter_mut()
    }
}

impl Images for ImageStatusResponse {
    fn images(&mut self) -> impl Iterator<Item = &mut Image> {
        self.image.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_one_whole_message_is_refused() {
        let image = Image { repo_tags: vec!["app:1".to_owned()], ..Image::default() };
        let whole = frame(&ImageStatusResponse { image: Some(image), ..ImageStatusResponse::default() })
            .expect("short");
        let pin = |bytes: &[u8]| {
            pin_message::<ImageStatusResponse>(Bytes::copy_from_slice(bytes), &HashSet::default())
        };
        assert_eq!(pin(&whole), Ok(whole.clone()));
        assert_eq!(pin(&[]), Ok(Bytes::new()));
        for (bytes, why) in [
            (whole[..3].to_vec(), "no message"),
            ([&[1], &whole[1..]].concat(), "not compressed"),
            (whole[..whole.len() - 1].to_vec(), "not one message"),
            ([&whole[..], &whole[..]].concat(), "not one message"),
            (vec![0, 0, 0, 0, 2, 0x0a, 0x7f], "failed to decode"),
        ] {
            let error = pin(&bytes).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
    }
}
