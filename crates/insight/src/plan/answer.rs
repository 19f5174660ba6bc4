//! The answer: what happens to every object if one is deleted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finalizers::FinalizerReport;
use crate::name::ObjectName;
use crate::neighbourhood::State;
use kube_gc_core::object::{GroupResource, Identity, Namespace, PropagationPolicy};

/// What happens to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
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

impl Effect {
    /// For people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Held => "held",
            Self::Blocks => "blocks",
            Self::Orphaned => "orphaned",
            Self::Kept => "kept",
            Self::Unknown => "unknown",
        }
    }
}

/// The plan of a deletion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    pub object: ObjectName,
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
    /// How many of them are in the namespace that has the most.
    #[serde(skip)]
    pub most_in_namespace: Option<(u64, Namespace)>,
}

/// What the brake would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum Forecast {
    /// The settings of the collector are not known.
    #[default]
    Unknown,
    /// It has no limits.
    Off,
    /// No limit is reached, if nothing else is deleted at the same time.
    Passes,
    /// A limit is reached before the deletion is done.
    #[serde(rename_all = "camelCase")]
    Engages {
        /// Which limit, and by how much.
        why: String,
    },
}

/// The policy, as kubectl spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Cascade {
    Background,
    Foreground,
    Orphan,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
            deleted: 0,
            held: 0,
            blocks: 0,
            orphaned: 0,
            kept: 0,
            unknown: 0,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// Of one that is deleted: what it waits for.
    pub after: Option<ObjectName>,
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
    #[must_use]
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
