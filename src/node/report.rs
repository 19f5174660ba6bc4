//! A plan and what came of it, as `kube-gc node plan -o json` and `/debug/node` show them. The JSON
//! fields are a public interface; `docs/node-plan.schema.json` describes them.

use std::sync::Arc;
use std::time::SystemTime;

use kube_gc_node::pass::{Outcome, Record};
use kube_gc_node::plan::{Breakdown, Plan, What};
use kube_gc_node::pressure::{Bytes, Usage};
use serde::Serialize;

use super::{Look, NodeOptions};

/// The version of the format.
const VERSION: u32 = 2;

/// A plan, with what it was made for.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The version of this format.
    pub version: u32,
    /// The name of the node.
    pub node: String,
    /// The container runtime: name and version.
    pub runtime: String,
    /// The socket of the container runtime.
    pub endpoint: String,
    /// When the plan was made.
    pub time: String,
    /// Why nothing is removed; `null` if something may be.
    pub dry_run: Option<String>,
    /// What could not be seen.
    pub notes: Vec<Note>,
    /// The plan.
    #[serde(flatten)]
    pub plan: Arc<Plan>,
    /// What came of it; `null` if nothing was done about it.
    pub result: Option<PassResult>,
    /// What a person has asked for, as flags.
    #[serde(skip)]
    pub asked: String,
}

/// What could not be seen, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Note {
    /// What does not change while it lasts: the sentence without the error and whatever else is filled in.
    #[serde(skip)]
    pub(super) kind: &'static str,
    /// What it says of the pass.
    #[serde(skip)]
    pub(super) says: Says,
    /// The sentence.
    pub text: String,
}

/// What a note says of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    /// It knows all that it should.
    Hint,
    /// It does not.
    Gap,
    /// It does not know how full the file system of the images is.
    Unmeasured,
}

impl Note {
    /// The same, but it says this.
    pub(super) fn saying(self, says: Says) -> Self {
        Self { says, ..self }
    }
}

/// What came of a plan.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PassResult {
    /// How many items have gone.
    pub removed: usize,
    /// How many stay after all.
    pub refused: usize,
    /// How many could not be removed.
    pub failed: usize,
    /// How many bytes the file system of the images has gained during the pass.
    pub freed_bytes: u64,
    /// How many bytes are still to be freed.
    pub missing_bytes: u64,
    /// How many inodes are still to be freed.
    pub missing_inodes: u64,
    /// Whether space was to be freed and the file system could not be measured, so that it is not
    /// known whether enough is free.
    pub unmeasured: bool,
    /// Why it ended early.
    pub interrupted: Option<String>,
    /// How long it took, to the millisecond.
    pub seconds: f64,
    /// Each item that was tried, in order.
    pub items: Vec<Record>,
    /// How full the file system of the images was at the end, if it could be measured.
    pub usage: Option<Usage>,
    /// What could not be seen meanwhile; the report has it with its other notes.
    #[serde(skip)]
    pub note: Option<Note>,
}

impl Report {
    /// The report of a look.
    pub fn new(options: &NodeOptions, runtime: String, look: &Look) -> Self {
        Self {
            version: VERSION,
            node: options.name.clone(),
            runtime,
            endpoint: options.endpoint.to_string(),
            time: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            dry_run: why_dry(options),
            notes: look.notes.clone(),
            plan: Arc::clone(&look.plan),
            result: None,
            asked: String::new(),
        }
    }

    /// Whether all that was wanted was learned and done. In a dry run, nothing was to be done.
    pub fn is_complete(&self) -> bool {
        let knows_all = || self.notes.iter().all(|note| note.says == Says::Hint) && !self.plan.leaves_due;
        self.result.as_ref().is_none_or(|result| result.is_complete() && knows_all())
    }

    /// The same with what came of it.
    pub fn with(mut self, mut result: PassResult) -> Self {
        self.notes.extend(result.note.take());
        Self { result: Some(result), ..self }
    }
}

/// Bytes, inodes, or both, for people.
pub fn amount(bytes: u64, inodes: u64) -> String {
    let of_inodes = format!("{inodes} {}", if inodes == 1 { "inode" } else { "inodes" });
    match (bytes, inodes) {
        (bytes, 0) => Bytes(bytes).to_string(),
        (0, _) => of_inodes,
        (bytes, _) => format!("{} and {of_inodes}", Bytes(bytes)),
    }
}

/// Why nothing is removed.
pub fn why_dry(options: &NodeOptions) -> Option<String> {
    use kube_gc_node::rules::Effects;
    if options.rules.effects() != Effects::Nothing {
        return None;
    }
    match &options.kubelet {
        Some(why) if !options.rules.dry_run => {
            Some(format!("a kubelet counts as present ({why}), and `node.beside_kubelet` is \"nothing\""))
        }
        _ => Some("a dry run was asked for".to_owned()),
    }
}

impl PassResult {
    /// Whether all that it tried was done.
    fn is_complete(&self) -> bool {
        self.failed == 0
            && self.missing_bytes == 0
            && self.missing_inodes == 0
            && !self.unmeasured
            && self.interrupted.is_none()
    }

    /// What fills the file system of the images now, by what has filled it before.
    pub fn left(&self, before: &Breakdown) -> Breakdown {
        let gone = |kind| {
            let removed = self.items.iter().filter(|item| item.outcome == Outcome::Removed);
            let sizes = removed.filter(|item| item.candidate.what() == kind).map(|item| item.candidate.bytes);
            sizes.flatten().fold(0, u64::saturating_add)
        };
        let mut now = Breakdown {
            unused: before.unused.saturating_sub(gone(What::Image)),
            dead_containers: before.dead_containers.saturating_sub(gone(What::Container)),
            ..*before
        };
        if let Some(usage) = self.usage {
            let known = [now.in_use, now.unused, now.kept, now.dead_containers];
            now.other = usage.used().saturating_sub(known.into_iter().fold(0, u64::saturating_add));
        }
        now
    }
}
