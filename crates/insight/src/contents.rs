//! Why a namespace, or the definition of a custom resource, is still there: what is left in it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::advice::Advice;
use crate::chain::chain;
use crate::explain::{Explanation, HeldBy, explain};
use crate::finalizers::FinalizerReport;
use crate::hold::{NAMESPACE_CONTROLLER, holds, is_pod, silent_apis};
use crate::knowledge::{Asker, Live, Particulars};
use crate::name::{ObjectName, Unseen};
use crate::plan::{Container, OF_NAMESPACES, keeps_contents};
use crate::sentence;
use kube_gc_core::object::{DeletionState, Identity};
use kube_gc_core::text::LISTED;

/// A condition of a namespace that is true, or of a definition that says why it does not go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NamespaceCondition {
    pub kind: String,
    pub message: String,
}

/// What is left in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NamespaceReport {
    /// The number of objects that are left.
    pub left: usize,
    /// How many of them are being deleted.
    pub being_deleted: usize,
    pub by_type: Vec<TypeLeft>,
    /// The finalizers that hold objects, those of most objects first.
    pub held: Vec<HeldObjects>,
    /// The number of objects that finalizers hold, as far as they were read.
    pub held_objects: usize,
    /// What holds objects besides, each in a sentence.
    pub others: Vec<String>,
    /// How many objects were not read, because there are too many.
    pub not_read: usize,
    pub conditions: Vec<NamespaceCondition>,
    pub silent_apis: Vec<Unseen>,
}

impl NamespaceCondition {
    /// Whether it only says that something is left, and not why.
    pub(super) fn says_what_is_left(&self) -> bool {
        matches!(&*self.kind, "NamespaceContentRemaining" | "NamespaceFinalizersRemaining")
    }

    pub(super) fn words(&self) -> String {
        format!("its condition {} says: {}", self.kind, self.message)
    }
}

impl NamespaceReport {
    /// Whether one finalizer holds everything that is left.
    pub(super) fn is_held_by_one(&self) -> bool {
        matches!(&self.held[..], [only] if only.count == self.left)
            && self.others.is_empty()
            && self.conditions.iter().all(NamespaceCondition::says_what_is_left)
    }
}

/// The objects of one type that are left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TypeLeft {
    pub kind: String,
    /// Resource and group as kubectl writes them.
    pub resource: String,
    pub count: usize,
}

/// The objects that one finalizer holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct HeldObjects {
    pub finalizer: FinalizerReport,
    /// When whoever set it did so first on one of them, as far as that was read.
    pub first_set: Option<String>,
    pub count: usize,
    /// The first of them.
    pub objects: Vec<ObjectName>,
}

/// The most objects whose finalizers are read.
const READ: usize = 100;
/// The most finalizers that are listed.
const MOST_HELD: usize = 64;
/// The most objects that are named for each finalizer.
const NAMED: usize = 5;

/// Explains a namespace, or the definition of a custom resource, of which this is left. One that is not being deleted
/// is explained like any object.
pub fn explain_namespace(
    asker: &mut Asker<'_>,
    identity: &Identity,
    left: &[(Identity, DeletionState)],
) -> Explanation {
    let mut explanation = explain(asker, identity);
    if explanation.deleted.is_none() {
        return explanation;
    }
    let (mut report, of_others) = report(asker, left);
    report.silent_apis = silent_apis(asker, identity).to_vec();
    let is_blocked = !explanation.chain.links.is_empty();
    let (mut deletion, mut failure, mut is_skipped) = (DeletionState::Terminating, None, false);
    if let Some(Live::Found(live)) = asker.live(identity) {
        // Dependents that block it say more than the finalizer that they hold.
        if live.facts.deletion_state() == DeletionState::DeletingDependents && !is_blocked {
            deletion = DeletionState::DeletingDependents;
        }
        if let Particulars::Container { conditions, .. } = &live.details.particulars {
            report.conditions.clone_from(conditions);
            is_skipped = keeps_contents(identity, &live.details);
        }
        failure = live.details.failure();
    }
    let is_all = asker.outside().is_empty();
    let mut own = holds(asker, identity, deletion, report.left > 0 || is_blocked);
    let source = asker.outside().source;
    let advice: Vec<_> = own.iter().flat_map(|held| held.advice(&explanation.object, 1, source)).collect();
    // What is left in it is told as such.
    own.extend(explanation.chain.held(left));
    // Without that of what was looked at again.
    let known = std::mem::take(&mut explanation.to_do);
    let known = Some(known).filter(|_| explanation.held_by.is_empty() || is_blocked).into_iter().flatten();
    explanation.held_by = own.iter().map(HeldBy::from).collect();
    (explanation.outcome, explanation.verdict) =
        sentence::namespace(&explanation.object, &report, is_all, &own);
    let pod = left.iter().find(|(object, state)| is_pod(object) && state.is_being_deleted());
    let look = |at: &str| format!(". If that does not change, look at {at}.");
    let why = match (Container::of(identity), failure, pod) {
        (Some(Container::Definition(_)), ..) => look("the API server, which deletes them"),
        (_, Some(failure), _) => format!(": repair what the condition {} reports.", failure.kind),
        _ if is_skipped => format!(
            ": no controller empties it without the finalizer {OF_NAMESPACES} in its spec. Another deletion removes it, \
             and leaves in the store what is in it."
        ),
        (_, _, Some((pod, _))) => format!(": pods go first, and {} is still there.", ObjectName::from(pod)),
        (..) => look(NAMESPACE_CONTROLLER),
    };
    let of_left = sentence::advice_on_namespace(&report, &why, is_all && own.is_empty() && !is_blocked);
    explanation.to_do = of_left.into_iter().chain(advice).chain(known).chain(of_others).collect();
    explanation.advice = Advice::once(&explanation.to_do);
    explanation.depends_on_unseen |= report.not_read > 0;
    explanation.namespace = Some(report);
    explanation
}

