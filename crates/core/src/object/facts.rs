//! The metadata of an object that matters to a garbage collector.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;

use super::{Namespace, Uid};
use crate::text::{LONGEST_WORD, word};

/// Which of the garbage collector's two finalizers an object has. Others are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Finalizers {
    pub foreground: bool,
    pub orphan: bool,
}

/// The state of an object's deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeletionState {
    /// No `deletionTimestamp`.
    Live,
    /// Being deleted, and waiting for its grace period or other finalizers only.
    Terminating,
    /// Being deleted in the foreground, after its blocking dependents.
    DeletingDependents,
    /// Being deleted with the policy Orphan. This takes precedence if both finalizers are set,
    /// because orphaned dependents can still be deleted, but not the reverse.
    Orphaning,
}

impl DeletionState {
    /// Derives the state from the deletion timestamp and the finalizers. It is always derived and
    /// never updated by transitions, which made objects hang in Kubernetes
    /// (kubernetes/kubernetes#115570).
    pub const fn derive(has_deletion_timestamp: bool, finalizers: Finalizers) -> Self {
        match (has_deletion_timestamp, finalizers) {
            (false, _) => Self::Live,
            (true, Finalizers { orphan: true, .. }) => Self::Orphaning,
            (true, Finalizers { foreground: true, .. }) => Self::DeletingDependents,
            (true, Finalizers { foreground: false, orphan: false }) => Self::Terminating,
        }
    }

    pub const fn is_being_deleted(self) -> bool {
        !matches!(self, Self::Live)
    }
}

/// The metadata that a garbage collector needs, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectFacts {
    /// Objects without a uid are skipped.
    pub uid: Uid,
    /// `None` for cluster-scoped objects.
    pub namespace: Option<Namespace>,
    pub name: Box<str>,
    /// Some aggregated APIs give none.
    pub resource_version: Option<ResourceVersion>,
    /// `metadata.ownerReferences`, in order, without those that have no uid.
    pub owners: Vec<OwnerReference>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub being_deleted: bool,
    /// The garbage collector's own finalizers.
    pub finalizers: Finalizers,
    /// Whether it has finalizers of others. The collector decides nothing by them; people want to
    /// know what will hold an object.
    pub held_by_others: bool,
    /// The seconds of grace that it was deleted with, in which nothing holds it.
    pub grace: Option<u32>,
    /// When these end, in seconds since 1970, as `metadata.deletionTimestamp` says.
    pub ends: Option<u64>,
}

impl ObjectFacts {
    pub const fn deletion_state(&self) -> DeletionState {
        DeletionState::derive(self.being_deleted, self.finalizers)
    }

    /// Whether an object that is being deleted still exists: it is kept by a finalizer, a grace
    /// period, or, for a Namespace, `spec.finalizers`. Otherwise the answer to a DELETE is the
    /// last state of an object that is gone: it has no deletion timestamp, or its grace period
    /// is over.
    pub fn is_held(&self) -> bool {
        let Finalizers { foreground, orphan } = self.finalizers;
        self.being_deleted && (foreground || orphan || self.held_by_others || self.grace != Some(0))
    }
}

/// The seconds since 1970 of a time as the API server writes it.
pub fn seconds(time: &str) -> Option<u64> {
    let time = humantime::parse_rfc3339_weak(time).ok()?;
    Some(time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs())
}

/// One entry of `metadata.ownerReferences`.
///
/// The API server checks neither that the owner exists nor its namespace or scope, so nothing here
/// is reliable before it is verified.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    pub api_version: Arc<str>,
    /// May be in lower case.
    pub kind: Arc<str>,
    pub name: Arc<str>,
    pub uid: Uid,
    /// Whether the owner is the managing controller.
    pub controller: bool,
    /// Whether a foreground deletion of the owner waits for this dependent.
    pub block_owner_deletion: bool,
}

impl OwnerReference {
    /// What identifies it among the references of an object: the flags may differ.
    pub fn named(&self) -> (&Uid, &str, &str, &str) {
        let Self { api_version, kind, name, uid, controller: _, block_owner_deletion: _ } = self;
        (uid, name, kind, api_version)
    }

    /// Whether all of its texts are as long as those of a real owner can be.
    pub fn is_short(&self) -> bool {
        let (uid, name, kind, api_version) = self.named();
        let longest = [api_version, kind, name].map(str::len).into_iter().max();
        longest.max(Some(uid.text_bytes())) <= Some(LONGEST_WORD)
    }

    /// The reference for people, with each text cut to [`LONGEST_WORD`] bytes.
    pub fn shortened(self) -> Self {
        if self.is_short() {
            return self;
        }
        let Self { api_version, kind, name, uid, controller, block_owner_deletion } = self;
        let [api_version, kind, name] = [api_version, kind, name].map(|text| word(&text).to_string().into());
        let shown = uid.shown().to_string();
        let uid = Uid::parse(&shown).unwrap_or(uid);
        Self { api_version, kind, name, uid, controller, block_owner_deletion }
    }
}

