//! The cluster of one run: the server, what users know of it, and their requests.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube_gc_apiserver::resources::ResourceName;
use kube_gc_apiserver::store::Snapshot;
use kube_gc_apiserver::{ApiServer, Release, Settings};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

use super::admission::Webhooks;
use super::judge::Judge;
use super::lease::Lease;
use super::network::Network;
use super::plan::Plan;
use super::random::Random;
use super::trace::Trace;
use super::types::{self, Found, NAMESPACES, Type};

/// How many references to deleted objects are remembered.
const GHOSTS: usize = 32;
/// The user agent of users.
const USER_AGENT: &str = "people";

/// The cluster.
#[derive(Debug)]
pub struct World {
    /// The server.
    pub server: ApiServer,
    /// The collector's network.
    pub network: Network,
    /// Admission.
    pub webhooks: Webhooks,
    /// Objects that are in admission.
    pub births: Vec<JoinHandle<()>>,
    /// The judge, which observes every change.
    pub judge: Judge,
    /// The lease, which decides whether the collector may write.
    pub lease: Lease,
    /// The plan of the run.
    pub plan: Plan,
    /// The types in use.
    pub types: Vec<&'static Type>,
    /// The namespaces in use.
    pub namespaces: Vec<String>,
    /// References to objects that once existed.
    pub ghosts: VecDeque<Value>,
    /// Types that the collector ignores.
    pub ignored: Vec<ResourceName>,
    /// Types whose watch cache is stopped.
    pub frozen: Vec<&'static Type>,
    /// The last backup of the store.
    pub backup: Option<Snapshot>,
    /// Whether the store was restored. A run restores it at most once.
    pub is_restored: bool,
    /// Whether the collector is to be killed, as soon as the step ends.
    pub is_killed: bool,
    last: u64,
}

