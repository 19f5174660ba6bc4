//! Follows the pods of one node: one list, then a watch from there on.
//!
//! What it knows may be behind, as any cache. So it proves nothing: before a pod counts as gone and
//! before an image is removed, a consistent list is read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::decode::Object;
use super::{ListedPods, MOST_PODS, of_node};
use crate::api::call::Call;
use crate::api::client::Api;
use crate::api::error::{self, ApiError, ErrorClass, NO_TEXT};
use crate::api::error_chain::error_chain;
use crate::api::media_type::JSON;
use crate::api::path;
use crate::api::settings::Verb;
use kube_gc_core::object::GroupResource;
use kube_gc_decode::{Encoding, Keyed, LineSplitter, Status, json_fault};
use kube_gc_node::view::Pod;

/// The longest event. etcd stores no object of this size.
const LONGEST_EVENT: usize = 16 << 20;
/// After so many failures in a row, the pods are listed again.
const MOST_FAILURES: u32 = 2;

/// Follows the pods of one node until its last clone is dropped.
#[derive(Clone, Debug)]
pub struct PodWatch(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    known: watch::Receiver<Known>,
    limit: Duration,
    task: AbortHandle,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What is known of the pods.
#[derive(Debug, Default)]
struct Known {
    /// By uid.
    pods: BTreeMap<String, Pod>,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    /// They were not listed yet.
    #[default]
    Unlisted,
    /// They were listed, and a watch follows them.
    Current,
    /// They cannot be listed or watched now.
    Failed(ApiError),
}

impl Api {
    /// Follows the pods that are bound to a node.
    #[must_use]
    pub fn watch_pods(&self, node: &str) -> PodWatch {
        let (sender, known) = watch::channel(Known::default());
        let follower = Follower {
            api: self.clone(),
            node: node.to_owned(),
            resource: GroupResource::new("", "pods"),
            known: sender,
        };
        let task = tokio::spawn(follower.run().boxed()).abort_handle();
        PodWatch(Arc::new(Inner { known, limit: self.settings().request_timeout, task }))
    }
}

impl PodWatch {
    /// The pods, as far as they are known. Waits for the first list.
    ///
    /// # Errors
    ///
    /// The pods cannot be listed or watched now.
    pub async fn pods(&self) -> Result<Vec<Pod>, ApiError> {
        let mut known = self.0.known.clone();
        let is_listed = |known: &Known| !matches!(known.state, State::Unlisted);
        let waited = tokio::time::timeout(self.0.limit, known.wait_for(is_listed)).await;
        let failed = |message: &str| ApiError {
            class: ErrorClass::Transient,
            action: "LIST",
            target: "pods of this node".to_owned(),
            message: message.to_owned(),
            code: None,
        };
        let known = waited.map_err(|_| failed("no list within the time limit"))?;
        let known = known.map_err(|_| failed("the watch has ended unexpectedly"))?;
        match &known.state {
            State::Failed(error) => Err(error.clone()),
            State::Unlisted | State::Current => Ok(known.pods.values().cloned().collect()),
        }
    }
}

/// Lists and watches, again and again.
struct Follower {
    api: Api,
    node: String,
    resource: GroupResource,
    known: watch::Sender<Known>,
}

/// How far a follower has come.
#[derive(Default)]
struct Position {
    /// The version from which a watch goes on; nothing before a list.
    version: Option<String>,
    /// How many requests in a row have failed.
    failures: u32,
}

/// An event of a watch. Its object is read by its type.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl Follower {
    async fn run(self) {
        let mut position = Position::default();
        loop {
            let began = Instant::now();
            let watches = position.version.is_some();
            let ended =
                if watches { self.watch(&mut position).await } else { self.list(&mut position).await };
            match ended {
                // A server that closes each watch at once is not flooded.
                Ok(()) if watches => sleep_until(began + self.api.settings().watch.least_interval).await,
                Ok(()) => {}
                Err(error) => {
                    tracing::debug!(%error, "the pods of this node are not watched now");
                    position.failures += 1;
                    // A broken connection loses nothing. After anything else, the version may not be
                    // usable any more.
                    if error.class != ErrorClass::Transient || position.failures >= MOST_FAILURES {
                        position.version = None;
                    }
                    self.known.send_modify(|known| known.state = State::Failed(error));
                    self.pause(position.failures).await;
                }
            }
        }
    }

    async fn pause(&self, failures: u32) {
        if self.api.is_unreachable() {
            return self.api.reachable().await;
        }
        let timing = &self.api.settings().watch;
        let longest = timing.least_backoff.saturating_mul(1 << failures.min(10)).min(timing.greatest_backoff);
        sleep(self.api.jitter().within(&(longest / 2..longest))).await;
    }

    /// Lists the pods from the API server's cache.
    async fn list(&self, position: &mut Position) -> Result<(), ApiError> {
        let ListedPods { pods, resource_version } = self.api.list_pods(&self.node, false).await?;
        position.version = Some(resource_version);
        let mut known = BTreeMap::new();
        // `collect` would contain a sort of its own.
        known.extend(pods.into_iter().map(|pod| (pod.pod.uid.clone(), pod)));
        self.known.send_replace(Known { pods: known, state: State::Current });
        Ok(())
    }

    /// Watches until the server ends the watch.
    async fn watch(&self, position: &mut Position) -> Result<(), ApiError> {
        let timing = &self.api.settings().watch;
        let lasting = self.api.jitter().within(&(timing.shortest..timing.longest));
        let mut path =
            format!("/api/v1/pods?watch=1&allowWatchBookmarks=true&timeoutSeconds={}", lasting.as_secs());
        of_node(&mut path, &self.node);
        path.push_str("&resourceVersion=");
        path::encode(&mut path, position.version.as_deref().unwrap_or_default());
        let mut call = Call::get(Verb::Watch, path, JSON, &self.resource);
        (call.action, call.target) = ("WATCH", self.target());
        let deadline = Instant::now() + lasting + timing.grace;
        let response = Box::pin(self.api.open(call)).await?;
        if Encoding::of(response.headers()) != Encoding::Json {
            return Err(self.error(ErrorClass::Unusable, "the response is not JSON"));
        }
        self.known.send_modify(|known| known.state = State::Current);
        let mut body = response.into_body();
        let mut lines = LineSplitter::new(LONGEST_EVENT);
        loop {
            let frame = match timeout_at(deadline, body.frame()).await {
                Err(_) => return Err(self.error(ErrorClass::Transient, "the watch did not end in time")),
                Ok(None) => {
                    position.failures = 0;
                    return Ok(());
                }
                Ok(Some(Err(error))) => return Err(self.error(ErrorClass::Transient, error_chain(&error))),
                Ok(Some(Ok(frame))) => frame,
            };
            let Ok(data) = frame.into_data() else { continue };
            lines.feed(&data);
            loop {
                let line = lines.next_line();
                match line.map_err(|error| self.error(ErrorClass::Unusable, error.to_string()))? {
                    Some(line) => self.event(&line, position)?,
                    None => break,
                }
            }
        }
    }

    /// Applies an event. One that cannot be read is an error, because it may be anything.
    fn event(&self, line: &[u8], position: &mut Position) -> Result<(), ApiError> {
        let unusable = |error: &serde_json::Error| self.error(ErrorClass::Unusable, json_fault(error));
        let Keyed(Event { kind, object }) = serde_json::from_slice(line).map_err(|error| unusable(&error))?;
        // As bytes, as in a list: the program then has the code that reads a pod once.
        let object = object.get().as_bytes();
        if kind == "ERROR" {
            let Keyed(status): Keyed<Status> =
                serde_json::from_slice(object).map_err(|error| unusable(&error))?;
            let class = error::classify(status.code, &status, None, None);
            let code = (status.code != 0).then_some(status.code);
            return Err(ApiError { code, ..self.error(class, error::message(&status, NO_TEXT)) });
        }
        let Keyed(object): Keyed<Object> =
            serde_json::from_slice(object).map_err(|error| unusable(&error))?;
        let version = object.metadata.resource_version.clone();
        if version.is_empty() || (kind != "BOOKMARK" && object.metadata.uid.is_empty()) {
            return Err(self.error(ErrorClass::Unusable, "an event has no version or no uid"));
        }
        match kind {
            "BOOKMARK" => {}
            "ADDED" | "MODIFIED" => {
                let pod = object.into_pod();
                let mut is_full = false;
                self.known.send_modify(|known| {
                    known.pods.insert(pod.pod.uid.clone(), pod);
                    is_full = known.pods.len() > MOST_PODS;
                });
                if is_full {
                    return Err(self.error(ErrorClass::Unusable, format!("more than {MOST_PODS} pods")));
                }
            }
            "DELETED" => self.known.send_modify(|known| {
                known.pods.remove(&object.metadata.uid);
            }),
            _ => return Err(self.error(ErrorClass::Unusable, "an event is of an unknown type")),
        }
        (position.version, position.failures) = (Some(version), 0);
        Ok(())
    }

    fn error(&self, class: ErrorClass, message: impl Into<String>) -> ApiError {
        ApiError { class, action: "WATCH", target: self.target(), message: message.into(), code: None }
    }

    fn target(&self) -> String {
        format!("pods of node {}", kube_gc_core::text::word(&self.node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::scripted::{Part, Reply, Server, lines};

    const LIST: &str = r#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[
        {"metadata":{"namespace":"default","name":"a","uid":"a","resourceVersion":"5"}}]}"#;

    fn event(kind: &str, name: &str, version: u32) -> String {
        format!(
            r#"{{"type":"{kind}","object":{{"metadata":{{"namespace":"default","name":"{name}","uid":"{name}","resourceVersion":"{version}"}}}}}}"#
        )
    }

    /// Waits until these pods are known.
    async fn known(watch: &PodWatch, wanted: &[&str]) {
        let mut known = watch.0.known.clone();
        let found =
            known.wait_for(|known| known.pods.keys().eq(wanted) && matches!(known.state, State::Current));
        found.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn one_list_and_then_events_and_a_broken_watch_goes_on_where_it_was() {
        let (added, deleted) = (event("ADDED", "b", 8), event("DELETED", "a", 9));
        let bookmark = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"12"}}}"#;
        let server = Server::replying([
            Reply::ok(LIST),
            Reply::stream([lines([&added, &deleted, bookmark]), Part::Break]),
            Reply::stream([lines([&event("ADDED", "c", 13)]), Part::Hang]),
        ]);
        let watch = server.api().watch_pods("node-1");
        known(&watch, &["b", "c"]).await;
        assert_eq!(watch.pods().await.unwrap().len(), 2);
        let seen = server.seen();
        assert_eq!(seen.iter().filter(|seen| seen.query("watch").is_none()).count(), 1);
        assert_eq!(seen[1].query("resourceVersion"), Some("7"));
        assert_eq!(seen[2].query("resourceVersion"), Some("12"));
        assert!(seen.iter().all(|seen| seen.query("fieldSelector") == Some("spec.nodeName%3Dnode-1")));
    }

    #[tokio::test(start_paused = true)]
    async fn an_expired_version_and_an_event_that_cannot_be_read_cause_a_new_list() {
        let expired = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#;
        let without_uid = r#"{"type":"DELETED","object":{"metadata":{"resourceVersion":"8"}}}"#;
        for bad in [expired, without_uid, "{}", "[]", &event("OTHER", "a", 8), &event("ADDED", "b", 8)[1..]] {
            let server = Server::replying([
                Reply::ok(LIST),
                Reply::stream([lines([bad]), Part::Hang]),
                Reply::ok(LIST.replace("\"a\"", "\"d\"")),
            ]);
            let watch = server.api().watch_pods("node-1");
            known(&watch, &["d"]).await;
            let lists = server.seen().iter().filter(|seen| seen.query("watch").is_none()).count();
            assert_eq!(lists, 2, "{bad}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn while_nothing_can_be_listed_or_watched_the_pods_are_not_known() {
        let forbidden = || Reply::status(403, "pods is forbidden", "{}");
        let server = Server::answering(move |_| forbidden());
        let watch = server.api().watch_pods("node-1");
        assert_eq!(watch.pods().await.unwrap_err().class, ErrorClass::Denied);
        // The list works, and then the watch is forbidden.
        let server =
            Server::answering(
                move |seen| {
                    if seen.query("watch").is_some() { forbidden() } else { Reply::ok(LIST) }
                },
            );
        let watch = server.api().watch_pods("node-1");
        let mut failed = watch.0.known.clone();
        failed.wait_for(|known| matches!(known.state, State::Failed(_))).await.unwrap();
        assert!(watch.pods().await.is_err());
        // A server that never answers is an error, too.
        let server = Server::answering(|_| Reply::never());
        assert!(server.api().watch_pods("node-1").pods().await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_without_users_ends() {
        let server = Server::replying([Reply::ok(LIST), Reply::stream([Part::Hang])]);
        let watch = server.api().watch_pods("node-1");
        known(&watch, &["a"]).await;
        let task = watch.0.task.clone();
        drop(watch);
        while !task.is_finished() {
            tokio::task::yield_now().await;
        }
    }
}
