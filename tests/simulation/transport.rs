//! The collector's connection: a tower service that applies the faults of the network to each
//! request.

use std::fmt::Write as _;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use kube_gc_apiserver::ApiServer;
use kube_gc_apiserver::call::{ObjectPath, Target};
use kube_gc_apiserver::resources::ResourceName;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tower::{Service, ServiceExt as _};

use super::judge::Judge;
use super::lease::Lease;
use super::network::{Cut, Delay, EventEnd, Fate, Kind, Network, Refusal};
use super::sieve::Sieve;
use super::wire::{
    List, discovered_group, earlier, edited, kind_of, own_not_found, resource_of, shown, status, version,
};

/// The interval at which an unreachable server is tried again.
const NEXT_TRY: Duration = Duration::from_millis(300);

/// The connection of one collector to the server.
#[derive(Clone, Debug)]
pub struct Transport {
    server: ApiServer,
    network: Network,
    judge: Judge,
    lease: Lease,
    life: u64,
}

type Frames = BoxStream<'static, io::Result<Frame<Bytes>>>;
type Answer = Response<StreamBody<Frames>>;

impl Transport {
    /// The connection of the collector with this number.
    pub const fn new(server: ApiServer, network: Network, judge: Judge, lease: Lease, life: u64) -> Self {
        Self { server, network, judge, lease, life }
    }

