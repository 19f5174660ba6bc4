//! The results, as plain data. The field names are those of the JSON output.

use std::path::PathBuf;

use serde::Serialize;

/// The addresses of everything that is running.
#[derive(Clone, Debug, Serialize)]
pub struct Endpoints {
    /// The Kubernetes API.
    pub server: String,
    /// Health and metrics.
    pub health: String,
    /// The debug pages.
    pub debug: String,
    /// The kubeconfig for kubectl.
    pub kubeconfig: PathBuf,
}

/// A request and its result.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub method: String,
    pub path: String,
    /// The precondition on the uid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The precondition on the resource version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagation_policy: Option<String>,
    pub code: u16,
    pub milliseconds: f64,
}

/// An owner and its class.
#[derive(Clone, Debug, Serialize)]
pub struct Owner {
    /// Kind and name, and the namespace if it is not the shop.
    pub object: String,
    /// `absent`, `waiting`, `solid`, …
    pub class: String,
    /// The source of that knowledge: `graph`, `live`, …
    pub evidence: String,
    /// The requests that looked it up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<Request>,
}

/// One object that the collector did.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// Since the operation of the user.
    pub milliseconds: f64,
    /// Kind and name, and the namespace if it is not the shop.
    pub object: String,
    /// `delete`, `remove_references`, …
    pub action: &'static str,
    /// `deleted`, `patched`, …
    pub outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finalizer: Option<&'static str>,
    pub owners: Vec<Owner>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// An operation of a user and what followed.
#[derive(Clone, Debug, Serialize)]
pub struct Phase {
    /// A description of the operation.
    pub operation: String,
    /// The equivalent command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    pub request: Request,
    pub steps: Vec<Step>,
    /// What was verified on the server afterwards.
    pub verified: Vec<String>,
    /// The time until the last step.
    pub milliseconds: f64,
}

/// A scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Scenario {
    pub name: &'static str,
    pub title: &'static str,
    pub about: &'static str,
    pub phases: Vec<Phase>,
}

/// A line of the tree of owners and dependents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TreeLine {
    pub object: String,
    /// The depth in the tree.
    pub depth: usize,
    /// A remark, such as a second owner.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// The cost of a load.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Load {
    pub objects: u32,
    pub policy: &'static str,
    /// The time to create all objects.
    pub seed_seconds: f64,
    /// The time from the DELETE of the owner until the last object is done.
    pub collect_seconds: f64,
    pub objects_per_second: f64,
    /// The collector's requests since the DELETE of the owner, without lists and watches.
    pub requests: u64,
    pub requests_per_object: f64,
    /// The memory of this process, in bytes, including the server.
    pub memory: Memory,
}

/// Resident memory at three times, in bytes; `None` where it cannot be read.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Memory {
    pub start: Option<u64>,
    pub full: Option<u64>,
    pub end: Option<u64>,
}
