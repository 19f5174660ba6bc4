//! A proxy between the collector and the API server. With it, a test sees every request, and
//! decides what happens to it and when.
//!
//! The collector connects by plain HTTP without credentials. The proxy connects to the API server
//! as a user in `system:masters`. It runs on the runtime of the test and ends when it is dropped.

mod crowd;
mod request;
mod rules;
mod stream;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
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
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tempfile::NamedTempFile;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout};

use super::control_plane::ControlPlane;

pub use request::{Exchange, On, Request, Verb};
pub use rules::{Held, Hold, How, Reply, Rule, WatchHold};
pub use stream::Cut;
use stream::Order;

/// The time limit of each wait.
const DEADLINE: Duration = Duration::from_secs(60);
/// The headers that are forwarded in both directions.
const HEADERS: [HeaderName; 5] =
    [ACCEPT, CONTENT_TYPE, http::header::USER_AGENT, http::header::WARNING, RETRY_AFTER];

type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;

/// A running proxy.
#[derive(Debug)]
pub struct Proxy {
    shared: Shared,
    kubeconfig: NamedTempFile,
    server: JoinHandle<()>,
}

/// The state that the proxy, its connections and the rules of the test share.
#[derive(Clone)]
struct Shared {
    state: Arc<Mutex<State>>,
    /// Counts changes, so that tests can wait for them.
    changes: watch::Sender<u64>,
    /// The outage that the proxy simulates, if any.
    away: watch::Sender<Option<Away>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    log: Vec<Exchange>,
    rules: Vec<rules::Entry>,
    event_holds: Vec<rules::EventHold>,
    streams: Vec<stream::Stream>,
    crowd: crowd::Crowd,
    echo: usize,
    bookmarks_dropped: bool,
    last_id: u64,
}

impl State {
    fn hits(&self, rule: u64) -> usize {
        self.rules.iter().find(|entry| entry.id == rule).map_or(0, |entry| entry.hits)
    }

    fn watching(&self, resource: &str) -> usize {
        self.streams.iter().filter(|stream| stream.resource == resource).count()
    }
}

impl Shared {
    /// Changes the state and notifies waiters.
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        self.with_quietly(|state| (change(state), true))
    }

    /// The same, but notifies only if something changed.
    fn with_quietly<T>(&self, change: impl FnOnce(&mut State) -> (T, bool)) -> T {
        // The guarded value is consistent even after a panic elsewhere.
        let (result, changed) = change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        if changed {
            self.changes.send_modify(|count| *count += 1);
        }
        result
    }

    fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        self.with_quietly(|state| (look(state), false))
    }

    async fn until(&self, what: &str, condition: impl Fn(&State) -> bool) -> Result<()> {
        let mut changes = self.changes.subscribe();
        let met = timeout(DEADLINE, changes.wait_for(|_| self.look(&condition))).await;
        met.with_context(|| format!("waited {DEADLINE:?} for {what}"))?.context("the proxy ended")?;
        Ok(())
    }
}

