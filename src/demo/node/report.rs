//! The results, as plain data. The field names are those of the JSON output.

use kube_gc_node::plan::Breakdown;
use serde::Serialize;

/// What there is on the node.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    pub capacity_bytes: u64,
    pub used_bytes: u64,
    pub percent: u8,
    pub pods: usize,
    pub containers: usize,
    pub sandboxes: usize,
    pub images: usize,
    /// From which percentage on images go, and down to which.
    pub high: u8,
    pub low: u8,
}

/// What would go, and why.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    pub percent: u8,
    /// What has to be freed.
    pub wanted_bytes: u64,
    pub items: Vec<Item>,
    #[serde(with = "BreakdownFields")]
    pub breakdown: Breakdown,
}

/// The fields of [`Breakdown`] by names like those of all others here. A plan of `kube-gc node` has other
/// names.
#[derive(Serialize)]
#[serde(remote = "Breakdown", rename_all = "camelCase")]
struct BreakdownFields {
    in_use: u64,
    unused: u64,
    kept: u64,
    dead_containers: u64,
    other: u64,
}

/// An item of the node, and what becomes of it.
#[derive(Clone, Debug, Serialize)]
pub struct Item {
    #[serde(skip)]
    pub id: String,
    pub what: &'static str,
    pub name: String,
    pub removes: bool,
    pub rule: &'static str,
    pub reason: String,
    /// The size; that of an image is an estimate.
    pub bytes: Option<u64>,
}

/// What came of a plan.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pass {
    pub removals: Vec<Removal>,
    pub percent: u8,
    /// What could not be freed.
    pub missing_bytes: u64,
    pub milliseconds: f64,
}

/// An item that was to go.
#[derive(Clone, Debug, Serialize)]
pub struct Removal {
    #[serde(skip)]
    pub id: String,
    pub what: &'static str,
    pub name: String,
    /// `removed`, `refused` or `failed`.
    pub outcome: &'static str,
    /// Why it stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
