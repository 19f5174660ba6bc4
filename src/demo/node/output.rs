//! The results, as data whose field names are those of the JSON output, and as text.

use kube_gc_node::plan::Breakdown;
use serde::Serialize;

use crate::demo::output::{BAD, GONE, OBJECT, QUIET, STAYS, Styled, TITLE, checked};

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

/// The width of the names of items.
const NAMES: usize = 36;

/// A size, as people say it.
fn size(bytes: u64) -> String {
    const GIB: u64 = 1 << 30;
    if bytes.is_multiple_of(GIB) {
        format!("{} GiB", bytes / GIB)
    } else if bytes < GIB {
        format!("{} KiB", bytes.div_ceil(1024))
    } else {
        format!("{}.{} GiB", bytes / GIB, bytes % GIB * 10 / GIB)
    }
}

pub fn begin(overview: &Overview) -> String {
    let Overview { capacity_bytes, used_bytes, percent, pods, containers, sandboxes, images, high, low } =
        overview;
    let (used, capacity) = (size(*used_bytes), size(*capacity_bytes));
    format!(
        "{}\n\
         A container runtime, a Kubernetes API server and node collection, all in this process.\n\n  \
           {pods} pods, {containers} containers, {sandboxes} sandboxes, {images} images\n  \
           The disk of the images: {used} of {capacity} used, {percent} %. Images go from {high} % on, down to {low} %.\n",
        Styled(TITLE, "kube-gc demo --node")
    )
}

/// What goes and what stays, and what fills the disk.
pub fn plan(plan: &Plan) -> String {
    let Plan { percent, wanted_bytes, items, breakdown } = plan;
    let Breakdown { in_use, unused, kept, dead_containers, other } = *breakdown;
    let (go, stay): (Vec<&Item>, Vec<&Item>) = items.iter().partition(|item| item.removes);
    let items: String = go.into_iter().chain(stay).map(entry).collect();
    let [in_use, unused, kept, dead, other] = [in_use, unused, kept, dead_containers, other].map(size);
    format!(
        "\n  {}\n{items}  {} Images in use {in_use}, unused {unused}, kept {kept}; dead containers {dead}; all else {other}.\n",
        Styled(OBJECT, format_args!("The plan at {percent} %")),
        Styled(OBJECT, format_args!("{} to free.", size(*wanted_bytes))),
    )
}

fn entry(item: &Item) -> String {
    let Item { what, name, removes, rule, reason, bytes, .. } = item;
    let bytes = bytes.filter(|_| *what == "image").map(size).unwrap_or_default();
    // A width does not apply to a text in a style.
    let gap = " ".repeat(NAMES.saturating_sub(name.chars().count()));
    let word = if *removes { Styled(GONE, "remove") } else { Styled(STAYS, "keep  ") };
    let (name, reason) = (Styled(OBJECT, name), Styled(QUIET, reason));
    format!("    {word} {what:<9} {name}{gap} {bytes:>6}  {rule:<3} {reason}\n")
}

/// What came of the plan.
pub fn pass(pass: &Pass, verified: &[String]) -> String {
    let Pass { removals, percent, missing_bytes, milliseconds } = pass;
    let removed = removals.iter().filter(|removal| removal.outcome == "removed").count();
    let mut text = format!(
        "\n  {} {removed} removed in {milliseconds:.1} ms; the disk is {percent} % full.\n",
        Styled(OBJECT, "Carried out:")
    );
    for Removal { what, name, reason, .. } in removals {
        if let Some(reason) = reason {
            let (stays, name) = (Styled(BAD, "stays "), Styled(OBJECT, name));
            text += &format!("    {stays} {what:<9} {name}  {reason}\n");
        }
    }
    if *missing_bytes > 0 {
        text += &format!("    {} could not be freed\n", Styled(BAD, size(*missing_bytes)));
    }
    text + &checked(verified)
}
