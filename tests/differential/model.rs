//! What the generator knows of the objects that it has requested.

use serde_json::Value;

use super::side::Answer;
use super::types::Type;

/// An object, as far as the generator knows it.
#[derive(Clone, Debug)]
pub struct Thing {
    /// Its type.
    pub of: &'static Type,
    /// Its namespace, which may contain references.
    pub namespace: Option<String>,
    /// Its name, which may contain references.
    pub name: String,
    /// The steps whose answers showed the whole object, oldest first.
    pub shown: Vec<usize>,
    /// Whether it exists, as far as the generator knows.
    pub alive: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// The number of its owner references.
    pub owners: usize,
}

impl Thing {
    /// Its path.
    pub fn path(&self) -> String {
        format!("{}/{}", self.of.collection(self.namespace.as_deref()), self.name)
    }

    /// The last step whose answer showed it.
    pub fn last(&self) -> Option<usize> {
        self.shown.last().copied()
    }

    /// A reference to a place in the last answer that showed it.
    pub fn at(&self, pointer: &str) -> String {
        self.last().map_or_else(|| "none".to_owned(), |step| format!("<{step}{pointer}>"))
    }

    /// Learns from the answer to a step about this object.
    pub fn learn(&mut self, step: usize, method: &str, answer: &Answer) {
        let body = &answer.body;
        let metadata = &body["metadata"];
        if answer.code == 404 {
            self.alive = false;
        }
        if !(200..300).contains(&answer.code) {
            return;
        }
        if body["kind"] != self.of.kind {
            // A Status means that it is gone. Other answers, such as metadata only, are ignored.
            self.alive &= !(method == "DELETE" && body["kind"] == "Status");
            return;
        }
        if answer.code == 201 {
            self.shown.clear();
        }
        self.shown.push(step);
        let list = |field: &str| metadata[field].as_array().cloned().unwrap_or_default();
        self.terminating = metadata["deletionTimestamp"].is_string();
        self.finalizers =
            list("finalizers").iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect();
        self.owners = list("ownerReferences").len();
        // For some types, the answer to a DELETE shows the deleted object. Pods with a grace
        // period and namespaces stay; later answers show when they are gone.
        let at_once = metadata["deletionGracePeriodSeconds"] == 0;
        let gone = self.finalizers.is_empty() && at_once;
        self.alive = if self.terminating { !gone } else { method != "DELETE" };
    }
}