impl Proxy {
    /// Starts a proxy in front of a control plane.
    pub async fn start(plane: &ControlPlane) -> Result<Self> {
        let kubeconfig = Kubeconfig::read_from(plane.kubeconfig())?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.default_retry = false;
        // The proxy reads bodies, so they must not be compressed.
        config.disable_compression = true;
        let client = Client::try_from(config)?;

        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let kubeconfig = tempfile::Builder::new().prefix("kube-gc-proxy-").tempfile()?;
        let text = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "proxy", "cluster": { "server": url } }],
            "users": [{ "name": "nobody", "user": {} }],
            "contexts": [{ "name": "proxy", "context": { "cluster": "proxy", "user": "nobody" } }],
            "current-context": "proxy",
        });
        std::fs::write(&kubeconfig, text.to_string())?;

        let (changes, away) = (watch::Sender::new(0), watch::Sender::new(None));
        let shared = Shared { state: Arc::default(), changes, away };
        let server = tokio::spawn(serve(listener, shared.clone(), client));
        Ok(Self { shared, kubeconfig, server })
    }

    /// The kubeconfig for the collector.
    pub fn kubeconfig(&self) -> &Path {
        self.kubeconfig.path()
    }

    /// The current position in the record of requests, for [`since`](Self::since).
    pub fn mark(&self) -> usize {
        self.shared.look(|state| state.log.len())
    }

    /// The requests that match, in the order of their arrival.
    pub fn all(&self, on: &On) -> Vec<Exchange> {
        self.since(0, on)
    }

    /// The matching requests after a mark.
    pub fn since(&self, mark: usize, on: &On) -> Vec<Exchange> {
        self.shared.look(|state| {
            state.log.iter().skip(mark).filter(|exchange| on.means(&exchange.request)).cloned().collect()
        })
    }

    /// Waits until this many matching requests have been answered.
    pub async fn answered(&self, times: usize, on: &On) -> Result<()> {
        let is_answered = |exchange: &&Exchange| exchange.status.is_some() && on.means(&exchange.request);
        let what = format!("{times} answers to {on:?}");
        self.shared.until(&what, |state| state.log.iter().filter(is_answered).count() >= times).await
    }

    /// Waits until a resource is watched.
    pub async fn watching(&self, resource: &str) -> Result<()> {
        self.shared.until(&format!("a watch of {resource}"), |state| state.watching(resource) > 0).await
    }

    /// The resources that are watched.
    pub fn watched(&self) -> BTreeSet<String> {
        self.shared.look(|state| state.streams.iter().map(|stream| stream.resource.clone()).collect())
    }

    /// Ends the open watches of a resource, or of all, and returns their number.
    pub fn cut(&self, resource: Option<&str>, how: Cut) -> usize {
        self.shared.with(|state| {
            let (cut, kept) = std::mem::take(&mut state.streams)
                .into_iter()
                .partition(|stream| resource.is_none_or(|resource| stream.resource == resource));
            state.streams = kept;
            let cut: Vec<stream::Stream> = cut;
            cut.iter().filter(|stream| stream.orders.send(Order::End(how)).is_ok()).count()
        })
    }

    /// Repeats events from now on: after each event, the last `count` events are sent again, in
    /// order. 0 ends this.
    pub fn echo(&self, events: usize) {
        self.shared.with(|state| state.echo = events);
    }

    /// Drops all bookmarks from now on.
    pub fn drop_bookmarks(&self) {
        self.shared.with(|state| state.bookmarks_dropped = true);
    }

    /// Sends a bookmark in the open watches of a resource, and returns their number. The watches
    /// must have sent all events up to its version.
    pub fn bookmark(&self, api_version: &str, kind: &str, resource: &str, version: &str) -> usize {
        let line = stream::bookmark(api_version, kind, version);
        self.shared.look(|state| {
            let meant = state.streams.iter().filter(|stream| stream.resource == resource);
            meant.filter(|stream| stream.orders.send(Order::Show(line.clone())).is_ok()).count()
        })
    }
}

/// Kinds of outages of the API server. In all of them, open connections break when the outage
/// begins and when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Away {
    /// Connections are refused.
    Refuses,
    /// Connections are accepted, and requests are never answered.
    Hangs,
    /// Every request is answered with 503.
    Unavailable,
}