    /// A client that uses this connection.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    async fn carry(self, request: Request<Body>) -> io::Result<Answer> {
        let (mut parts, body) = request.into_parts();
        let body = body.collect_bytes().await.map_err(io::Error::other)?;
        let kind = kind_of(&parts.method, &parts.uri);
        let path = parts.uri.path().to_owned();
        let resource = resource_of(&path);
        let mut line = format!("{} {}", parts.method, parts.uri);
        if !body.is_empty() {
            let _ = write!(line, " {}", String::from_utf8_lossy(&body));
        }
        if !self.network.is_alive(self.life) {
            return std::future::pending().await;
        }
        if kind == Kind::Write {
            self.lease.written(&line);
        }
        let (sent, stops) = (self.judge.now(), self.network.stops());
        let mut fate = self.network.fate(kind, &resource.plural, &line);
        let number = fate.number;
        let (discovered, away) = (discovered_group(&path), self.network.away());
        let group = discovered.clone().unwrap_or_else(|| Some(resource.group.to_string()));
        if group.is_some_and(|group| away.contains(&group)) {
            fate.before = fate.before.or(Some(Refusal::Code(503)));
        }
        if let Target::Objects(ObjectPath { namespace, .. }) = Target::parse(&path) {
            let webhook = self.network.asks_webhook(parts.method.as_str(), &resource.plural, namespace);
            fate.before = fate.before.or(webhook);
        }
        self.network.trace.note(format_args!("#{number} {line}"));
        if let (Some(delay), None) = (fate.delay, fate.before) {
            self.judge.notes(|sieve| sieve.failed(&path));
            tokio::spawn(self.carry_late(
                Request::from_parts(parts, Body::from(body)),
                number,
                sent,
                stops,
                delay,
            ));
            return std::future::pending().await;
        }
        sleep(fate.there).await;
        if self.network.stops() != stops {
            fate.before = Some(Refusal::Broken);
        }
        let fails = fate.before.or(fate.after).is_some();
        let is_list = matches!(kind, Kind::List | Kind::Stream);
        if (fails || fate.gone) && is_list {
            self.judge.listed(&resource, false);
        }
        if let Some(refusal) = fate.before {
            return self.refuse(&fate, &path, refusal, "without effect").await;
        }
        if fate.gone {
            return self.refuse(&fate, &path, Refusal::Code(410), "without effect").await;
        }
        if kind == Kind::Watch
            && let Some(uri) = earlier(&parts.uri, fate.repeated)
        {
            parts.uri = uri;
        }
        // Other lists look for one thing only: the version, or the dependents of an owner.
        let changes =
            matches!(&parts.method, &Method::DELETE | &Method::PATCH) && &*resource.plural != "events";
        if changes {
            self.judge.notes(Sieve::arrives);
        }
        let follows = parts.uri.query().is_some_and(|query| query.contains("resourceVersion="));
        let served = Request::from_parts(parts, Body::from(body));
        let answer = self.server.clone().oneshot(served).await;
        self.judge.look_at(sent);
        let answer = answer.map_err(io::Error::other)?;
        if changes && answer.status().is_success() {
            self.judge.notes(|sieve| sieve.written(&path));
        }
        sleep(fate.back).await;
        if self.network.stops() != stops {
            fate.after = Some(Refusal::Broken);
        }
        if let Some(refusal) = fate.after {
            return self.refuse(&fate, &path, refusal, "after its effect").await;
        }
        let (parts, body) = answer.into_parts();
        if matches!(kind, Kind::Watch | Kind::Stream) && parts.status.is_success() {
            self.network.trace.note(format_args!("#{number} begins"));
            let listing = kind == Kind::Stream;
            let events = self.watch(number, resource, listing, body);
            return Ok(Response::from_parts(parts, StreamBody::new(events)));
        }
        let mut whole = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let omitted = self.network.omitted();
        if let Some(group) = &discovered
            && !(omitted.is_empty() && away.is_empty())
        {
            whole = edited(&whole, group.as_deref(), &omitted, &away).unwrap_or(whole);
        }
        self.network.trace.note(format_args!("#{number} → {}, {} bytes", parts.status.as_u16(), whole.len()));
        self.network.trace.bytes(&whole);
        if is_list {
            match serde_json::from_slice::<List>(&whole) {
                Ok(List { metadata }) if parts.status.is_success() => {
                    let is_last = metadata["continue"].as_str().unwrap_or_default().is_empty();
                    let version = version(&metadata).unwrap_or_default();
                    self.judge.shown_store_version(&resource, version, is_last && follows);
                    if is_last {
                        self.judge.listed(&resource, true);
                    }
                }
                _ => self.judge.listed(&resource, false),
            }
        }
        Ok(Response::from_parts(parts, once(whole)))
    }

    /// Carries a write that arrives after its client has given up.
    async fn carry_late(self, request: Request<Body>, number: u64, sent: Duration, stops: u64, delay: Delay) {
        let Self { server, network, judge, .. } = self;
        sleep(delay.time).await;
        while network.is_dark() {
            sleep(NEXT_TRY).await;
        }
        if network.stops() != stops && !delay.outlives {
            network.trace.note(format_args!("#{number} is lost"));
            return;
        }
        let answer = server.oneshot(request).await;
        judge.look_at(sent);
        let code = answer.map_or(0, |answer| answer.status().as_u16());
        network.trace.note(format_args!("#{number} → {code}, late"));
    }

    async fn refuse(&self, fate: &Fate, path: &str, refusal: Refusal, when: &str) -> io::Result<Answer> {
        self.network.trace.note(format_args!("#{} → {refusal:?}, {when}", fate.number));
        self.judge.notes(|sieve| sieve.failed(path));
        match refusal {
            Refusal::Broken => Err(io::ErrorKind::ConnectionReset.into()),
            Refusal::Silence => std::future::pending().await,
            Refusal::SaysGone => {
                let answer = Response::builder().status(404).header("content-type", "application/json");
                answer.body(once(own_not_found(path).to_string().into())).map_err(io::Error::other)
            }
            Refusal::Code(code) => {
                let status = status(code).to_string();
                let mut answer = Response::builder().status(code).header("content-type", "application/json");
                if code == 429 {
                    answer = answer.header("retry-after", "1");
                }
                answer.body(once(status.into())).map_err(io::Error::other)
            }
        }
    }

    /// The events of a watch, with their delays.
    fn watch<B>(self, number: u64, resource: ResourceName, listing: bool, body: B) -> Frames
    where
        B: http_body::Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
            + Send
            + 'static,
    {
        let cuts = self.network.cuts();
        let frames = body.into_data_stream().map(|data| data.map_err(io::Error::other)).boxed();
        let events = Events { transport: self, number, resource, listing, cuts, frames, over: false };
        futures::stream::unfold(Some(events), |events| async {
            let mut events = events?;
            let next = events.next().await;
            if events.listing && (next.is_err() || events.over) {
                events.transport.judge.listed(&events.resource, false);
            }
            match next {
                Ok(data) => Some((Ok(Frame::data(data)), Some(events))),
                Err(true) => None,
                Err(false) => Some((Err(io::Error::other("connection reset")), None)),
            }
        })
        .boxed()
    }
}

