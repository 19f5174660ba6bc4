//! Port forwarding, as a kubelet does it: the bytes of a port in the messages of a WebSocket
//! (`v4.channel.k8s.io`).

use std::convert::Infallible;
use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use futures::{SinkExt as _, StreamExt as _};
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::reply::Answer;

/// The protocol of the messages: their first byte is the channel.
const PROTOCOL: &str = "v4.channel.k8s.io";
/// The channel of what the port reads and writes.
const DATA: u8 = 0;
/// The channel of why it cannot be used.
const ERROR: u8 = 1;

/// The port that a request wants to be forwarded.
pub(super) fn port<B>(request: &http::Request<B>) -> Option<u16> {
    let uri = request.uri();
    let is_forward = uri.path().ends_with("/portforward") && request.headers().contains_key(UPGRADE);
    let ports = uri.query()?.split('&').find_map(|part| part.strip_prefix("ports="))?;
    if is_forward { ports.parse().ok() } else { None }
}

/// Switches protocols, and forwards the port to an address.
pub(super) fn answer(headers: &HeaderMap, upgrade: OnUpgrade, port: u16, to: SocketAddr) -> Result<Answer> {
    let key = headers.get(SEC_WEBSOCKET_KEY).context("the request has no key")?;
    let accept = derive_accept_key(key.as_bytes());
    tokio::spawn(async move {
        // Whoever closes the connection sees that it ends.
        let _ = forward(upgrade.await?, port, to).await;
        anyhow::Ok(())
    });
    let response = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(UPGRADE, "websocket")
        .header(CONNECTION, "Upgrade")
        .header(SEC_WEBSOCKET_ACCEPT, accept)
        .header(SEC_WEBSOCKET_PROTOCOL, PROTOCOL);
    let nothing = Empty::new().map_err(|never: Infallible| match never {}).boxed_unsync();
    Ok(response.body(nothing)?)
}

async fn forward(upgraded: Upgraded, port: u16, to: SocketAddr) -> Result<()> {
    let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
    for channel in [DATA, ERROR] {
        socket.send(message(channel, &port.to_le_bytes())).await?;
    }
    let mut stream = match TcpStream::connect(to).await {
        Ok(stream) => stream,
        Err(error) => {
            let why = format!("an error made by the test: dial tcp4 127.0.0.1:{port}: {error}");
            socket.send(message(ERROR, why.as_bytes())).await?;
            return close(socket).await;
        }
    };
    let mut bytes = vec![0; 16 << 10];
    loop {
        tokio::select! {
            read = stream.read(&mut bytes) => match read? {
                0 => return close(socket).await,
                length => socket.send(message(DATA, &bytes[..length])).await?,
            },
            received = socket.next() => match received {
                Some(Ok(Message::Binary(bytes))) if bytes.first() == Some(&DATA) => {
                    stream.write_all(&bytes[1..]).await?;
                }
                Some(Ok(Message::Close(_))) | None => return Ok(()),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
            },
        }
    }
}

/// Closes the connection, and reads what the client still sends. With bytes that nobody has read,
/// the kernel would reset the connection, and the client might lose what it has not read yet.
async fn close(mut socket: WebSocketStream<TokioIo<Upgraded>>) -> Result<()> {
    socket.close(None).await?;
    while let Some(received) = socket.next().await {
        received?;
    }
    Ok(())
}

fn message(channel: u8, bytes: &[u8]) -> Message {
    let mut message = vec![channel];
    message.extend(bytes);
    Message::binary(message)
}
