//! Answers in sentences.

use std::collections::BTreeMap;

use crate::explain::{Chain, Hold, NamespaceReport};
use crate::finalizers::FinalizerReport;
use crate::judge::{Evidence, JudgedReference};
use crate::knowledge::AbsenceEvidence;
use crate::name::ObjectName;
use kube_gc_core::object::FOREGROUND_FINALIZER;
use kube_gc_core::text::{LISTED, Thousands};
use kube_gc_core::verdict::{Decision, IdleReason, KeepReason, Precheck, ReferenceClass};

/// The verdict on an object that does not exist.
pub(super) fn absent(object: &ObjectName, evidence: &AbsenceEvidence) -> String {
    match evidence {
        AbsenceEvidence::NotFound => format!("{object} does not exist."),
        AbsenceEvidence::OtherUid(uid) => {
            format!("{object} does not exist any more: that name belongs to {} now.", uid.shown())
        }
    }
}

/// The verdict on an object whose owners decide.
pub(super) fn decision(object: &ObjectName, decision: &Decision, judged: &[JudgedReference]) -> String {
    let count = |class| judged.iter().filter(|reference| reference.class == class).count();
    let owners = counted(judged.len(), "owner");
    match decision {
        Decision::Keep(KeepReason::Owned) => match judged {
            [only] => format!("{object} stays: its owner {} exists.", only.owner),
            _ => format!("{object} stays: all of its {owners} exist."),
        },
        Decision::Keep(KeepReason::NoReferences) => {
            format!("{object} stays: it has no owner references, so it is never garbage.")
        }
        Decision::Keep(KeepReason::BeingDeleted) => format!("{object} is being deleted already."),
        Decision::Park(_) => {
            let open = count(ReferenceClass::Unresolved);
            format!(
                "{object} stays for now: {open} of its {owners} cannot be resolved, so nothing is proved about {}.",
                if open == 1 { "it" } else { "them" }
            )
        }
        Decision::Report { .. } => format!(
            "{object} stays and is never collected: it is cluster-scoped and names {} of a namespaced kind.",
            counted(count(ReferenceClass::InvalidScope), "owner")
        ),
        Decision::RemoveReferences { remove, .. } => {
            let kept = match judged.iter().find(|reference| reference.class == ReferenceClass::Solid) {
                Some(solid) => format!("its owner {} exists", solid.owner),
                None => "its owner was deleted with the policy Orphan".to_owned(),
            };
            format!(
                "{object} stays and loses {}: {kept}, others do not.",
                counted(remove.len(), "owner reference")
            )
        }
        Decision::Delete { policy, .. } => {
            let waiting = count(ReferenceClass::Waiting);
            let why = match judged {
                [only] if waiting == 1 => {
                    format!("its owner {} is being deleted and waits for its dependents", only.owner)
                }
                [only] => format!("its owner {} does not exist", only.owner),
                _ if waiting == 0 => format!("none of its {owners} exists"),
                _ => format!("none of its {owners} keeps it, and {waiting} wait for their dependents"),
            };
            format!("{object} is garbage: {why}. The collector deletes it with the policy {policy}.")
        }
    }
}

/// The verdict on an object whose own deletion decides.
pub(super) fn deletion(object: &ObjectName, before: Precheck, finalizers: &[FinalizerReport]) -> String {
    match before {
        Precheck::Nothing(IdleReason::NoReferences) => {
            format!("{object} stays: it has no owner references, so it is never garbage.")
        }
        Precheck::Nothing(IdleReason::Terminating) if finalizers.is_empty() => {
            format!("{object} is being deleted, and no finalizer holds it: its grace period has not ended.")
        }
        Precheck::Nothing(IdleReason::Terminating) => {
            format!("{object} is being deleted, and waits for {}.", FinalizerReport::names(finalizers))
        }
        Precheck::Nothing(IdleReason::Orphaning) => {
            format!(
                "{object} is being deleted with the policy Orphan: the collector releases its dependents first."
            )
        }
        Precheck::RemoveForegroundFinalizer => {
            let others: Vec<_> =
                finalizers.iter().filter(|finalizer| finalizer.name != FOREGROUND_FINALIZER).collect();
            let then = match others.len() {
                0 => "then it is gone".to_owned(),
                _ => format!("then it waits for {}", FinalizerReport::names(others)),
            };
            format!(
                "{object} is being deleted, and no dependent blocks it: the collector removes the finalizer \
                 foregroundDeletion, and {then}."
            )
        }
        Precheck::AskForUnreadReferences => format!(
            "{object} is being deleted, and no known dependent blocks it, but part of the API cannot be discovered."
        ),
        Precheck::WaitForDependents(count) => {
            format!("{object} is being deleted, and waits for {}.", counted(count, "blocking dependent"))
        }
        Precheck::BreakDeadlock => format!(
            "{object} is being deleted, and its blocking dependents wait for it in turn: the collector breaks the \
             circle."
        ),
        Precheck::Classify => format!("{object} depends on its owners."),
    }
}

/// What a person can do about owner references.
pub(super) fn advice_on_references(decision: &Decision, judged: &[JudgedReference]) -> Vec<String> {
    let open = match decision {
        Decision::Park(_) => ReferenceClass::Unresolved,
        Decision::Report { .. } => ReferenceClass::InvalidScope,
        _ => return Vec::new(),
    };
    let advice = |JudgedReference { owner, evidence, .. }: &JudgedReference| {
        Some(match evidence {
            Evidence::NotServed { served_as: Some(version) } => {
                format!("Change the owner reference to {owner}: the server has this kind in {version}.")
            }
            Evidence::NotServed { served_as: None } => {
                format!(
                    "Install the API {} of {owner} again, or remove the owner reference.",
                    owner.api_version
                )
            }
            Evidence::Undiscovered => {
                format!("Find out why the API {} does not answer.", owner.api_version)
            }
            Evidence::Namespaced => {
                format!("Remove the owner reference to {owner}, or name a cluster-scoped owner.")
            }
            _ => return None,
        })
    };
    judged.iter().filter(|reference| reference.class == open).take(LISTED).filter_map(advice).collect()
}