/// A watch that is being read.
struct Events {
    transport: Transport,
    number: u64,
    resource: ResourceName,
    /// The bookmark that ends a streamed list has not come yet.
    listing: bool,
    cuts: broadcast::Receiver<Cut>,
    frames: BoxStream<'static, io::Result<Bytes>>,
    over: bool,
}

impl Events {
    /// The next event. The error says whether the watch ended cleanly.
    async fn next(&mut self) -> Result<Bytes, bool> {
        if self.over {
            return Err(true);
        }
        let network = self.transport.network.clone();
        let next = async {
            let data = match self.frames.next().await {
                None => return Err(true),
                Some(Err(_)) => return Err(false),
                Some(Ok(data)) => data,
            };
            let (late, end) = network.event(&self.resource.plural);
            sleep(late).await;
            if !network.is_alive(self.transport.life) {
                return std::future::pending().await;
            }
            network.trace.note(format_args!(
                "#{} {}",
                self.number,
                String::from_utf8_lossy(&data).trim_end()
            ));
            match end {
                None => {}
                Some(EventEnd::Gone) => {
                    self.over = true;
                    return Ok(format!("{}\n", json!({ "type": "ERROR", "object": status(410) })).into());
                }
                Some(end) => return Err(end == EventEnd::Clean),
            }
            let (shown, judge) = (shown(&data), &self.transport.judge);
            let is_end = |of: &&Value| of["annotations"]["k8s.io/initial-events-end"] == "true";
            if let Some(version) = shown.iter().find(is_end).and_then(version).filter(|_| self.listing) {
                self.listing = false;
                judge.shown_store_version(&self.resource, version, true);
                judge.listed(&self.resource, true);
            }
            // Before the end of the list, its objects come in no order.
            for version in shown.iter().filter_map(version).filter(|_| !self.listing) {
                judge.shown(&self.resource, version);
            }
            Ok(data)
        };
        tokio::select! {
            // A cut comes before events in flight, which are lost.
            biased;
            clean = cut_of(&mut self.cuts, &self.resource.plural) => {
                network.trace.note(format_args!("#{} is cut", self.number));
                Err(clean)
            }
            event = next => event,
        }
    }
}

/// Resolves when watches of this type are cut.
async fn cut_of(cuts: &mut broadcast::Receiver<Cut>, plural: &str) -> bool {
    loop {
        match cuts.recv().await {
            Ok(cut) if cut.plural.as_ref().is_none_or(|cut| cut == plural) => return cut.clean,
            Ok(_) => {}
            // After so many cuts, one of them was for this watch, too.
            Err(RecvError::Lagged(_)) => return false,
            Err(RecvError::Closed) => return std::future::pending().await,
        }
    }
}

impl Service<Request<Body>> for Transport {
    type Response = Answer;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Answer>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.clone().carry(request).boxed()
    }
}

fn once(body: Bytes) -> StreamBody<Frames> {
    StreamBody::new(futures::stream::once(async { Ok(Frame::data(body)) }).boxed())
}

/// Sleeping for zero time would still be a turn of the timers.
async fn sleep(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}
