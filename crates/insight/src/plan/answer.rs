//! The answer, and whether the brake would engage.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::finalizers::FinalizerReport;
use crate::knowledge::{LiveObject, Particulars};
use crate::name::{ObjectName, Report};
use crate::neighbourhood::State;
use kube_gc_core::brake::Limits;
use kube_gc_core::object::{DeletionState, GroupResource, Identity, Namespace, PropagationPolicy};

/// What happens to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase", const_into_str)]
pub enum Effect {
    /// It goes.
    Deleted,
    /// It is deleted, and stays until others have removed their finalizers.
    Held,
    /// It stays, and blocks the foreground deletion of an owner.
    Blocks,
    /// It stays, because its owner is deleted with the policy Orphan. It loses the reference.
    Orphaned,
    /// It stays, because of another owner.
    Kept,
    /// It goes or stays.
    Unknown,
}

/// The plan of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    pub object: ObjectName,
    /// Further objects that are deleted with it, if several are.
    pub others: Vec<ObjectName>,
    /// Those that are named and that the API server refuses to delete, whoever asks. The plan is about the others.
    #[serde(default)]
    pub refused: Vec<ObjectName>,
    pub cascade: Cascade,
    /// Whether the object exists; `null` if it could not be read.
    pub exists: Option<bool>,
    /// The plan in one sentence.
    pub verdict: String,
    /// How many objects are deleted that are not being deleted yet, those that are held included.
    pub deletes: usize,
    /// How many more are perhaps deleted.
    pub perhaps_deletes: usize,
    /// All objects that something happens to, by type.
    pub by_type: Vec<TypeEffects>,
    /// The objects: first claims, namespaces and definitions, then what does not simply go.
    pub objects: Vec<PlannedObject>,
    /// How many further objects are not listed.
    pub not_listed: usize,
    /// Whether there are more objects than were looked at. The numbers are lower bounds then.
    pub truncated: bool,
    /// What the brake of the collector would do.
    pub brake: Forecast,
    /// What a plan cannot know.
    pub notes: Vec<String>,
    /// Whether something that could not be looked at may change the answer.
    pub depends_on_unseen: bool,
    /// The deletions that the collector carries out, by type.
    #[serde(skip)]
    pub by_collector: Vec<(GroupResource, u64)>,
    /// Whether the brake is engaged where any of the objects are.
    #[serde(skip)]
    pub is_braked: bool,
    /// How many of those that go by them wait for that brake, and how many that are held.
    #[serde(skip)]
    pub braked: usize,
    #[serde(skip)]
    pub braked_held: usize,
    /// How many of them are in the namespace that has the most.
    #[serde(skip)]
    pub most_in_namespace: Option<(u64, Namespace)>,
    /// The states of the roots, how each goes, whether it keeps its contents, and what goes and has dependents that the
    /// walk has not followed: [`Walk::follow`](super::Walk::follow).
    #[serde(skip)]
    pub states: Vec<(DeletionState, Option<Cascade>, bool)>,
    #[serde(skip)]
    pub unfollowed: Vec<u32>,
}

/// What the brake would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum Forecast {
    /// The settings of the collector are not known.
    #[default]
    Unknown,
    /// It has no limits.
    Off,
    /// No limit is reached, if nothing else is deleted at the same time.
    Passes,
    /// It is engaged where some of the objects are, and holds what it would delete there.
    #[serde(rename_all = "camelCase")]
    Engaged {
        /// Since when, and how to release it.
        why: String,
    },
    /// A limit is reached before the deletion is done.
    #[serde(rename_all = "camelCase")]
    Engages {
        /// Which limit, and by how much.
        why: String,
    },
}

/// The policy, as kubectl spells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Cascade {
    #[default]
    Background,
    Foreground,
    Orphan,
}

impl Cascade {
    /// How an object goes if this is asked for. The API server applies the policy of each DELETE, except while a
    /// grace period runs or a namespace is emptied.
    pub(super) fn of(self, live: &LiveObject) -> Self {
        let goes_on = match &live.details.particulars {
            Particulars::Container { finalizers, .. } => !finalizers.is_empty(),
            _ => live.details.grace > 0,
        };
        Self::begun(live.facts.deletion_state()).filter(|_| goes_on).unwrap_or(self)
    }

    /// How an object goes that is being deleted already.
    pub(super) const fn begun(deletion: DeletionState) -> Option<Self> {
        match deletion {
            DeletionState::Live => None,
            DeletionState::Terminating => Some(Self::Background),
            DeletionState::DeletingDependents => Some(Self::Foreground),
            DeletionState::Orphaning => Some(Self::Orphan),
        }
    }
}

impl From<PropagationPolicy> for Cascade {
    fn from(policy: PropagationPolicy) -> Self {
        match policy {
            PropagationPolicy::Background => Self::Background,
            PropagationPolicy::Foreground => Self::Foreground,
            PropagationPolicy::Orphan => Self::Orphan,
        }
    }
}