/// What a person can do about finalizers that hold an object.
pub(super) fn advice_on_finalizers(finalizers: &[FinalizerReport]) -> Vec<String> {
    finalizers.iter().take(LISTED).map(advice_on_finalizer).collect()
}

/// What a person can do about a finalizer.
pub(super) fn advice_on_finalizer(finalizer: &FinalizerReport) -> String {
    let FinalizerReport { name, remover, when, set_by, api_is_served } = finalizer;
    let advice = match (remover, when, set_by, api_is_served) {
        (Some(remover), Some(when), ..) => format!("{remover} removes it as soon as {when}."),
        (_, _, Some(setter), Some(false)) => format!(
            "{} set it, and the server has no API of its domain. Is that controller still installed?",
            setter.manager
        ),
        (_, _, None, Some(false)) => {
            "the server has no API of its domain. Is its controller still installed?".to_owned()
        }
        (_, _, Some(setter), _) => format!("look at {}, which set it.", setter.manager),
        (_, _, None, _) => "look at the controller that sets it.".to_owned(),
    };
    format!("Finalizer {name}: {advice}")
}

/// What a person can do about what holds a chain.
pub(super) fn advice_on_chain(chain: &Chain) -> Vec<String> {
    let mut held: BTreeMap<&str, (usize, &FinalizerReport)> = BTreeMap::new();
    for leaf in chain.leaves.iter().filter(|leaf| leaf.hold == Hold::Finalizers) {
        for finalizer in leaf.finalizers.iter().filter(|finalizer| finalizer.name != FOREGROUND_FINALIZER) {
            held.entry(&finalizer.name).or_insert((0, finalizer)).0 += 1;
        }
    }
    let mut held: Vec<_> = held.into_values().collect();
    held.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let mut advice: Vec<String> =
        held.iter().take(LISTED).map(|(_, finalizer)| advice_on_finalizer(finalizer)).collect();
    let count = |hold: &Hold| chain.leaves.iter().filter(|leaf| leaf.hold == *hold).count();
    let next = count(&Hold::ToBeDeleted) + count(&Hold::ToBeReleased) + count(&Hold::Unblocked);
    if next > 0 {
        advice.push(format!(
            "The collector has {} to work on. If that does not change, look whether it runs.",
            counted(next, "of these objects")
        ));
    }
    if count(&Hold::Undecided) > 0 {
        advice.push(
            "Explain the objects that cannot be decided on: an owner of theirs cannot be resolved.".into(),
        );
    }
    advice
}

/// The verdict on a namespace that is being deleted.
pub(super) fn namespace(object: &ObjectName, report: &NamespaceReport) -> String {
    let NamespaceReport { left, held, silent_apis, .. } = report;
    let silent = match silent_apis.len() {
        0 => String::new(),
        1 => "; 1 part of the API does not answer".to_owned(),
        count => format!("; {count} parts of the API do not answer"),
    };
    if *left == 0 && silent.is_empty() {
        return format!(
            "{object} is being deleted, and nothing is left in it: the namespace controller removes it."
        );
    }
    if *left == 0 {
        return format!("{object} cannot go: nothing is left in it that can be listed{silent}.");
    }
    let objects = counted(*left, "object");
    let are = if *left == 1 { "is" } else { "are" };
    let holding = match &held[..] {
        [only] if only.count == *left => {
            let all = if *left == 1 { "" } else { "all " };
            format!("{all}held by finalizer {}", only.finalizer.name)
        }
        [] => "not held by any finalizer".to_owned(),
        several => {
            format!("some held by {}", FinalizerReport::names(several.iter().map(|held| &held.finalizer)))
        }
    };
    format!("{object} cannot go: {objects} {are} left, {holding}{silent}.")
}

/// What a person can do about a namespace that is being deleted.
pub(super) fn advice_on_namespace(report: &NamespaceReport) -> Vec<String> {
    let mut advice: Vec<String> =
        report.held.iter().map(|held| advice_on_finalizer(&held.finalizer)).collect();
    if let (Some(first), Some(held)) = (advice.first_mut(), report.held.first()) {
        let FinalizerReport { remover, set_by, api_is_served, .. } = &held.finalizer;
        if let (None, Some(setter), Some(true) | None) = (remover, set_by, api_is_served) {
            *first = format!("Look at {} first.", setter.manager);
        }
        if report.is_held_by_one() {
            first.push_str(" Nothing else blocks.");
        }
    }
    for api in report.silent_apis.iter().take(LISTED) {
        advice.push(format!(
            "The API {} does not answer. A namespace only goes after every API has: repair it, or remove its \
             APIService.",
            api.what
        ));
    }
    let not_deleted = report.left - report.being_deleted;
    if not_deleted > 0 {
        let are = if not_deleted == 1 { "is" } else { "are" };
        advice.push(format!(
            "{} {are} not deleted yet. If that does not change, look at the namespace controller of \
             kube-controller-manager.",
            counted(not_deleted, "object")
        ));
    }
    advice
}

/// A number of things.
pub fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 || what.ends_with('s') { "" } else { "s" };
    format!("{} {what}{plural}", Thousands(number))
}