impl Proxy {
    /// Starts or ends an outage.
    pub fn away(&self, how: Option<Away>) {
        self.shared.away.send_replace(how);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(listener: TcpListener, shared: Shared, client: Client) {
    let Ok(address) = listener.local_addr() else { return };
    let mut listener = Some(listener);
    let mut away = shared.away.subscribe();
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
            Ok(()) = away.changed() => {
                connections.shutdown().await;
                if *away.borrow_and_update() == Some(Away::Refuses) {
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
                connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Answers one request.
async fn answer(shared: Shared, client: Client, incoming: http::Request<Incoming>) -> Result<Answer> {
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
    let away = *shared.away.borrow();
    match away {
        None => {}
        Some(Away::Refuses) => bail!("nobody is there"),
        Some(Away::Hangs) => std::future::pending::<()>().await,
        Some(Away::Unavailable) => {
            shared.answered(index, 503);
            return Reply::text(503, "nobody is there").into_response();
        }
    }
    let how = match rule {
        None => None,
        Some(Met::How(how)) => Some(how),
        Some(Met::Held(verdict)) => verdict.await.unwrap_or(None),
    };
    if let Some(How::Instead(reply)) = how {
        shared.answered(index, reply.status);
        return reply.into_response();
    }

    let inside = match shared.enter(&request) {
        Ok(inside) => inside,
        Err(reply) => {
            shared.answered(index, reply.status);
            return reply.into_response();
        }
    };
    if inside.is_some() {
        shared.deal_with_it().await;
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

    let is_watch = request.verb == Verb::Watch && head.status.is_success();
    let body: UnsyncBoxBody<Bytes, io::Error> = if is_watch {
        let (to, from) = mpsc::channel(16);
        shared.follow(index, request.resource, body, to);
        let frames = unfold(from, async |mut from| Some((from.recv().await?, from)));
        StreamBody::new(frames).boxed_unsync()
    } else {
        Full::new(body.collect_bytes().await?).map_err(|never: Infallible| match never {}).boxed_unsync()
    };
    match how {
        Some(How::After(reply)) => {
            shared.answered(index, reply.status);
            return reply.into_response();
        }
        Some(How::AnswerLost) => bail!("the answer is lost"),
        Some(How::AnswerLate) => tokio::time::sleep(rules::NEVER).await,
        Some(How::Instead(_)) | None => {}
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

/// The result of applying the rules to a request.
enum Met {
    How(How),
    Held(oneshot::Receiver<Option<How>>),
}

impl State {
    /// The first matching rule applies.
    fn rule_for(&mut self, request: &Request) -> Option<Met> {
        let rule = self.rules.iter_mut().find(|rule| rule.left != Some(0) && rule.on.means(request))?;
        rule.left = rule.left.map(|left| left - 1);
        rule.hits += 1;
        Some(match &rule.then {
            rules::Do::How(how) => Met::How(how.clone()),
            rules::Do::Hold(sender) => {
                let (verdict, held) = oneshot::channel();
                // Without a receiver, the request is forwarded.
                let _ = sender.send(Held { request: request.clone(), verdict });
                Met::Held(held)
            }
        })
    }
}

impl Shared {
    fn answered(&self, index: usize, status: u16) {
        self.with(|state| {
            let exchange = &mut state.log[index];
            (exchange.status, exchange.answered) = (Some(status), Some(Instant::now()));
        });
    }

    fn follow(&self, index: usize, resource: String, body: Body, to: stream::Sender) {
        let (orders, given) = mpsc::unbounded_channel();
        let id = self.with(|state| {
            state.last_id += 1;
            let id = state.last_id;
            state.streams.push(stream::Stream { id, resource: resource.clone(), orders });
            id
        });
        let shared = self.clone();
        tokio::spawn(async move {
            stream::forward(shared.clone(), index, resource, body, to, given).await;
            shared.with(|state| state.streams.retain(|stream| stream.id != id));
        });
    }
}

impl Reply {
    fn into_response(self) -> Result<Answer> {
        let mut response = Response::builder().status(self.status).header(CONTENT_TYPE, "application/json");
        if let Some(seconds) = self.retry_after {
            response = response.header(RETRY_AFTER, seconds);
        }
        let body = Full::new(self.body).map_err(|never: Infallible| match never {}).boxed_unsync();
        Ok(response.body(body)?)
    }
}
