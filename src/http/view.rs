//! The content of the debug pages.

use std::collections::BTreeMap;
use std::fmt;
use std::time::SystemTime;

use serde::{Serialize, Serializer};

use kube_gc_core::object::{GroupResource, Identity, Key, Namespace, ResourceVersion};
use kube_gc_core::text::word;

/// A point in time, in RFC 3339 to the second, as in Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub SystemTime);

impl Timestamp {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        Self(SystemTime::now())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&humantime::format_rfc3339_seconds(self.0), f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// An object. The JSON fields are a public interface. Names and uids of owners come from
/// references, where they can have any length, so they are truncated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ObjectView {
    /// Resource and group as kubectl writes them: `pods`, `deployments.apps`.
    pub resource: String,
    /// The namespace; `null` for cluster-scoped objects.
    pub namespace: Option<String>,
    /// The name; `null` if it is no longer known.
    pub name: Option<String>,
    /// The uid.
    pub uid: String,
}

impl From<&Identity> for ObjectView {
    fn from(identity: &Identity) -> Self {
        Self { name: Some(word(&identity.name).to_string()), ..Self::from(&identity.key()) }
    }
}

impl From<&Key> for ObjectView {
    fn from(key: &Key) -> Self {
        let Key { uid, resource, namespace } = key;
        Self {
            resource: resource.group_resource.to_string(),
            namespace: namespace.as_ref().map(Namespace::to_string),
            name: None,
            uid: uid.shown().to_string(),
        }
    }
}

/// An owner reference and its classification, on `/debug/decisions`. The JSON fields are a public interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OwnerView {
    /// `apiVersion` of the reference.
    pub api_version: String,
    /// `kind` of the reference.
    pub kind: String,
    /// `name` of the reference.
    pub name: String,
    /// `uid` of the reference.
    pub uid: String,
    /// Whether it blocks a foreground deletion of the owner.
    pub blocking: bool,
    /// Whether the owner is the managing controller.
    pub controller: bool,
    /// Its classification, such as `solid` or `absent`.
    pub class: String,
    /// The evidence for the classification.
    pub evidence: String,
    /// Why the lookup of the owner failed, in the server's own words.
    pub error: Option<String>,
}

/// One monitor, on `/debug/monitors`. The JSON fields are a public interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MonitorStatus {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version that is watched.
    pub version: String,
    /// The plural resource name.
    pub resource: String,
    /// Whether the graph contains its list and all later events.
    pub synced: bool,
    /// Since when it has been synced or not synced.
    pub since: Timestamp,
    /// The last error since it was last synced, in the server's own words; `null` if there was
    /// none.
    pub last_error: Option<String>,
    /// Since when it has failed, for `/readyz`.
    #[serde(skip)]
    pub failing_since: Option<Timestamp>,
}

impl MonitorStatus {
    /// Group and resource as kubectl writes them.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.resource)
    }
}

/// A part of the API that cannot be discovered, on `/debug/discovery`. The JSON
/// fields are a public interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Undiscovered {
    /// The API group; empty for the core group, `*` for the list of groups.
    pub group: String,
    /// The version; `null` for all versions of the group.
    pub version: Option<String>,
    /// Since when it cannot be discovered.
    pub since: Timestamp,
    /// The last error, in the server's own words.
    pub last_error: String,
}

/// The format of `/debug/graph`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GraphFormat {
    /// Graphviz.
    #[default]
    Dot,
    /// JSON.
    Json,
}

/// The parameters of `/debug/idle`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdleQuery {
    /// Versions that the watches must have reached, so that a client can wait until the
    /// collector has seen its writes.
    pub seen: Vec<(GroupResource, ResourceVersion)>,
    /// Whether parked objects, which wait for a change in the cluster, count as idle.
    pub parked_ok: bool,
}

/// The keys of a queue by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueCounts {
    /// Keys that wait for a worker.
    pub ready: usize,
    /// Keys that workers are processing.
    pub processing: usize,
    /// Keys that failed and wait for their next attempt.
    pub delayed: usize,
    /// Keys that wait for a change in the cluster: for a kind to be served, or for a monitor
    /// to show an owner.
    pub parked: usize,
}

/// The answer of `/debug/idle`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IdleReport {
    /// Whether no work is left and all versions in `seen` were reached.
    pub idle: bool,
    /// Why the collector is not idle, for people.
    pub reasons: Vec<String>,
    /// Each queue by name.
    pub queues: BTreeMap<String, QueueCounts>,
    /// Writes of the collector that its watches have not shown yet.
    pub unseen_writes: usize,
    /// The versions in `seen` that were not reached, as `RESOURCE=VERSION`.
    pub not_seen: Vec<String>,
}

impl IdleReport {
    /// The collector is idle if all queues are empty, its watches have shown all of its writes,
    /// and `not_seen` is empty. `others` are further reasons why it is not idle, such as types
    /// that are still syncing.
    #[must_use]
    pub fn judge(
        query: &IdleQuery,
        queues: BTreeMap<String, QueueCounts>,
        unseen_writes: usize,
        not_seen: &[(GroupResource, ResourceVersion)],
        others: Vec<String>,
    ) -> Self {
        let mut reasons = others;
        for (name, &QueueCounts { ready, processing, delayed, parked }) in &queues {
            let counts = [
                (ready, "ready"),
                (processing, "in progress"),
                (delayed, "waiting for their next attempt"),
                (if query.parked_ok { 0 } else { parked }, "parked"),
            ];
            reasons.extend(
                counts
                    .iter()
                    .filter(|(count, _)| *count > 0)
                    .map(|(count, how)| format!("{name}: {count} {how}")),
            );
        }
        if unseen_writes > 0 {
            reasons.push(format!("{unseen_writes} writes of kube-gc have not been seen by its watches yet"));
        }
        let not_seen: Vec<_> =
            not_seen.iter().map(|(resource, version)| format!("{resource}={version}")).collect();
        reasons.extend(not_seen.iter().map(|seen| format!("{seen} has not been seen yet")));
        Self { idle: reasons.is_empty(), reasons, queues, unseen_writes, not_seen }
    }
}

/// One queue, on `/debug/queues`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueueStatus {
    /// The queue, as in the label `name` of the workqueue metrics.
    pub name: String,
    /// The keys by state.
    #[serde(flatten)]
    pub counts: QueueCounts,
    /// The number of additions.
    pub adds_total: u64,
    /// How often work on a key ended with a retry to come.
    pub retries_total: u64,
    /// How long the oldest ready key has waited.
    pub oldest_ready_seconds: Option<f64>,
    /// How long the longest work in progress has taken so far.
    pub longest_running_seconds: Option<f64>,
    /// The keys whose last attempt failed, the most attempts first.
    pub failing: Vec<FailingItem>,
}

/// An object that keeps failing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailingItem {
    /// The object.
    pub object: ObjectView,
    /// Failed attempts in a row.
    pub attempts: u32,
    /// When it first failed.
    pub since: Timestamp,
    /// The last error, in the server's own words.
    pub last_error: String,
    /// Seconds until the next retry; `null` if it is queued or being processed.
    pub next_retry_seconds: Option<f64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(super) const fn is_zero(count: &usize) -> bool {
    *count == 0
}
