//! What there is to tell, as plain data.

use std::path::PathBuf;

use serde::Serialize;

/// Where everything is.
#[derive(Clone, Debug, Serialize)]
pub struct Places {
    /// The Kubernetes API.
    pub server: String,
    /// Health and metrics.
    pub health: String,
    /// The debug pages.
    pub debug: String,
    /// For kubectl.
    pub kubeconfig: PathBuf,
}

/// A request, and what came of it.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub method: String,
    pub path: String,
    /// The uid that the object must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The resource version that it must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagation_policy: Option<String>,
    pub code: u16,
    pub milliseconds: f64,
}

/// An owner, and what it was worth.
#[derive(Clone, Debug, Serialize)]
pub struct Owner {
    /// As the story calls it.
    pub object: String,
    /// `absent`, `waiting`, `solid`, …
    pub class: String,
    /// How that is known: `graph`, `live`, …
    pub evidence: String,
    /// The requests that found it out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<Request>,
}

/// One thing that the collector did.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// Since what the user did.
    pub milliseconds: f64,
    /// As the story calls it.
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

/// What somebody did, and what followed.
#[derive(Clone, Debug, Serialize)]
pub struct Scene {
    /// In words.
    pub deed: String,
    /// What to type to do the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    pub request: Request,
    pub steps: Vec<Step>,
    /// What was found true on the server afterwards.
    pub verified: Vec<String>,
    /// Until the last step.
    pub milliseconds: f64,
}

/// A whole act.
#[derive(Clone, Debug, Serialize)]
pub struct Act {
    pub name: &'static str,
    pub title: &'static str,
    pub about: &'static str,
    pub scenes: Vec<Scene>,
}

/// A line of the picture of who owns whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Drawn {
    pub object: String,
    /// How deep it stands.
    pub depth: usize,
    /// What else is to be known of it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// What a load has cost.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Load {
    pub objects: u32,
    pub policy: &'static str,
    /// Creating them all.
    pub seed_seconds: f64,
    /// From the root's DELETE to the last of them.
    pub collect_seconds: f64,
    pub objects_per_second: f64,
    /// The collector's, from the root's DELETE on; without lists and watches.
    pub requests: u64,
    pub requests_per_object: f64,
    /// Of this process, in bytes: server, collector and all.
    pub memory: Memory,
}

/// Resident memory at three moments, in bytes; `None` where it cannot be read.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Memory {
    pub start: Option<u64>,
    pub full: Option<u64>,
    pub end: Option<u64>,
}
