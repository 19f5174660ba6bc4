//! The names of objects, and answers as JSON.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::advice::Advice;
use crate::knowledge::Knowledge;
use kube_gc_core::graph::ReferenceSnapshot;
use kube_gc_core::object::{Identity, Namespace, OwnerReference};
use kube_gc_core::text::word;

/// An object, as answers name it. Names, kinds and uids of references can have any length, so they
/// are truncated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ObjectName {
    pub api_version: String,
    pub kind: String,
    /// Resource and group as kubectl writes them; `null` if the kind is not served.
    pub resource: Option<String>,
    /// The namespace; `null` for cluster-scoped objects.
    pub namespace: Option<String>,
    pub name: String,
    pub uid: String,
}

impl ObjectName {
    /// The owner that a reference names, whose kind does not resolve or cannot be right.
    pub fn of_reference(reference: &OwnerReference) -> Self {
        Self {
            api_version: word(&reference.api_version).to_string(),
            kind: word(&reference.kind).to_string(),
            resource: None,
            namespace: None,
            name: word(&reference.name).to_string(),
            uid: reference.uid.shown().to_string(),
        }
    }

    /// The owner of a reference that was looked up.
    pub fn of_owner(seen: &ReferenceSnapshot) -> Self {
        seen.owner.identity().map_or_else(|| Self::of_reference(&seen.reference), Self::from)
    }
}

impl From<&Identity> for ObjectName {
    fn from(identity: &Identity) -> Self {
        Self {
            api_version: identity.resource.api_version(),
            kind: word(&identity.resource.kind).to_string(),
            resource: Some(identity.resource.group_resource.to_string()),
            namespace: identity.namespace.as_ref().map(Namespace::to_string),
            name: word(&identity.name).to_string(),
            uid: identity.uid.shown().to_string(),
        }
    }
}

/// `Kind/name`.
impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

/// Something that could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Unseen {
    /// A type or an object.
    pub what: String,
    /// In the server's own words.
    pub why: String,
}

impl Unseen {
    /// What does not answer, if the API server fails with this message to list a type. Nothing else in its answer tells
    /// (kubernetes/kubernetes: apiextensions-apiserver, pkg/apiserver/conversion/webhook_converter.go).
    pub fn silent(&self, message: &str) -> Self {
        let mut silent = self.clone();
        if message.contains("conversion webhook for ") {
            silent.what = format!("the conversion webhook of CustomResourceDefinition {}", self.what);
        }
        silent
    }
}

/// Who answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// A command, which does not know of any collector.
    #[default]
    Lists,
    /// A collector that may write.
    Collector,
    /// A collector that writes nothing.
    DryRun,
    /// A collector that waits until it becomes the leader.
    Standby,
}

impl Source {
    /// What the collector does with a regular verb, as the end of its name.
    pub(crate) fn does(self, verb: &str) -> String {
        match self {
            Self::Lists => format!(", if one runs, {verb}s"),
            Self::Collector => format!(" {verb}s"),
            Self::DryRun => format!(" would {verb}"),
            Self::Standby => format!(" that leads {verb}s"),
        }
    }

    /// What to do about something that a collector has to do.
    pub(crate) fn advice(self) -> Advice {
        let what = match self {
            Self::Lists => "The collector has this to do. If it does not change, look whether it runs.",
            Self::Collector => {
                "The collector that answers has this to do. If it does not change, `explain` says what keeps it from that."
            }
            // That it is in a dry run is said of each answer.
            Self::DryRun => "The collector that answers has this to do.",
            Self::Standby => "The collector that answers is a standby. Ask the leader, which has this to do.",
        };
        what.to_owned().into()
    }
}

/// How many types were left out on request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeftOut {
    #[default]
    None,
    /// The collector ignores them, so they change nothing of what it does.
    Ignored(usize),
    /// Whoever asks chose others, and these could change the answer.
    Chosen(usize),
}

impl LeftOut {
    pub const fn count(self) -> usize {
        match self {
            Self::None => 0,
            Self::Ignored(count) | Self::Chosen(count) => count,
        }
    }
}

/// What a source cannot see, whatever it is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outside {
    pub source: Source,
    /// The parts of the API that cannot be discovered, and the types of which the API server fails to list the objects
    /// in the namespace of the question, which waits for all of them.
    pub silent_apis: Vec<Unseen>,
    /// Those of them that may have objects.
    pub silent_objects: Vec<Unseen>,
    /// The types whose objects are not, or not all, in its graph.
    pub types: Vec<Unseen>,
    /// The types that were left out on request.
    pub left_out: LeftOut,
    /// Where the brake of a collector holds what it would delete: in these namespaces, or for `None` everywhere.
    pub paused: Vec<Option<Namespace>>,
    /// What a collector has failed with, and may fail with again: by the uids of objects, what was said.
    pub failed: HashMap<String, String>,
}

impl Outside {
    /// Whether there may be objects that the source does not see.
    pub const fn is_empty(&self) -> bool {
        self.silent_objects.is_empty()
            && self.types.is_empty()
            && !matches!(self.left_out, LeftOut::Chosen(_))
    }
}

/// What is said about objects.
pub trait Report {
    /// Whether objects of this type, or of this part of the API, might change it.
    fn rests_on(&self, _what: &str) -> bool {
        true
    }

    /// Notes that they might.
    fn doubt(&mut self) {}
}

/// An answer, and what it does not rest on. Only [`new`](Self::new) makes one, so none hides what its source
/// cannot see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Answer<A> {
    #[serde(flatten)]
    pub report: A,
    /// What could not be looked at.
    pub incomplete: Vec<Unseen>,
    /// How many types were left out on request.
    pub left_out: usize,
    /// Whether a collector in a dry run answers, so that nothing of what it has to do is done.
    #[serde(default)]
    pub dry_run: bool,
}

impl<A: Report> Answer<A> {
    /// A report that follows from what is known, and what else the source has missed.
    pub fn new(mut report: A, known: &Knowledge, missed: Vec<Unseen>) -> Self {
        let Outside { source, silent_objects, types, left_out, .. } = known.outside();
        let all = missed.into_iter().chain(silent_objects.iter().chain(types).cloned());
        let mut incomplete: Vec<_> = all.filter(|unseen| report.rests_on(&unseen.what)).collect();
        if !incomplete.is_empty() || known.unseen_users().next().is_some() {
            report.doubt();
        }
        incomplete.extend(known.unseen());
        incomplete.sort();
        // What no list shows is named once.
        incomplete.dedup_by(|one, other| one.what == other.what);
        Self { report, incomplete, left_out: left_out.count(), dry_run: *source == Source::DryRun }
    }

    /// Notes something else that was not looked at.
    pub fn miss(&mut self, unseen: Unseen) {
        self.report.doubt();
        self.incomplete.push(unseen);
        self.incomplete.sort();
    }
}

/// The version of the JSON of answers.
const API_VERSION: &str = "kube-gc.io/v1";

/// An answer as the commands print it and as the debug pages show it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document<'a, A> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    answer: &'a A,
}

impl<'a, A> Document<'a, A> {
    /// An answer of this kind.
    pub const fn new(kind: &'static str, answer: &'a A) -> Self {
        Self { api_version: API_VERSION, kind, answer }
    }
}
