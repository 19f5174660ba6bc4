//! Answers in sentences.

use std::collections::BTreeMap;

use crate::advice::Advice;
use crate::chain::{Chain, Leaf};
use crate::contents::NamespaceReport;
use crate::explain::Outcome;
use crate::finalizers::FinalizerReport;
use crate::hold::{Held, Hold};
use crate::judge::{Evidence, JudgedReference};
use crate::knowledge::AbsenceEvidence;
use crate::name::{ObjectName, Outside, Source};
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

/// Other controllers delete what has expired, for example.
fn unowned(object: &ObjectName) -> String {
    format!("No garbage collector deletes {object}: it has no owner references.")
}

/// The verdict on an object whose owners decide.
pub(super) fn decision(
    object: &ObjectName,
    decision: &Decision,
    judged: &[JudgedReference],
    source: Source,
) -> String {
    let count = |class| judged.iter().filter(|reference| reference.class == class).count();
    let owners = counted(judged.len(), "owner");
    match decision {
        Decision::Keep(KeepReason::Owned) => match judged {
            [only] => format!("{object} stays: its owner {} exists.", only.owner),
            _ => format!("{object} stays: its {owners} exist."),
        },
        Decision::Keep(KeepReason::NoReferences) => unowned(object),
        Decision::Keep(KeepReason::BeingDeleted) => format!("{object} is being deleted already."),
        Decision::Park(_) => match (judged, judged.iter().find(|reference| reference.evidence.is_unseen())) {
            (_, Some(unseen)) => format!("It is not known whether {object} stays: {}.", unresolved(unseen)),
            ([only], None) => {
                format!("{object} stays for now, because nothing is proved: {}.", unresolved(only))
            }
            _ => format!(
                "{object} stays for now, because nothing is proved: {} of its {owners} cannot be resolved.",
                count(ReferenceClass::Unresolved)
            ),
        },
        Decision::Report { .. } => format!(
            "{object} stays and is never collected: it is cluster-scoped and names {} of a namespaced kind.",
            counted(count(ReferenceClass::InvalidScope), "owner")
        ),
        Decision::RemoveReferences { remove, .. } => {
            let why = match judged.iter().find(|reference| reference.class == ReferenceClass::Solid) {
                Some(solid) => format!("its owner {} keeps it, and not every owner does", solid.owner),
                None => "an owner was deleted with the policy Orphan".to_owned(),
            };
            let loses = if source == Source::DryRun { "would lose" } else { "loses" };
            format!("{object} stays and {loses} {}: {why}.", counted(remove.len(), "owner reference"))
        }
        Decision::Delete { .. } => {
            let waiting = count(ReferenceClass::Waiting);
            let why = match judged {
                [only] if waiting == 1 => {
                    format!("its owner {} is being deleted and waits for its dependents", only.owner)
                }
                [only] => missing(only),
                _ if waiting == 0 => {
                    // What one of them is meant to be says most.
                    let told = judged.iter().find(|reference| reference.found.is_some());
                    let told = told.map(|told| format!(": {}", missing(told))).unwrap_or_default();
                    format!("none of its {owners} exists{told}")
                }
                _ => format!("none of its {owners} keeps it, and at least one waits for its dependents"),
            };
            format!("{object} is garbage: {why}.")
        }
    }
}

/// Why nothing follows from an owner.
fn unresolved(reference: &JudgedReference) -> String {
    let owner = &reference.owner;
    match &reference.evidence {
        Evidence::Failed { error } => format!("its owner {owner} cannot be read: {error}"),
        Evidence::NotAsked => format!("its owner {owner} was not looked at"),
        Evidence::Undiscovered => {
            format!("the API {} of its owner {owner} does not answer", owner.api_version)
        }
        Evidence::NotServed { .. } => format!("the server has no {} of {}", owner.kind, owner.api_version),
        _ => format!("its owner {owner} cannot be resolved"),
    }
}

/// An owner that does not exist, and where it may be meant to be.
fn missing(reference: &JudgedReference) -> String {
    let JudgedReference { owner, found, evidence, .. } = reference;
    let place = owner.namespace.as_ref().map(|namespace| format!(" in namespace {namespace}"));
    let place = place.unwrap_or_default();
    let elsewhere = found.as_ref().map(|found| {
        let namespace = found.namespace.as_deref().unwrap_or_default();
        format!(
            " (owners must be in the dependent's namespace; the uid is that of {namespace}/{})",
            found.name
        )
    });
    let but = match (elsewhere, evidence) {
        (Some(elsewhere), _) => elsewhere,
        (None, Evidence::OtherUid { uid }) => format!(" any more (another object has that name now: {uid})"),
        (None, _) => String::new(),
    };
    format!("its owner {owner} does not exist{place}{but}")
}