/// What is left, and what a person can do about what no finalizer holds.
fn report(asker: &mut Asker<'_>, objects: &[(Identity, DeletionState)]) -> (NamespaceReport, Vec<Advice>) {
    let mut by_type: BTreeMap<String, TypeLeft> = BTreeMap::new();
    for (identity, _) in objects {
        let (kind, resource) =
            (identity.resource.kind.to_string(), identity.resource.group_resource.to_string());
        by_type.entry(resource.clone()).or_insert(TypeLeft { kind, resource, count: 0 }).count += 1;
    }
    let deleted = objects.iter().filter(|(_, deletion)| deletion.is_being_deleted());
    let mut deleted: Vec<_> = deleted.collect();
    // The graph has them in no order.
    deleted.sort_by_cached_key(|(object, _)| ObjectName::from(object));
    let mut held: BTreeMap<String, HeldObjects> = BTreeMap::new();
    let mut held_objects = 0;
    let (mut others, mut advice, source) = (Vec::new(), Vec::new(), asker.outside().source);
    for (identity, deletion) in deleted.iter().copied().take(READ) {
        let Some(Live::Found(live)) = asker.live(identity) else { continue };
        let name = ObjectName::from(identity);
        if *deletion == DeletionState::DeletingDependents {
            let chain = chain(asker, identity);
            if let Some(held) = chain.held(objects) {
                others.push(format!("{name}{}", held.predicate()));
                advice.extend(sentence::advice_on_chain(&chain, source));
            }
        }
        if live.details.finalizers.is_empty() {
            let holds = holds(asker, identity, *deletion, false);
            others.extend(holds.iter().map(|held| format!("{name}{}", held.predicate())));
            advice.extend(holds.iter().flat_map(|held| held.advice(&name, 1, source)));
        } else {
            held_objects += 1;
        }
        for finalizer in FinalizerReport::of(identity, &live.details, asker.catalog()) {
            let set = finalizer.set_by.clone();
            let new = HeldObjects { finalizer: finalizer.clone(), ..HeldObjects::default() };
            let of_finalizer = held.entry(finalizer.name).or_insert(new);
            // Another manager says nothing about this one.
            let first_manager = of_finalizer.finalizer.set_by.as_ref().map(|setter| &setter.manager);
            if let Some(set) = set.filter(|set| first_manager == Some(&set.manager)) {
                of_finalizer.first_set = of_finalizer.first_set.take().into_iter().chain(set.time).min();
            }
            of_finalizer.count += 1;
            if of_finalizer.objects.len() < NAMED {
                of_finalizer.objects.push(name.clone());
            }
        }
    }
    let mut held: Vec<HeldObjects> = held.into_values().collect();
    held.sort_by_key(|held| std::cmp::Reverse(held.count));
    held.truncate(MOST_HELD);
    others.truncate(LISTED);
    let report = NamespaceReport {
        left: objects.len(),
        being_deleted: deleted.len(),
        by_type: by_type.into_values().collect(),
        held,
        held_objects,
        others,
        not_read: deleted.len().saturating_sub(READ),
        ..NamespaceReport::default()
    };
    (report, advice)
}