/// What happens to the objects of a type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TypeEffects {
    pub kind: String,
    /// Resource and group as kubectl writes them.
    pub resource: String,
    pub deleted: usize,
    pub held: usize,
    pub blocks: usize,
    pub orphaned: usize,
    pub kept: usize,
    pub unknown: usize,
}

impl TypeEffects {
    pub(super) fn new(identity: &Identity) -> Self {
        Self {
            kind: kube_gc_core::text::word(&identity.resource.kind).to_string(),
            resource: identity.resource.group_resource.to_string(),
            ..Self::default()
        }
    }

    pub(super) fn count(&mut self, effect: Effect) {
        *match effect {
            Effect::Deleted => &mut self.deleted,
            Effect::Held => &mut self.held,
            Effect::Blocks => &mut self.blocks,
            Effect::Orphaned => &mut self.orphaned,
            Effect::Kept => &mut self.kept,
            Effect::Unknown => &mut self.unknown,
        } += 1;
    }
}

/// What happens to an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PlannedObject {
    #[serde(flatten)]
    pub name: ObjectName,
    /// Its present state.
    pub state: State,
    pub effect: Effect,
    /// The namespace that it goes with, or the definition of its type.
    pub within: Option<ObjectName>,
    /// Of one that stays: the first owners that keep it.
    pub kept_by: Vec<ObjectName>,
    /// Of one that is held: the finalizers of others; `null` if they were not read.
    pub finalizers: Option<Vec<FinalizerReport>>,
    /// Of one that is deleted: the first objects that it waits for. Of one that is kept: owners that it loses late.
    pub after: Vec<ObjectName>,
    /// The first others that it waits for in some orders of events.
    #[serde(default)]
    pub perhaps_after: Vec<ObjectName>,
    /// The first owners whose references it loses.
    pub loses: Vec<ObjectName>,
    /// The first owners whose references it loses in some orders of events.
    pub may_lose: Vec<ObjectName>,
    /// Why the effect is not known, or why it is not decided on.
    pub why: Option<String>,
}

impl PlannedObject {
    /// Whether its loss may cost data, or the contents of a namespace or a type: such an object is
    /// always named.
    pub fn is_precious(&self) -> bool {
        let resource = self.name.resource.as_deref().map(GroupResource::parse);
        resource.is_some_and(|resource| is_precious(&resource, self.effect))
    }
}

/// Whether the loss of an object of this type may cost data, or the contents of a namespace or a
/// type.
pub(super) fn is_precious(resource: &GroupResource, effect: Effect) -> bool {
    let is_precious = match &*resource.group {
        "" => matches!(&*resource.resource, "persistentvolumeclaims" | "namespaces"),
        "apiextensions.k8s.io" => &*resource.resource == "customresourcedefinitions",
        _ => false,
    };
    is_precious && matches!(effect, Effect::Deleted | Effect::Held | Effect::Unknown)
}

impl Report for Plan {
    fn rests_on(&self, _what: &str) -> bool {
        self.exists != Some(false)
    }

    fn doubt(&mut self) {
        self.depends_on_unseen = true;
    }
}

impl Plan {
    /// Compares the deletions of the collector with the limits of its brake. What users, the
    /// namespace controller and the API server delete does not count there.
    ///
    /// `population` says how many objects a type has, if that is known.
    pub fn forecast(&mut self, limits: &Limits, population: impl Fn(&GroupResource) -> Option<u64>) {
        match self.reached(limits, population) {
            _ if limits.is_off() => self.brake = Forecast::Off,
            reached => self.brake = reached,
        }
        if matches!(self.brake, Forecast::Engages { .. }) {
            self.verdict.push_str(" The brake of the collector stops this before it is done.");
        }
    }

    fn reached(&self, limits: &Limits, population: impl Fn(&GroupResource) -> Option<u64>) -> Forecast {
        let total: u64 = self.by_collector.iter().map(|(_, count)| count).sum();
        let engages = |why| Forecast::Engages { why: format!("the collector deletes {why}") };
        if let Some(most) = limits.per_minute.filter(|most| total > u64::from(most.get())) {
            return engages(format!("{total} objects, and may delete {most} in a minute"));
        }
        if let (Some(most), Some((count, namespace))) = (limits.namespace_per_minute, &self.most_in_namespace)
            && *count > u64::from(most.get())
        {
            let there = format!("in the namespace {namespace}, and may delete {most} there in a minute");
            return engages(format!("{count} objects {there}"));
        }
        let Some(share) = limits.share else { return Forecast::Passes };
        let mut is_known = true;
        for (resource, count) in &self.by_collector {
            match population(resource) {
                // The floor is certain.
                None => is_known &= *count <= u64::from(share.floor),
                Some(of) if *count > share.of(of) => {
                    let most = format!("may delete {} ({} %)", share.of(of), share.percent);
                    return engages(format!("{count} of {of} {resource}, and {most}"));
                }
                Some(_) => {}
            }
        }
        if is_known { Forecast::Passes } else { Forecast::Unknown }
    }
}