/// The verdict on an object that is being deleted and waits.
pub(super) fn held(object: &ObjectName, holds: &[Held]) -> String {
    let reasons: Vec<String> = holds.iter().filter(|held| !held.is_grace()).map(Held::of_one).collect();
    let (waits, then) = match reasons.len() {
        0 => (String::new(), ':'),
        _ => (format!(", and waits for {}", reasons.join(", and for ")), ';'),
    };
    let grace = holds.iter().find(|held| held.is_grace());
    let grace = grace.map(|held| format!("{then} {}", held.of_one())).unwrap_or_default();
    format!("{object} is being deleted{waits}{grace}.")
}

/// The verdict on an object whose own deletion decides.
pub(super) fn deletion(
    object: &ObjectName,
    before: Precheck,
    finalizers: &[FinalizerReport],
    outside: &Outside,
) -> String {
    match before {
        Precheck::Nothing(IdleReason::NoReferences) | Precheck::Classify => unowned(object),
        Precheck::Nothing(IdleReason::Terminating) => format!("{object} is being deleted."),
        Precheck::Nothing(IdleReason::Orphaning) => orphaning(object, outside.source).0,
        Precheck::RemoveForegroundFinalizer if !outside.is_empty() => format!(
            "{object} is being deleted. It is not known whether dependents block it, because not all could be listed."
        ),
        Precheck::RemoveForegroundFinalizer => {
            let others: Vec<_> =
                finalizers.iter().filter(|finalizer| finalizer.name != FOREGROUND_FINALIZER).collect();
            let then = match others.len() {
                0 => "then it is gone".to_owned(),
                _ => format!("then it waits for {}", FinalizerReport::names(others)),
            };
            format!(
                "{object} is being deleted, and no dependent blocks it: the collector{} the finalizer \
                 foregroundDeletion, and {then}.",
                outside.source.does("remove")
            )
        }
        Precheck::AskForUnreadReferences => format!(
            "{object} is being deleted, and no known dependent blocks it, but part of the API cannot be discovered."
        ),
        Precheck::WaitForDependents(count) => {
            format!("{object} is being deleted, and waits for {}.", counted(count, "blocking dependent"))
        }
        Precheck::BreakDeadlock => format!(
            "{object} is being deleted, and its blocking dependents wait for it in turn: the collector{} the circle.",
            outside.source.does("break")
        ),
    }
}

/// What happens to an object that releases its dependents, and what a person must not do to it meanwhile.
pub(super) fn orphaning(object: &ObjectName, source: Source) -> (String, Advice) {
    let happens = format!(
        "{object} is being deleted with the policy Orphan: the collector{} its dependents first.",
        source.does("release")
    );
    let advice = format!(
        "Do not delete {object} again before its dependents are released: any deletion without --cascade=orphan lets \
         the collector delete those that no other owner keeps."
    );
    (happens, advice.into())
}

/// What keeps an object of which owners cannot be resolved, and what a collector does otherwise.
pub(super) fn advice_on_references(object: &ObjectName, judged: &[JudgedReference]) -> Vec<Advice> {
    let fact = |JudgedReference { owner, evidence, .. }: &JudgedReference| {
        let ObjectName { api_version, kind, .. } = owner;
        let goes = "a collector may delete the object: a restored owner has a new uid.";
        let has = |kind, version| format!("As soon as the server has {kind} in {version}, {goes}");
        let fact = match evidence {
            Evidence::NotServed { served_as: Some(version) } => {
                format!(
                    "The server has {kind} in {version}, where no collector looks for this owner. {}",
                    has(kind, api_version)
                )
            }
            Evidence::NotServed { served_as: None } => has(kind, api_version),
            Evidence::Undiscovered => {
                format!("As soon as the API {api_version} answers, {goes} Find out why it does not answer.")
            }
            _ => return None,
        };
        Some(fact.into())
    };
    let mut advice: Vec<Advice> = judged.iter().filter_map(fact).take(LISTED).collect();
    if !advice.is_empty() {
        advice.insert(0, Advice::to_keep(object, 1));
    }
    advice
}

