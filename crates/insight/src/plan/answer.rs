//! The answer, in words too, and whether the brake would engage.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::finalizers::FinalizerReport;
use crate::name::{ObjectName, Report, Source};
use crate::neighbourhood::State;
use crate::sentence::counted;
use kube_gc_core::brake::Limits;
use kube_gc_core::object::{GroupResource, Identity, Namespace, PropagationPolicy};
use kube_gc_core::text::{Thousands, listed};

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
    /// The objects that go and whose dependents the walk has not followed: [`Walk::follow`](super::Walk::follow).
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
    fn rests_on_all(&self) -> bool {
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
            Forecast::Engages { why } => self.stops(why),
            other => self.brake = other,
        }
    }

    /// The brake engages, so not everything goes that the verdict names.
    pub fn stops(&mut self, why: String) {
        self.brake = Forecast::Engages { why };
        self.verdict.push_str(" The brake of the collector stops this before it is done.");
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

/// What the first sentence says, besides the numbers of the plan.
pub(super) struct Verdict<'a> {
    /// How many objects go before a root that goes last.
    pub(super) contents: Option<usize>,
    /// How many of the roots are held.
    pub(super) held: usize,
    /// What has to happen before one root goes that finalizers hold.
    pub(super) held_by: Option<String>,
    /// That one root is being deleted already.
    pub(super) begun: Option<String>,
    /// Why a namespace among the roots does not go.
    pub(super) hangs: Option<&'a str>,
    /// What one root waits for.
    pub(super) holders: Vec<ObjectName>,
}

impl Verdict<'_> {
    /// The plan in a few sentences.
    pub(super) fn of(&self, plan: &Plan) -> String {
        let sum = |of: fn(&TypeEffects) -> usize| plan.by_type.iter().map(of).sum::<usize>();
        let object = &plan.object;
        let (subject, [are, its, it]) = match plan.others.len() {
            0 => (object.to_string(), ["is", "its", "it"]),
            more => (format!("{object} and {} more", Thousands(more)), ["are", "their", "them"]),
        };
        let (roots, contents) = (1 + plan.others.len(), self.contents.unwrap_or_default());
        let held = sum(|of| of.held).saturating_sub(self.held);
        // Of what is in it, those that are held are among the last.
        let said = if contents > 0 { roots + contents } else { roots + held };
        let others = (sum(|of| of.deleted) + sum(|of| of.held)).saturating_sub(said);
        let follow = match plan.cascade {
            Cascade::Orphan => sum(|of| of.orphaned),
            _ => others + held + sum(|of| of.blocks) + plan.perhaps_deletes,
        };
        let is_alone =
            self.contents == Some(0) || (self.contents.is_none() && follow == 0 && !plan.depends_on_unseen);
        let marked =
            self.held_by.as_ref().filter(|_| is_alone && self.begun.is_none() && self.hangs.is_none());
        let mut text = match (self.contents, plan.cascade) {
            (Some(_), _) if plan.depends_on_unseen => {
                format!(
                    "{subject} is deleted last, after its objects, unless something that was not looked at holds it"
                )
            }
            (Some(0), _) => format!("{subject} is deleted"),
            (Some(1), _) => format!("{subject} is deleted last, after its only object"),
            (Some(count), _) => {
                format!("{subject} is deleted last, after its {}", counted(count, "object"))
            }
            _ if is_alone => format!("{subject} {are} deleted"),
            (None, Cascade::Background) => {
                let pods = if object.resource.as_deref() == Some("nodes") { "pods and " } else { "" };
                format!("{subject} {are} deleted at once, and {its} {pods}dependents follow")
            }
            (None, Cascade::Foreground) => {
                format!("{subject} {are} deleted after the dependents that block {it}")
            }
            (None, Cascade::Orphan) => format!("{subject} {are} deleted, and {its} dependents are released"),
        };
        if let Some(begun) = &self.begun {
            text = format!("{subject} {begun}");
        } else if let Some(by) = marked {
            text = format!("{subject} is marked for deletion and stays until {by}");
        }
        let least = if plan.depends_on_unseen { "at least " } else { "" };
        let go = if others == 1 { "goes" } else { "go" };
        let again = if self.begun.is_some() { " if it is deleted again" } else { "" };
        match (others, contents) {
            (0, 0) if plan.depends_on_unseen => text.push_str("; no other object that was looked at goes"),
            (0, 0) if marked.is_some() => text.push_str("; nothing else goes"),
            (0, 0) => text.push_str("; no other object goes"),
            (0, _) => {}
            (_, 0) => text.push_str(&format!("; {least}{} {go}{again}", counted(others, "other"))),
            _ => text.push_str(&format!("; {least}{} more {go}{again}", Thousands(others))),
        }
        let mut add = |count: usize, one: &str, several: &str| match count {
            0 => {}
            1 => text.push_str(&format!("; 1 {one}")),
            _ => text.push_str(&format!("; {} {several}", Thousands(count))),
        };
        add(held, "stays until its finalizers are removed", "stay until finalizers are removed");
        add(sum(|of| of.blocks), &format!("blocks {it}"), &format!("block {it}"));
        add(sum(|of| of.orphaned), "is orphaned", "are orphaned");
        add(sum(|of| of.kept), "is kept by another owner", "are kept by other owners");
        add(plan.perhaps_deletes, "may go or stay", "may go or stay");
        text.push('.');
        let until = self.held_by.as_ref();
        match self.hangs {
            Some(hangs) if roots == 1 => {
                let until = until.map(|by| format!(", and {by}")).unwrap_or_default();
                text.push_str(&format!(" {subject} {hangs}{until}."));
            }
            Some(hangs) => text.push_str(&format!(" A namespace among them {hangs}.")),
            None if roots > 1 && self.held > 0 => {
                text.push_str(&format!(" Finalizers hold {} of those named.", Thousands(self.held)));
            }
            None => {
                let until = until.filter(|_| marked.is_none());
                text.extend(until.map(|by| format!(" {object} itself stays until {by}.")));
            }
        }
        if !self.holders.is_empty() {
            let holders = listed(", ", self.holders.len(), &self.holders);
            text.push_str(&format!(" {object} waits for {holders}."));
        }
        if plan.truncated {
            text.push_str(" There are more objects than were looked at.");
        }
        text
    }
}

