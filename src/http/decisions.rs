//! `/debug/decisions`: the last decisions and their evidence.

use serde::Serialize;

use super::view::is_zero;
use super::{DisagreementView, ObjectView, OwnerView, Timestamp, parameters};
use kube_gc_core::object::{GroupResource, Namespace, Uid};

/// The filters of `/debug/decisions`. `None` matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecisionQuery {
    /// The object's namespace.
    pub namespace: Option<Namespace>,
    /// The object's type.
    pub resource: Option<GroupResource>,
    /// The object.
    pub uid: Option<Uid>,
    /// The action.
    pub action: Option<String>,
    /// The outcome.
    pub outcome: Option<String>,
    /// The most entries to return.
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

    /// The most entries to return.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(parameters::DEFAULT_LIMIT)
    }
}

/// The answer of `/debug/decisions`. The JSON fields are a public interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DecisionsPage {
    /// The number of decisions since the start.
    pub total: u64,
    /// The capacity of the decision log.
    pub capacity: usize,
    /// The matching decisions, newest first.
    pub decisions: Vec<DecisionView>,
    /// In a dry run: its decisions that nobody else has carried out, newest first, unfiltered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disagreements: Option<Vec<DisagreementView>>,
}

/// A decision, on `/debug/decisions`. The JSON fields are a public interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DecisionView {
    /// When it was carried out.
    pub at: Timestamp,
    /// The object.
    pub object: ObjectView,
    /// The action: `delete`, `remove_references`, `keep`, …
    pub action: &'static str,
    /// The propagation policy of a deletion.
    pub policy: Option<&'static str>,
    /// The finalizer that was to be removed.
    pub finalizer: Option<&'static str>,
    /// The outcome, as in the log and the metrics.
    pub outcome: &'static str,
    /// The error, in the server's own words.
    pub error: Option<String>,
    /// The owners of the object, each with its state; at most 16.
    pub owners: Vec<OwnerView>,
    /// The number of further owners.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_owners: usize,
    /// The owner that caused the decision, if there is one.
    pub owner: Option<ObjectView>,
}
