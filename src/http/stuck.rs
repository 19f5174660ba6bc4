//! `/debug/stuck`: the objects that kube-gc cannot finish now, and why.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{ObjectView, Timestamp, parameters};
use crate::telemetry::StuckReason;
use kube_gc_core::object::{GroupResource, Namespace};

/// The filters of `/debug/stuck`. `None` matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StuckQuery {
    /// The object's namespace.
    pub namespace: Option<Namespace>,
    /// The object's type.
    pub resource: Option<GroupResource>,
    /// Why it is stuck.
    pub reason: Option<StuckReason>,
    /// The most entries to return.
    pub limit: Option<usize>,
}

impl StuckQuery {
    /// Reads the parameters of a request.
    pub(super) fn read(parameters: Vec<(String, String)>) -> Result<Self, String> {
        use parameters::{limit, namespace, resource, set, unknown};
        let mut query = Self::default();
        for (name, value) in parameters {
            match name.as_str() {
                "namespace" => set(&mut query.namespace, &name, namespace(&value))?,
                "resource" => set(&mut query.resource, &name, resource(&value))?,
                "reason" => set(&mut query.reason, &name, reason(&value))?,
                "limit" => set(&mut query.limit, &name, limit(&value))?,
                _ => return Err(unknown(&name)),
            }
        }
        Ok(query)
    }

    /// The most entries to return.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(parameters::DEFAULT_LIMIT)
    }
}

fn reason(value: &str) -> Result<StuckReason, String> {
    StuckReason::parse(value).ok_or_else(|| {
        let words: Vec<_> = StuckReason::ALL.iter().map(|reason| reason.as_str()).collect();
        format!("reason={value:?} must be one of {}", words.join(", "))
    })
}

/// The answer of `/debug/stuck`. The JSON fields are a public interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StuckPage {
    /// Whether this replica is a standby, so that it does not process objects.
    pub standby: bool,
    /// The number of objects by reason that match namespace and type, including those beyond
    /// the limit.
    pub totals: BTreeMap<&'static str, usize>,
    /// The matching objects, the longest wait first.
    pub stuck: Vec<StuckItem>,
}

/// A stuck object, on `/debug/stuck`. The JSON fields are a public interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StuckItem {
    /// The object.
    pub object: ObjectView,
    /// The reason, as in the metrics.
    pub reason: &'static str,
    /// Since when it has been stuck.
    pub since: Timestamp,
    /// The time since then.
    pub waiting_seconds: f64,
    /// Failed attempts in a row; `null` if there is nothing to retry.
    pub attempts: Option<u32>,
    /// Seconds until the next retry; 0 if a worker processes it or it is queued, `null` if it
    /// waits for a change in the cluster.
    pub next_retry_seconds: Option<f64>,
    /// The last error, in the server's own words, or what the object waits for.
    pub message: String,
    /// Some of the dependents that block it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked_by: Vec<ObjectView>,
    /// What a person can do about it.
    pub hint: &'static str,
}

/// What a person can do about objects that are stuck for this reason.
#[must_use]
pub const fn hint(reason: StuckReason) -> &'static str {
    match reason {
        StuckReason::Conflict => {
            "another client keeps changing this object; if this continues, find out which"
        }
        StuckReason::Denied => {
            "allow the write in the role, webhook or policy that the message names; kube-gc retries automatically"
        }
        StuckReason::Failed => {
            "the request failed: see the message, and the type in /debug/monitors; kube-gc retries \
             automatically"
        }
        StuckReason::Throttled => {
            "the API server is overloaded (429); kube-gc retries after the time in the response"
        }
        StuckReason::Panicked => "a bug in kube-gc: please report the panic in the log",
        StuckReason::Unresolved => {
            "make the API of the owner available again (/debug/discovery shows what fails), or remove \
             the owner reference"
        }
        StuckReason::NotObserved => {
            "the owner exists, but its monitor does not show it: see its type in /debug/monitors"
        }
        StuckReason::Blocked => {
            "look at the dependents that block it: they must be gone first, and most wait for the \
             finalizer of another controller"
        }
        StuckReason::Orphaning => {
            "its dependents are being released; if the message names a part of the API, make that available again \
             (see /debug/discovery and /debug/monitors)"
        }
        StuckReason::InvalidScope => {
            "remove the owner reference or name a cluster-scoped owner: otherwise the object is never collected"
        }
        StuckReason::Braked => {
            "find out what causes so many deletions; /readyz?verbose shows why the brake is engaged, and a person must resume deletion"
        }
        StuckReason::Deferred => {
            "the API server is unreachable, or requests of this kind hang in this namespace, perhaps in a \
             webhook, or the owner may still be in admission (graph.birth_grace): see the message; kube-gc \
             retries automatically"
        }
        StuckReason::UnseenWrite => "see its type in /debug/monitors: the watch has not shown the last write",
    }
}