/// What a person can do about what holds a chain.
pub(super) fn advice_on_chain(chain: &Chain, source: Source) -> Vec<Advice> {
    let mut held: BTreeMap<&str, (&FinalizerReport, &ObjectName, usize)> = BTreeMap::new();
    for leaf in chain.leaves.iter().filter(|leaf| leaf.hold == Hold::Finalizers) {
        for finalizer in leaf.finalizers.iter().filter(|finalizer| finalizer.name != FOREGROUND_FINALIZER) {
            held.entry(&finalizer.name).or_insert((finalizer, &leaf.object, 0)).2 += 1;
        }
    }
    let mut held: Vec<_> = held.into_values().collect();
    held.sort_by_key(|(.., count)| std::cmp::Reverse(*count));
    let mut advice = FinalizerReport::advice_on_all(&held);
    let is_work = chain.leaves.iter().any(Leaf::is_work);
    advice.extend(is_work.then(|| source.advice()));
    if let Some(leaf) = chain.leaves.iter().find(|leaf| leaf.hold == Hold::Undecided) {
        advice.extend(Held::new(Hold::Undecided).advice(&leaf.object, 1, source));
    }
    advice
}

/// The verdict on a namespace, or the definition of a custom resource, that is being deleted. `own` is what it
/// waits for besides its content.
pub(super) fn namespace(
    object: &ObjectName,
    report: &NamespaceReport,
    is_all: bool,
    own: &[Held],
) -> (Outcome, String) {
    let NamespaceReport { left, held, held_objects, not_read, .. } = report;
    let also: Vec<String> = own.iter().map(Held::of_one).collect();
    let also = also.join(", and for ");
    if *left == 0 {
        let known = if is_all { "" } else { " that was looked at" };
        let is_unsaid = report.conditions.is_empty() && matches!(own, [Held { hold: Hold::Unknown, .. }]);
        let outcome = if is_unsaid { Outcome::Unknown } else { Outcome::Waits };
        let left = format!("nothing{known} is left in it, but it waits for {also}");
        return (outcome, format!("{object} is being deleted: {left}."));
    }
    let at_least = if is_all { "" } else { "at least " };
    let objects = counted(*left, "object");
    let are = if *left == 1 { "is" } else { "are" };
    let names = FinalizerReport::names(held.iter().map(|held| &held.finalizer));
    let holding = match left - held_objects {
        _ if held.is_empty() && report.being_deleted == 0 => "not deleted yet".to_owned(),
        _ if held.is_empty() && report.being_deleted < *left => "some not deleted yet".to_owned(),
        _ if held.is_empty() => "not held by any finalizer".to_owned(),
        0 if *left == 1 => format!("held by {names}"),
        0 => format!("all held by {names}"),
        _ if *not_read > 0 => format!("at least {} held by {names}", Thousands(*held_objects)),
        _ => format!("some held by {names}"),
    };
    let also = if own.is_empty() { String::new() } else { format!("; it also waits for {also}") };
    (Outcome::Waits, format!("{object} cannot go: {at_least}{objects} {are} left, {holding}{also}."))
}

/// What a person can do about what is left in a namespace, or of a definition, and why some is not deleted yet.
pub(super) fn advice_on_namespace(report: &NamespaceReport, why: &str, nothing_else: bool) -> Vec<Advice> {
    let held = report.held.iter().filter_map(|of| Some((&of.finalizer, of.objects.first()?, of.count)));
    let mut advice = FinalizerReport::advice_on_all(&held.collect::<Vec<_>>());
    if let Some(first) = advice.first_mut().filter(|_| nothing_else && report.is_held_by_one()) {
        first.what.push_str(" Nothing else blocks.");
    }
    let not_deleted = report.left - report.being_deleted;
    if not_deleted > 0 {
        let are = if not_deleted == 1 { "is" } else { "are" };
        advice.push(format!("{} {are} not deleted yet{why}", counted(not_deleted, "object")).into());
    }
    advice
}

/// A time as kubectl writes it.
pub fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A number of things, of all there are.
pub fn counted_of(number: usize, all: usize, what: &str) -> String {
    let of = if number == all { String::new() } else { format!("{} of ", Thousands(number)) };
    of + &counted(all, what)
}

/// A number of things.
pub fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 || what.ends_with('s') { "" } else { "s" };
    format!("{} {what}{plural}", Thousands(number))
}
