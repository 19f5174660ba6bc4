//! `/debug/stuck`: what cannot be finished now, and why.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{ObjectView, Timestamp, parameters};
use crate::telemetry::StuckReason;
use kube_gc_core::object::{GroupResource, Namespace};

/// What `/debug/stuck` is asked. What is not given is not asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StuckQuery {
    /// The object's namespace.
    pub namespace: Option<Namespace>,
    /// The object's type.
    pub resource: Option<GroupResource>,
    /// Why it is stuck.
    pub reason: Option<StuckReason>,
    /// How many at most.
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

    /// How many entries at most.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(parameters::LIMIT)
    }
}

fn reason(value: &str) -> Result<StuckReason, String> {
    StuckReason::parse(value).ok_or_else(|| {
        let words: Vec<_> = StuckReason::ALL.iter().map(|reason| reason.as_str()).collect();
        format!("reason={value:?} is none of {}", words.join(", "))
    })
}

/// The answer of `/debug/stuck`. The fields are an interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StuckPage {
    /// Whether another replica has the work to do, so that nothing moves here.
    pub standby: bool,
    /// How many there are by reason, of the namespace and type that were asked for, also
    /// where more of them are than are shown.
    pub totals: BTreeMap<&'static str, usize>,
    /// Those that were asked for, the longest wait first.
    pub stuck: Vec<StuckItem>,
}

/// An object that cannot be finished, on `/debug/stuck`. The fields are an interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StuckItem {
    /// The object.
    pub object: ObjectView,
    /// Why, in a word.
    pub reason: &'static str,
    /// Since when.
    pub since: Timestamp,
    /// For how long.
    pub waiting_seconds: f64,
    /// How many times it was tried in a row; `null` where there is nothing to try.
    pub attempts: Option<u32>,
    /// In how many seconds it is tried again, 0 if it is being tried or waits for a
    /// worker; `null` where it waits for the world to change.
    pub next_retry_seconds: Option<f64>,
    /// What went wrong last, in the server's own words, or what it waits for.
    pub message: String,
    /// Some of the dependents that block it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked_by: Vec<ObjectView>,
    /// What to do about it.
    pub hint: &'static str,
}

/// What to do about objects that are stuck for this reason.
#[must_use]
pub const fn hint(reason: StuckReason) -> &'static str {
    match reason {
        StuckReason::Conflict => {
            "somebody writes this object whenever it is decided on; if this goes on, find out who"
        }
        StuckReason::Denied => {
            "allow it where the message says: the role, the webhook or the policy; it is tried again by itself"
        }
        StuckReason::Failed => {
            "the API server could not do it: see the message, and /debug/monitors for its type; it is tried \
             again by itself"
        }
        StuckReason::Throttled => "the API server has too much to do; it is tried again when it said",
        StuckReason::Panicked => "a defect of kube-gc: the log has the panic, please report it",
        StuckReason::Unresolved => {
            "make what the owner reference names available again (/debug/discovery has what fails), or remove \
             the reference"
        }
        StuckReason::NotObserved => {
            "the owner exists and its monitor does not show it: see its type in /debug/monitors"
        }
        StuckReason::Blocked => {
            "look at what blocks it: these dependents have to go first, and most wait for a finalizer of \
             somebody else's"
        }
        StuckReason::Orphaning => {
            "its dependents are being released; if this goes on, see /debug/monitors for types that cannot be \
             listed"
        }
        StuckReason::InvalidScope => {
            "remove the owner reference or name a cluster-scoped owner: as it is, it is never collected"
        }
        StuckReason::Braked => {
            "find out who deletes so much; /readyz?verbose says why the brake is engaged, and it is resumed by hand"
        }
        StuckReason::Deferred => {
            "the API server cannot be reached, or requests of this kind hang in this namespace, perhaps in a \
             webhook: the message says which; it is tried again by itself"
        }
        StuckReason::UnseenWrite => {
            "see its type in /debug/monitors: the watch does not show what was written"
        }
    }
}
