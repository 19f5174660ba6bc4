//! Serves the connections of the collector.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use anyhow::{Result, bail};
use bytes::Bytes;
use futures::stream::unfold;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::{HeaderMap, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::forward;
use super::reply::{Answer, Fault, Reply};
use super::request::{Exchange, Request, Verb};
use super::state::{Applied, Outage, Shared, Stream};
use super::stream;

/// The headers that are forwarded in both directions.
const HEADERS: [HeaderName; 5] =
    [ACCEPT, CONTENT_TYPE, http::header::USER_AGENT, http::header::WARNING, RETRY_AFTER];

/// A delay that is longer than the client waits.
const NEVER: Duration = Duration::from_secs(3600);

/// Accepts connections until this is dropped.
pub(super) async fn serve(listener: TcpListener, shared: Shared, client: Client) {
    let Ok(address) = listener.local_addr() else { return };
    let mut listener = Some(listener);
    let mut outage = shared.outage.subscribe();
    // Dropped with this future.
    let mut connections = JoinSet::new();
    loop {
        let accepting = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Ok(()) = outage.changed() => {
                connections.shutdown().await;
                if *outage.borrow_and_update() == Some(Outage::Refused) {
                    listener = None;
                } else if listener.is_none() {
                    listener = TcpListener::bind(address).await.ok();
                }
            }
            accepted = accepting => {
                let Ok((stream, _)) = accepted else { continue };
                let (shared, client) = (shared.clone(), client.clone());
                let service = service_fn(move |request| answer(shared.clone(), client.clone(), request));
                // Broken connections are expected.
                let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                connections.spawn(served.with_upgrades());
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Answers one request.
async fn answer(shared: Shared, client: Client, mut incoming: http::Request<Incoming>) -> Result<Answer> {
    let port = forward::port(&incoming).map(|port| (port, hyper::upgrade::on(&mut incoming)));
    let (parts, body) = incoming.into_parts();
    let body = body.collect().await?.to_bytes();
    let request = Request::new(&parts.method, &parts.uri, &parts.headers, &body);
    let (index, rule) = shared.with(|state| {
        let arrived = Instant::now();
        let request = request.clone();
        state.log.push(Exchange {
            request,
            arrived,
            status: None,
            answered: None,
            served: None,
            expired: false,
        });
        (state.log.len() - 1, state.rule_for(&state.log[state.log.len() - 1].request.clone()))
    });
    let outage = *shared.outage.borrow();
    match outage {
        None => {}
        Some(Outage::Refused) => bail!("an outage made by the test"),
        Some(Outage::Hanging) => std::future::pending::<()>().await,
        Some(Outage::Unavailable) => {
            shared.answered(index, 503);
            return Reply::text(503, "an outage made by the test").into_response();
        }
    }
    let fault = match rule {
        None => None,
        Some(Applied::Fault(fault)) => Some(fault),
        Some(Applied::Held(verdict)) => verdict.await.unwrap_or(None),
    };
    if let Some(Fault::Instead(reply)) = fault {
        shared.answered(index, reply.status);
        return reply.into_response();
    }

    if let (Some((port, upgrade)), Some(to)) = (port, shared.look(|state| state.ports)) {
        shared.answered(index, 101);
        return forward::answer(&parts.headers, upgrade, port, to);
    }

    let mut forwarded = http::Request::builder()
        .method(parts.method)
        .uri(parts.uri.path_and_query().map_or("/", |uri| uri.as_str()));
    if let Some(headers) = forwarded.headers_mut() {
        *headers = passed_on(&parts.headers);
        speak_json(headers);
    }
    let served = client.send(forwarded.body(Body::from(body))?).await?;
    let (head, body) = served.into_parts();
    let status = head.status.as_u16();
    shared.with(|state| {
        state.log[index].served = Some(status);
        state.log[index].expired = status == 410;
    });

    let is_watch = request.verb == Verb::Watch || request.is_streamed_list();
    let body: UnsyncBoxBody<Bytes, io::Error> = if is_watch && head.status.is_success() {
        let (to, from) = mpsc::channel(16);
        shared.follow(index, request.resource, body, to);
        let frames = unfold(from, async |mut from| Some((from.recv().await?, from)));
        StreamBody::new(frames).boxed_unsync()
    } else {
        Full::new(body.collect_bytes().await?).map_err(|never: Infallible| match never {}).boxed_unsync()
    };
    match fault {
        Some(Fault::After(reply)) => {
            shared.answered(index, reply.status);
            return reply.into_response();
        }
        Some(Fault::AnswerLost) => bail!("the answer is lost"),
        Some(Fault::AnswerLate) => tokio::time::sleep(NEVER).await,
        Some(Fault::Instead(_)) | None => {}
    }
    let mut response = Response::builder().status(head.status).body(body)?;
    *response.headers_mut() = passed_on(&head.headers);
    shared.answered(index, status);
    Ok(response)
}

fn passed_on(headers: &HeaderMap) -> HeaderMap {
    HEADERS.iter().filter_map(|name| Some((name.clone(), headers.get(name)?.clone()))).collect()
}

/// Requests JSON, which the proxy can edit, like a client without protobuf.
fn speak_json(headers: &mut HeaderMap) {
    let Some(accept) = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()) else { return };
    let known: Vec<&str> = accept.split(',').filter(|media| !media.contains("protobuf")).collect();
    if let Ok(accept) = known.join(",").parse() {
        headers.insert(ACCEPT, accept);
    }
}

impl Shared {
    /// Forwards the events of a watch.
    fn follow(&self, index: usize, resource: String, body: Body, to: stream::Sender) {
        let (commands, given) = mpsc::unbounded_channel();
        let id = self.with(|state| {
            state.last_id += 1;
            let id = state.last_id;
            state.streams.push(Stream { id, resource: resource.clone(), commands });
            id
        });
        let shared = self.clone();
        tokio::spawn(async move {
            stream::forward(shared.clone(), index, resource, body, to, given).await;
            shared.with(|state| state.streams.retain(|stream| stream.id != id));
        });
    }
}