/// What is to be said if objects of a type go.
const NOTES: [(&str, &str); 5] = [
    ("pods", "A running Pod stays for its grace period."),
    (
        "nodes",
        "PodGC of kube-controller-manager deletes the pods of a node that is gone, without a grace period.",
    ),
    (
        "namespaces",
        "The namespace controller of kube-controller-manager deletes what is in a namespace, whatever its owners.",
    ),
    (
        "customresourcedefinitions.apiextensions.k8s.io",
        "The API server deletes the objects of a type before its definition goes.",
    ),
    (
        "persistentvolumeclaims",
        "What happens to the data behind a PersistentVolumeClaim depends on the reclaim policy of its volume.",
    ),
];

/// What nobody can know beforehand.
pub(super) fn notes(plan: &Plan, source: Source) -> Vec<String> {
    let always = "A plan cannot know what admission webhooks refuse, and what controllers create anew or delete \
                  besides (endpoints, pods of a node, volumes).";
    let collector = match source {
        Source::Lists | Source::Collector => "Dependents go only if a collector runs.",
        Source::DryRun => "The collector that answers is in a dry run: it deletes no dependent.",
    };
    let needs_collector = (!plan.by_collector.is_empty()).then_some(collector);
    let goes = |name: &str| plan.by_type.iter().any(|of| of.resource == name && of.deleted + of.held > 0);
    let is_node = plan.object.resource.as_deref() == Some("nodes");
    let of_types = NOTES.iter().filter(|(resource, _)| goes(resource) && !(is_node && *resource == "pods"));
    let of_types = of_types.map(|(_, note)| *note);
    std::iter::once(always).chain(needs_collector).chain(of_types).map(str::to_owned).collect()
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
