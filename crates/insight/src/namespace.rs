//! Why a namespace that is being deleted is still there.

use std::collections::{BTreeMap, HashMap};

use kube_gc_core::object::Identity;
use kube_gc_core::text::LISTED;

use super::contents::{HeldObjects, NamespaceContents, NamespaceReport, TypeLeft};
use super::explain::{Explanation, Outcome, explain};
use super::finalizers::FinalizerReport;
use super::knowledge::{Asker, Live};
use super::name::ObjectName;
use super::sentence;

/// The most objects whose finalizers are read.
const READ: usize = 100;
/// The most objects that are named for each finalizer.
const NAMED: usize = 5;

/// Explains a namespace. One that is not being deleted is explained like any object.
pub fn explain_namespace(
    asker: &mut Asker<'_>,
    identity: &Identity,
    contents: &NamespaceContents,
) -> Explanation {
    let mut explanation = explain(asker, identity);
    if explanation.deleted.is_none() {
        return explanation;
    }
    let report = report(asker, contents);
    explanation.outcome = Outcome::Waits;
    explanation.verdict = sentence::namespace(&explanation.object, &report);
    explanation.advice = sentence::advice_on_namespace(&report);
    explanation.namespace = Some(report);
    explanation
}

fn report(asker: &mut Asker<'_>, contents: &NamespaceContents) -> NamespaceReport {
    let NamespaceContents { objects, conditions, silent_apis } = contents;
    let mut by_type: BTreeMap<String, TypeLeft> = BTreeMap::new();
    for (identity, _) in objects {
        let resource = identity.resource.group_resource.to_string();
        let of_type = by_type.entry(resource.clone()).or_insert_with(|| TypeLeft {
            kind: identity.resource.kind.to_string(),
            resource,
            count: 0,
        });
        of_type.count += 1;
    }
    let mut deleted: Vec<&Identity> = objects
        .iter()
        .filter(|(_, deletion)| deletion.is_being_deleted())
        .map(|(identity, _)| identity)
        .collect();
    // The graph has them in no order.
    deleted.sort_by(|a, b| place(a).cmp(&place(b)));
    let mut held: BTreeMap<String, HeldObjects> = BTreeMap::new();
    let mut writes: HashMap<String, String> = HashMap::new();
    for identity in deleted.iter().take(READ) {
        let Some(Live::Found(live)) = asker.live(identity) else { continue };
        for setter in &live.details.setters {
            if let Some(time) = &setter.last_write {
                let last = writes.entry(setter.manager.clone()).or_default();
                *last = std::mem::take(last).max(time.clone());
            }
        }
        for finalizer in FinalizerReport::of(&live.details, asker.catalog()) {
            let set = finalizer.set_by.clone();
            let of_finalizer = held.entry(finalizer.name.clone()).or_insert_with(|| HeldObjects {
                finalizer,
                first_set: None,
                last_write: None,
                count: 0,
                objects: Vec::new(),
            });
            if let Some(set) = set.filter(|set| is_by(&of_finalizer.finalizer, &set.manager)) {
                let first = of_finalizer.first_set.take().into_iter().chain(set.time).min();
                of_finalizer.first_set = first;
            }
            of_finalizer.count += 1;
            if of_finalizer.objects.len() < NAMED {
                of_finalizer.objects.push(ObjectName::from(*identity));
            }
        }
    }
    let mut held: Vec<HeldObjects> = held.into_values().collect();
    for of_finalizer in &mut held {
        let manager = of_finalizer.finalizer.set_by.as_ref().map(|setter| &setter.manager);
        of_finalizer.last_write = manager.and_then(|manager| writes.get(manager).cloned());
    }
    held.sort_by_key(|of_finalizer| std::cmp::Reverse(of_finalizer.count));
    held.truncate(LISTED);
    NamespaceReport {
        left: objects.len(),
        being_deleted: deleted.len(),
        by_type: by_type.into_values().collect(),
        held,
        not_read: deleted.len().saturating_sub(READ),
        conditions: conditions.clone(),
        silent_apis: silent_apis.clone(),
    }
}

fn place(identity: &Identity) -> impl Ord + '_ {
    (&identity.resource.group_resource, &identity.name, &identity.uid)
}

/// Whether this manager set a finalizer.
fn is_by(finalizer: &FinalizerReport, manager: &str) -> bool {
    finalizer.set_by.as_ref().is_some_and(|setter| setter.manager == manager)
}
