//! `/debug/decisions`: what was decided last, and on what evidence.

use serde::Serialize;

use super::{Disagreement, ObjectView, Timestamp, parameters};
use kube_gc_core::object::{GroupResource, Namespace, Uid};

/// What `/debug/decisions` is asked. What is not given is not asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecisionQuery {
    /// The object's namespace.
    pub namespace: Option<Namespace>,
    /// The object's type.
    pub resource: Option<GroupResource>,
    /// The object.
    pub uid: Option<Uid>,
    /// What was to be done.
    pub action: Option<String>,
    /// What came of it.
    pub outcome: Option<String>,
    /// How many at most.
    pub limit: Option<usize>,
}

impl DecisionQuery {
    /// Reads the parameters of a request.
    pub(super) fn read(parameters: Vec<(String, String)>) -> Result<Self, String> {
        use parameters::{limit, namespace, resource, set, unknown, word};
        let mut query = Self::default();
        for (name, value) in parameters {
            match name.as_str() {
                "namespace" => set(&mut query.namespace, &name, namespace(&value))?,
                "resource" => set(&mut query.resource, &name, resource(&value))?,
                "uid" => {
                    let uid = Uid::parse(&value).ok_or_else(|| "uid= needs a uid".to_owned());
                    set(&mut query.uid, &name, uid)?;
                }
                "action" => set(&mut query.action, &name, word(&name, &value))?,
                "outcome" => set(&mut query.outcome, &name, word(&name, &value))?,
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

/// The answer of `/debug/decisions`. The fields are an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DecisionsPage {
    /// How many decisions there have been since the start.
    pub total: u64,
    /// How many of them are kept at most.
    pub capacity: usize,
    /// Those that were asked for, newest first.
    pub decisions: Vec<DecisionView>,
    /// In a dry run: what it would have done and nobody else has, newest first. Not filtered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disagreements: Option<Vec<Disagreement>>,
}

/// A decision, on `/debug/decisions`. The fields are an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DecisionView {
    /// When it had ended.
    pub at: Timestamp,
    /// What it is about.
    pub object: ObjectView,
    /// What was to be done: `delete`, `remove_references`, `keep`, …
    pub action: &'static str,
    /// With which propagation policy.
    pub policy: Option<&'static str>,
    /// About which finalizer.
    pub finalizer: Option<&'static str>,
    /// How it ended, in the word of the log and the metrics.
    pub outcome: &'static str,
    /// Why it did not end well, in the server's own words.
    pub error: Option<String>,
    /// The owners that the object names, and what is known of each; at most 16.
    pub owners: Vec<OwnerView>,
    /// How many more it names.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_owners: usize,
    /// The one owner that it follows from, if it does.
    pub owner: Option<ObjectView>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// What an owner reference was worth, on `/debug/decisions`. The fields are an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OwnerView {
    /// As the reference says.
    pub api_version: String,
    /// As the reference says.
    pub kind: String,
    /// As the reference says.
    pub name: String,
    /// As the reference says.
    pub uid: String,
    /// Whether it holds up a foreground deletion of the owner.
    pub blocking: bool,
    /// Whether the owner is the managing controller.
    pub controller: bool,
    /// What it is worth.
    pub class: String,
    /// How that is known.
    pub evidence: String,
    /// Why it could not be found out, in the server's own words.
    pub error: Option<String>,
}