/// The `resourceVersion` of an object or a list.
///
/// Those of the Kubernetes API server are decimal numbers that grow with every write and can be
/// compared (KEP-5504). Aggregated API servers may use any text. Such texts are preserved, and are
/// equal or not comparable.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ResourceVersion(Repr);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    Number(u64),
    Text(Arc<String>),
}

impl ResourceVersion {
    /// `None` if the text is empty, or `"0"`, which means "any version" in requests.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || text == "0" {
            return None;
        }
        let canonical = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
        match text.parse() {
            Ok(number) if canonical => Some(Self(Repr::Number(number))),
            _ => Some(Self(Repr::Text(Arc::new(text.to_owned())))),
        }
    }

    /// Like [`parse`](Self::parse), but only a version that can be compared with others.
    pub fn parse_number(text: &str) -> Option<Self> {
        Self::parse(text).filter(|version| version.as_number().is_some())
    }

    /// A numeric version, as the Kubernetes API server has them.
    pub const fn number(number: u64) -> Self {
        Self(Repr::Number(number))
    }

    pub const fn as_number(&self) -> Option<u64> {
        match self.0 {
            Repr::Number(number) => Some(number),
            Repr::Text(_) => None,
        }
    }

    /// Whether `self` is known to be later than `other`. False if the two cannot be compared.
    pub fn is_after(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Greater)
    }
}

impl PartialOrd for ResourceVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (&self.0, &other.0) {
            (Repr::Number(a), Repr::Number(b)) => Some(a.cmp(b)),
            (Repr::Text(a), Repr::Text(b)) if a == b => Some(Ordering::Equal),
            _ => None,
        }
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Number(number) => number.fmt(f),
            Repr::Text(text) => f.write_str(text),
        }
    }
}

/// The latest break of the watches. The store may have been restored from a backup during it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disturbance {
    /// Grows with each disturbance, and is 0 before the first. What was proved or decided under a
    /// smaller number is void.
    pub number: u64,
    /// The version at which the store was found afterwards, if known.
    pub found: Option<ResourceVersion>,
}

impl Disturbance {
    /// Whether an event with this version happened after the disturbance, or there was none. An event of the
    /// very version that was found may be of the history that a restore abandoned, if the store has just
    /// reached that version again.
    pub fn is_before(&self, version: Option<&ResourceVersion>) -> bool {
        let found = self.found.as_ref();
        self.number == 0 || found.zip(version).is_some_and(|(found, version)| version.is_after(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::config_map;

    #[test]
    fn orphaning_takes_precedence_over_foreground() {
        let both = Finalizers { foreground: true, orphan: true };
        assert_eq!(DeletionState::derive(true, both), DeletionState::Orphaning);
        assert_eq!(DeletionState::derive(false, both), DeletionState::Live);
        let foreground = Finalizers { foreground: true, orphan: false };
        assert_eq!(DeletionState::derive(true, foreground), DeletionState::DeletingDependents);
        assert_eq!(DeletionState::derive(true, Finalizers::default()), DeletionState::Terminating);
    }

    /// Rule 7.9.
    #[test]
    fn each_text_of_a_reference_is_cut_by_itself() {
        let usual = config_map("ns", &"n".repeat(253), "u").reference();
        let short = OwnerReference { controller: true, ..usual };
        assert_eq!(short.clone().shortened(), short);
        let text = "x".repeat(1 << 20);
        let long = [
            OwnerReference { api_version: (*text).into(), ..short.clone() },
            OwnerReference { kind: (*text).into(), ..short.clone() },
            OwnerReference { name: (*text).into(), ..short.clone() },
            OwnerReference { uid: Uid::parse(&text).unwrap(), ..short.clone() },
        ];
        for long in long {
            assert!(short.is_short() && !long.is_short());
            let cut = long.shortened();
            assert!(cut.is_short() && cut != short && cut.controller, "{cut:?}");
        }
    }

    #[test]
    fn numbers_are_ordered_and_other_versions_are_kept() {
        let version = |text| ResourceVersion::parse(text).unwrap();
        assert!(version("10").is_after(&version("9")) && !version("9").is_after(&version("10")));
        for text in ["a", "010", "99999999999999999999999"] {
            assert_eq!(version(text).to_string(), text);
            assert!(!version(text).is_after(&version("9")) && !version("9").is_after(&version(text)));
        }
        assert_eq!(["", "0"].map(ResourceVersion::parse), [None, None]);
    }

    #[test]
    fn only_numbers_can_be_waited_for() {
        assert_eq!(ResourceVersion::parse_number("10"), Some(ResourceVersion::number(10)));
        for text in ["", "0", "010", "-1", "+1", " 1", "1.5", "1e3", "newest", "18446744073709551616"] {
            assert_eq!(ResourceVersion::parse_number(text), None, "{text}");
        }
    }
}