impl World {
    /// A running cluster with the objects that exist before the first step.
    pub async fn start(seed: u64, plan: Plan, trace: Trace) -> Self {
        let random = &mut Random::new(seed).split("world", 0);
        let settings = Settings {
            seed,
            release: if plan.old_release { Release::V1_20 } else { Release::V1_36 },
            namespace_controller: plan.namespace_controller,
            history: plan.history,
            journal: true,
            ..Settings::default()
        };
        let namespaces = ["default", "shop", "team"].into_iter().take(plan.namespaces);
        let server = ApiServer::new(settings);
        let types = types::draw(random);
        let ignored = ignored(&server, &types, plan.watch_all);
        let webhooks = Webhooks::default();
        webhooks.watch_over(&server);
        let running = server.clone();
        tokio::spawn(async move { running.run().await });
        let mut world = Self {
            lease: Lease::new(plan.is_leased),
            judge: Judge::new(server.clone(), ignored.clone(), plan.remembered),
            server,
            webhooks,
            births: Vec::new(),
            ignored,
            network: Network::new(trace),
            types,
            namespaces: namespaces.map(ToOwned::to_owned).collect(),
            ghosts: VecDeque::new(),
            frozen: Vec::new(),
            backup: None,
            is_restored: false,
            is_killed: false,
            last: 0,
            plan,
        };
        for name in world.namespaces.clone() {
            let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
            world.create(&NAMESPACES, None, &namespace).await;
        }
        for of in world.types.clone().into_iter().filter(|of| of.custom) {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            world.request(Method::POST, path, "application/json", &of.definition()).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.judge.look();
        world
    }

    /// Sends a request of a user.
    pub async fn request(
        &mut self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> (u16, Value) {
        self.person().request(method, path, content_type, body).await
    }

    /// Creates an object that waits in admission.
    pub fn create_later(&mut self, path: String, object: Value) {
        let person = self.person();
        self.births.push(tokio::spawn(async move {
            person.request(Method::POST, &path, "application/json", &object).await;
        }));
    }

    /// Waits until no object is in admission any more.
    pub async fn are_born(&mut self) {
        for birth in self.births.drain(..) {
            // A panic is reported elsewhere.
            let _ = birth.await;
        }
    }

    /// Somebody who sends the next request.
    fn person(&mut self) -> Person {
        self.last += 1;
        let (server, judge) = (self.server.clone(), self.judge.clone());
        Person { number: self.last, server, judge, trace: self.network.trace.clone() }
    }

    /// Creates an object and returns it if that succeeded.
    pub async fn create(&mut self, of: &Type, namespace: Option<&str>, object: &Value) -> Option<Value> {
        let path = of.path(namespace, None);
        let (code, created) = self.request(Method::POST, &path, "application/json", object).await;
        (code == 201).then_some(created)
    }

    /// Changes an object by a JSON merge patch.
    pub async fn merge(&mut self, found: &Found, patch: &Value) -> bool {
        let merge = "application/merge-patch+json";
        let (code, _) = self.request(Method::PATCH, &found.path(), merge, patch).await;
        code == 200
    }

    /// Remembers a reference to an object that may soon be deleted.
    pub fn remember(&mut self, found: &Found) {
        if self.ghosts.len() >= GHOSTS {
            self.ghosts.pop_front();
        }
        self.ghosts.push_back(found.reference());
    }

    /// All objects of the types in use.
    pub fn objects(&self) -> Vec<Found> {
        let objects = |of: &&'static Type| {
            let (of, name) = (*of, of.name());
            self.server.with(|server| {
                let found = server.store.objects(&name);
                found
                    .map(|(key, object)| Found { of, key: key.clone(), object: object.clone() })
                    .collect::<Vec<_>>()
            })
        };
        self.types.iter().flat_map(objects).collect()
    }

    /// The namespaces that may be deleted.
    pub fn fleeting_namespaces(&self) -> Vec<Found> {
        let name = NAMESPACES.name();
        self.server.with(|server| {
            let all = server.store.objects(&name);
            let found = all.filter(|(key, _)| self.namespaces.iter().skip(1).any(|name| **name == *key.name));
            found
                .map(|(key, object)| Found { of: &NAMESPACES, key: key.clone(), object: object.clone() })
                .collect()
        })
    }

    /// The latest version of the store.
    pub fn head(&self) -> u64 {
        self.server.with(|server| server.store.head())
    }

    /// Stops the watch cache of a type, or lets it continue.
    pub fn toggle_frozen(&mut self, of: &'static Type) {
        let name = of.name();
        if let Some(place) = self.frozen.iter().position(|frozen| *frozen == of) {
            self.frozen.remove(place);
            self.server.with(|server| server.store.thaw(&name));
        } else {
            self.frozen.push(of);
            self.server.with(|server| server.store.freeze(&name));
        }
        self.network.trace.note(format_args!("the caches of {:?} stand still", self.frozen));
    }

    /// From now on, a server whose cache is at this version answers for a type.
    pub fn fall_behind(&mut self, of: &'static Type, version: u64) {
        if self.server.with(|server| server.store.fall_behind(&of.name(), version)) {
            self.frozen.push(of);
            self.network.trace.note(format_args!("the cache of {} is back at {version}", of.plural));
        }
    }

    /// Ends all faults.
    pub fn heal(&mut self) {
        self.network.heal();
        self.webhooks.heal();
        self.lease.heal();
        for of in self.frozen.clone() {
            self.toggle_frozen(of);
        }
    }

    /// A namespace for a new object of a type.
    pub fn place(&self, of: &Type, random: &mut Random) -> Option<String> {
        of.namespaced.then(|| random.pick(&self.namespaces).cloned()).flatten()
    }

    /// A random name.
    pub fn name(&self, random: &mut Random) -> String {
        format!("n{}", random.below(self.plan.names))
    }
}

/// Somebody who sends a request.
struct Person {
    number: u64,
    server: ApiServer,
    judge: Judge,
    trace: Trace,
}

impl Person {
    async fn request(self, method: Method, path: &str, content_type: &str, body: &Value) -> (u16, Value) {
        let Self { number, server, judge, trace } = self;
        let bytes = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        trace.note(format_args!("people {number}: {method} {path} {}", String::from_utf8_lossy(&bytes)));
        let (code, answer) = match send(server, method, path, content_type, bytes).await {
            Ok(answer) => answer,
            Err(error) => (0, Value::String(error.to_string())),
        };
        judge.look();
        let why = answer.get("message").and_then(Value::as_str).unwrap_or_default();
        trace.note(format_args!("people {number} → {code} {why}"));
        (code, answer)
    }
}

async fn send(
    server: ApiServer,
    method: Method,
    path: &str,
    content_type: &str,
    body: Bytes,
) -> anyhow::Result<(u16, Value)> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("accept", "application/json")
        .header("user-agent", USER_AGENT)
        .header("content-type", content_type)
        .body(Body::from(body))?;
    let answer = server.oneshot(request).await?;
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok((code, serde_json::from_slice(&body.to_bytes()).unwrap_or_default()))
}

/// Events and, because watching unused types takes most of the time, all types that are neither
/// in use nor needed for discovery.
fn ignored(server: &ApiServer, types: &[&'static Type], watch_all: bool) -> Vec<ResourceName> {
    let needed = ["namespaces", "customresourcedefinitions.apiextensions.k8s.io"];
    let is_ignored = |name: &ResourceName| {
        let text = name.to_string();
        let used = types.iter().any(|of| of.name() == *name) || needed.contains(&&*text);
        matches!(&*text, "events" | "events.events.k8s.io") || !used && !watch_all
    };
    let all = |server: &mut kube_gc_apiserver::server::Server| {
        server.catalog.all().map(|resource| resource.name.clone()).filter(is_ignored).collect()
    };
    server.with(all)
}
