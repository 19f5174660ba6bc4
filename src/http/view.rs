//! What the debug pages show.

use std::collections::BTreeMap;
use std::fmt;
use std::time::SystemTime;

use serde::{Serialize, Serializer};

use kube_gc_core::object::{GroupResource, Identity, Key, Namespace, ResourceVersion};

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

/// An object. The fields are an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ObjectView {
    /// Resource and group as kubectl writes them: `pods`, `deployments.apps`.
    pub resource: String,
    /// The namespace; `null` for cluster-scoped objects.
    pub namespace: Option<String>,
    /// The name; `null` if nobody knows it any more.
    pub name: Option<String>,
    /// The uid.
    pub uid: String,
}

impl From<&Identity> for ObjectView {
    fn from(identity: &Identity) -> Self {
        Self { name: Some(identity.name.to_string()), ..Self::from(&identity.key()) }
    }
}

impl From<&Key> for ObjectView {
    fn from(key: &Key) -> Self {
        let Key { uid, resource, namespace } = key;
        Self {
            resource: resource.group_resource.to_string(),
            namespace: namespace.as_ref().map(Namespace::to_string),
            name: None,
            uid: uid.to_string(),
        }
    }
}

/// One monitor, on `/debug/monitors`. The fields are an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MonitorStatus {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version that is watched.
    pub version: String,
    /// The plural resource name.
    pub resource: String,
    /// Whether its list and everything since is in the graph.
    pub synced: bool,
    /// Since when it has been synced, or not.
    pub since: Timestamp,
    /// The last error, in the server's own words; `null` when there was none
    /// since it was synced last.
    pub last_error: Option<String>,
}

impl MonitorStatus {
    /// Group and resource as kubectl writes them.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.resource)
    }
}

/// A part of the API that cannot be discovered, on `/debug/discovery`. The fields
/// are an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Undiscovered {
    /// The API group; empty for the core group, `*` for the list of groups.
    pub group: String,
    /// The version; `null` for all of the group's.
    pub version: Option<String>,
    /// Since when.
    pub since: Timestamp,
    /// The last error, in the server's own words.
    pub last_error: String,
}

/// How `/debug/graph` shows the graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GraphFormat {
    /// Graphviz.
    #[default]
    Dot,
    /// JSON.
    Json,
}

/// What `/debug/idle` is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdleQuery {
    /// Versions that the watches must have reached: a client that has written
    /// something waits for the collector to have seen it.
    pub seen: Vec<(GroupResource, ResourceVersion)>,
    /// Whether objects that wait for the world to change (a kind to be served, an
    /// owner to be shown by its monitor) count as idle.
    pub parked_ok: bool,
}

/// How many keys a queue has, and where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueCounts {
    /// Wait for a worker.
    pub ready: usize,
    /// Are being worked on.
    pub processing: usize,
    /// Have failed and wait for their next attempt.
    pub delayed: usize,
    /// Wait for the world to change: a kind to be served, an owner to be shown.
    pub parked: usize,
}

/// The answer of `/debug/idle`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IdleReport {
    /// Nothing to do, and everything asked for was seen.
    pub idle: bool,
    /// Why not, for people.
    pub reasons: Vec<String>,
    /// Each queue by name.
    pub queues: BTreeMap<String, QueueCounts>,
    /// Own writes whose watch events have not come back yet.
    pub unseen_writes: usize,
    /// What was asked for in `seen` and was not seen, as `RESOURCE=VERSION`.
    pub not_seen: Vec<String>,
}

impl IdleReport {
    /// Judges: idle when no queue has anything to do, every write of ours was
    /// seen and `not_seen` is empty. `others` are further reasons against it
    /// (types still syncing, batches on their way to the graph).
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
                (processing, "being worked on"),
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
            reasons.push(format!("{unseen_writes} writes of our own were not seen by the watches yet"));
        }
        let not_seen: Vec<_> =
            not_seen.iter().map(|(resource, version)| format!("{resource}={version}")).collect();
        reasons.extend(not_seen.iter().map(|seen| format!("{seen} was not seen yet")));
        Self { idle: reasons.is_empty(), reasons, queues, unseen_writes, not_seen }
    }
}

/// One queue, on `/debug/queues`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueueStatus {
    /// The queue, as in the label `name` of the workqueue metrics.
    pub name: String,
    /// How many keys there are.
    #[serde(flatten)]
    pub counts: QueueCounts,
    /// How often a key was queued.
    pub adds_total: u64,
    /// How often the work on a key ended with another attempt to come.
    pub retries_total: u64,
    /// For how long the first key in line has waited.
    pub oldest_ready_seconds: Option<f64>,
    /// For how long the longest work under way has gone on.
    pub longest_running_seconds: Option<f64>,
    /// What has failed since it last succeeded, the most attempts first.
    pub failing: Vec<FailingItem>,
}

/// An object that keeps failing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailingItem {
    /// The object.
    pub object: String,
    /// How many times in a row.
    pub attempts: u32,
    /// When it first failed.
    pub since: Timestamp,
    /// What went wrong last, in the server's own words.
    pub last_error: String,
    /// In how many seconds it is tried again; `null`: it is queued or being worked on.
    pub next_retry_seconds: Option<f64>,
}
