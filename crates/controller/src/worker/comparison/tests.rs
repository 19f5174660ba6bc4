//! What becomes of predictions.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use super::ledger::{
    ComparisonResult, Ledger, Next, ObjectState, PredictedAction, Progress, Subject, Tally, progress,
};

use crate::worker::classified::Evidence;
use crate::worker::decision::{DecisionRecord, JudgedOwner, Occurrence, ReferenceDigest};
use kube_gc_client::Finalizer;
use kube_gc_core::graph::ObservedObject;
use kube_gc_core::object::{
    DeletionState, Finalizers, Identity, OwnerReference, PropagationPolicy, Uid, config_map,
};
use kube_gc_core::verdict::ReferenceClass;

const GRACE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

fn identity(name: &str) -> Identity {
    config_map("a", name, &format!("uid-of-{name}"))
}

fn reference(owner: &str) -> OwnerReference {
    let owner = identity(owner);
    OwnerReference {
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        name: owner.name.into(),
        uid: owner.uid,
        controller: false,
        block_owner_deletion: false,
    }
}

fn judged(owner: &str, class: ReferenceClass) -> JudgedOwner {
    JudgedOwner { reference: reference(owner), class, evidence: Evidence::Graph, error: None }
}

fn decision(action: &'static str, owners: Vec<JudgedOwner>) -> DecisionRecord {
    let basis = Some(ReferenceDigest::of(owners.iter().map(|owner| (&owner.reference, owner.class))));
    DecisionRecord {
        object: identity("x"),
        action,
        policy: None,
        finalizer: None,
        owners,
        more_owners: 0,
        basis,
        owner: None,
        outcome: "dry_run",
        error: None,
    }
}

/// The object would have been deleted, because its one owner is absent.
fn deletion() -> DecisionRecord {
    let decision = decision("delete", vec![judged("owner", ReferenceClass::Absent)]);
    DecisionRecord { policy: Some(PropagationPolicy::Background), ..decision }
}

fn shown(deletion: DeletionState, finalizers: &[Finalizer], owners: &[&str]) -> ObservedObject {
    let finalizers = Finalizers {
        foreground: finalizers.contains(&Finalizer::Foreground),
        orphan: finalizers.contains(&Finalizer::Orphan),
    };
    ObservedObject { deletion, finalizers, references: owners.iter().map(|owner| reference(owner)).collect() }
}

fn live(owners: &[&str]) -> ObservedObject {
    shown(DeletionState::Live, &[], owners)
}

fn of(decision: &DecisionRecord, now: Option<&ObservedObject>) -> Progress {
    progress(&PredictedAction::of(decision).unwrap(), decision, &ObjectState::Known(now.cloned()))
}

#[test]
fn only_writes_withheld_by_a_dry_run_are_predictions() {
    assert_eq!(PredictedAction::of(&deletion()), Some(PredictedAction::Delete));
    for outcome in ["already_gone", "conflict", "failed", "parked"] {
        assert_eq!(PredictedAction::of(&DecisionRecord { outcome, ..deletion() }), None, "{outcome}");
    }
    assert_eq!(PredictedAction::of(&DecisionRecord { action: "keep", ..deletion() }), None);
}

#[test]
fn a_predicted_deletion_is_confirmed_when_the_object_is_gone_or_terminating() {
    assert_eq!(of(&deletion(), None), Progress::CameTrue);
    for deletion_state in
        [DeletionState::Terminating, DeletionState::DeletingDependents, DeletionState::Orphaning]
    {
        assert_eq!(of(&deletion(), Some(&shown(deletion_state, &[], &["owner"]))), Progress::CameTrue);
    }
    assert_eq!(of(&deletion(), Some(&live(&["owner"]))), Progress::Stands);
    assert_eq!(of(&deletion(), Some(&live(&["owner", "other"]))), Progress::Changed);
    assert_eq!(of(&deletion(), Some(&live(&[]))), Progress::Overtaken, "nobody's garbage any more");
}

#[test]
fn a_predicted_removal_is_confirmed_when_no_dangling_reference_is_left() {
    use ReferenceClass::{Absent, Solid, Waiting};
    let owners = vec![judged("gone", Absent), judged("keeper", Solid), judged("going", Waiting)];
    let removal = decision("remove_references", owners);
    assert_eq!(gone_in(&removal), [reference("gone"), reference("going")]);
    assert_eq!(of(&removal, Some(&live(&["keeper"]))), Progress::CameTrue);
    assert_eq!(of(&removal, Some(&live(&["gone", "keeper", "going"]))), Progress::Stands);
    assert_eq!(of(&removal, Some(&live(&["keeper", "going"]))), Progress::Changed, "half of it");
    assert_eq!(of(&removal, None), Progress::Overtaken, "it would have lived");

    let mut blocking = live(&["gone", "keeper", "going"]);
    blocking.references[0].block_owner_deletion = true;
    assert_eq!(of(&removal, Some(&blocking)), Progress::Changed, "the reference is still there");
}

#[test]
fn without_a_solid_owner_only_references_to_orphaned_owners_are_expected_to_be_removed() {
    let owners = vec![judged("orphaned", ReferenceClass::Orphaned), judged("gone", ReferenceClass::Absent)];
    let removal = decision("remove_references", owners);
    assert_eq!(gone_in(&removal), [reference("orphaned")]);
}

fn gone_in(decision: &DecisionRecord) -> Vec<OwnerReference> {
    match PredictedAction::of(decision) {
        Some(PredictedAction::RemoveReferences(gone)) => gone.some,
        action => panic!("{action:?}"),
    }
}

#[test]
fn few_of_thousands_of_references_are_stored_and_all_are_compared() {
    let names: Vec<String> = (0..8000).map(|number| format!("o{number}")).collect();
    let class = |place| if place < 4000 { ReferenceClass::Absent } else { ReferenceClass::Solid };
    let owners = names.iter().enumerate().map(|(place, name)| judged(name, class(place))).collect();
    let mut removal = decision("remove_references", owners);
    removal.more_owners = removal.owners.len() - 16;
    removal.owners.truncate(16);
    assert_eq!(gone_in(&removal).len(), 16);
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    assert_eq!(of(&removal, Some(&live(&names))), Progress::Stands);
    assert_eq!(of(&removal, Some(&live(&names[4000..]))), Progress::CameTrue);
    assert_eq!(of(&removal, Some(&live(&names[3999..]))), Progress::Changed, "one is left");
    assert_eq!(of(&removal, None), Progress::Overtaken);
}

#[test]
fn an_orphaned_dependent_is_released_when_it_no_longer_names_its_owner() {
    let release = DecisionRecord { owner: Some(identity("owner")), ..decision("orphan", Vec::new()) };
    assert_eq!(of(&release, Some(&live(&["other"]))), Progress::CameTrue);
    assert_eq!(of(&release, Some(&live(&["other", "owner"]))), Progress::Stands);
    assert_eq!(of(&release, None), Progress::Overtaken);
}

#[test]
fn a_finalizer_that_another_policy_has_replaced_was_not_removed() {
    let removal = decision("remove_finalizer", Vec::new());
    let removal = DecisionRecord { finalizer: Some(Finalizer::Foreground), ..removal };
    let with = |finalizers: &[Finalizer]| shown(DeletionState::Terminating, finalizers, &[]);
    assert_eq!(of(&removal, None), Progress::CameTrue);
    assert_eq!(of(&removal, Some(&with(&[]))), Progress::CameTrue);
    assert_eq!(of(&removal, Some(&with(&[Finalizer::Foreground]))), Progress::Stands);
    assert_eq!(of(&removal, Some(&with(&[Finalizer::Orphan]))), Progress::Overtaken);
}

#[test]
fn a_ring_is_broken_when_one_object_no_longer_blocks_or_waits() {
    let stop = decision("stop_blocking", Vec::new());
    let mut ring = shown(DeletionState::DeletingDependents, &[Finalizer::Foreground], &["owner"]);
    assert_eq!(of(&stop, Some(&ring)), Progress::CameTrue, "it blocks nobody");
    ring.references[0].block_owner_deletion = true;
    assert_eq!(of(&stop, Some(&ring)), Progress::Stands);
    ring.deletion = DeletionState::Terminating;
    assert_eq!(of(&stop, Some(&ring)), Progress::Overtaken);
    assert_eq!(of(&stop, None), Progress::CameTrue);
}

/// A ledger and its clock.
struct Book {
    ledger: Ledger,
    now: Duration,
}

impl Book {
    /// With one prediction.
    fn new() -> Self {
        let mut book = Self { ledger: Ledger::new(GRACE), now: Duration::ZERO };
        assert_eq!(book.hear(&deletion()), Occurrence::First);
        book
    }

    fn hear(&mut self, decision: &DecisionRecord) -> Occurrence {
        let (occurrence, dropped) = self.ledger.hear(decision, (self.now, SystemTime::UNIX_EPOCH));
        assert_eq!(dropped, None);
        occurrence
    }

    /// Checks the object, which looks like this, as often as the ledger asks for until then.
    fn look_until(&mut self, until: Duration, state: &ObjectState) -> Next {
        let mut next = Next::Later;
        while let Some(at) = self.ledger.next_look().filter(|at| *at <= until && next == Next::Later) {
            self.now = at;
            for subject in self.ledger.due(at, 10) {
                next = self.ledger.looked(&subject, state, at);
            }
        }
        next
    }

    fn decided(&mut self, was_made: bool, state: &ObjectState) -> Next {
        let subject = Arc::new(Subject { object: identity("x"), action: PredictedAction::Delete });
        self.ledger.decided(&subject, was_made, state, (self.now, SystemTime::UNIX_EPOCH))
    }
}

const GONE: ObjectState = ObjectState::Known(None);

fn known(owners: &[&str]) -> ObjectState {
    ObjectState::Known(Some(live(owners)))
}

#[test]
fn an_immediate_action_of_the_other_collector_is_an_immediate_agreement() {
    let mut book = Book::new();
    assert_eq!(book.ledger.pending(), 1);
    assert_eq!(book.look_until(GRACE / 20, &GONE), Next::Settled(ComparisonResult::Agreed));
    assert_eq!((book.ledger.pending(), book.ledger.next_look()), (0, None));
    assert_eq!(book.ledger.tally(), Tally { agreed: 1, ..Tally::default() });
}

/// Rule 9.9.
#[test]
fn an_unchanged_object_after_the_grace_period_is_a_disagreement_if_the_decision_is_repeated() {
    let mut book = Book::new();
    let lives = known(&["owner"]);
    assert_eq!(book.look_until(GRACE - SECOND, &lives), Next::Later, "there is time left");
    assert_eq!(book.look_until(GRACE, &ObjectState::Unknown), Next::Later, "nobody can say");
    assert_eq!(book.look_until(GRACE * 2, &lives), Next::Decide);
    assert_eq!(book.hear(&deletion()), Occurrence::Repeated);
    assert_eq!(book.decided(true, &lives), Next::Settled(ComparisonResult::Disagreed));
    let disagreements: Vec<_> = book.ledger.disagreements().collect();
    assert_eq!(disagreements.len(), 1);
    assert_eq!(disagreements[0].subject.object, identity("x"));
    assert_eq!(disagreements[0].decision.policy, Some(PropagationPolicy::Background));

    // However often the key is queued again, it is reported once.
    assert_eq!(book.hear(&deletion()), Occurrence::Repeated);
    assert_eq!(book.ledger.pending(), 0);
    assert_eq!(book.ledger.tally(), Tally { disagreed: 1, ..Tally::default() });
}

#[test]
fn a_second_decision_that_is_another_one_or_comes_too_late_is_no_disagreement() {
    for (is_repeated, state, result) in
        [(false, known(&["owner"]), ComparisonResult::Overtaken), (true, GONE, ComparisonResult::Agreed)]
    {
        let mut book = Book::new();
        assert_eq!(book.look_until(GRACE, &known(&["owner"])), Next::Decide);
        if is_repeated {
            book.hear(&deletion());
        }
        assert_eq!(book.decided(true, &state), Next::Settled(result));
    }
}

#[test]
fn an_undecidable_object_is_neither_agreement_nor_disagreement() {
    let mut book = Book::new();
    let lives = known(&["owner"]);
    assert_eq!(book.look_until(GRACE, &lives), Next::Decide);
    assert_eq!(book.decided(false, &lives), Next::Later);
    assert_eq!(book.look_until(GRACE * 2, &lives), Next::Decide, "it is tried again");
}

#[test]
fn a_changed_object_is_decided_at_once_and_gets_the_whole_grace_period() {
    let mut book = Book::new();
    let changed = known(&["owner", "other"]);
    assert_eq!(book.look_until(GRACE / 10, &changed), Next::Decide);
    let other = judged("other", ReferenceClass::Absent);
    book.hear(&decision("delete", [deletion().owners, vec![other]].concat()));
    assert_eq!(book.decided(true, &changed), Next::Later, "the same, but not yet late");
    assert_eq!(book.look_until(GRACE - SECOND, &changed), Next::Later);
    assert_eq!(book.look_until(GRACE, &changed), Next::Decide);
}

#[test]
fn predictions_beyond_the_bound_are_counted_and_not_compared() {
    let (mut ledger, now) = (Ledger::with_room(GRACE, 1), (Duration::ZERO, SystemTime::UNIX_EPOCH));
    assert_eq!(ledger.hear(&deletion(), now), (Occurrence::First, None));
    let reborn = Identity { uid: Uid::parse("other").unwrap(), ..identity("x") };
    let other = DecisionRecord { object: reborn, ..deletion() };
    let dropped = (Occurrence::First, Some(PredictedAction::Delete));
    assert_eq!(ledger.hear(&other, now), dropped, "another object of the same name is another object");
    assert_eq!(ledger.hear(&deletion(), now), (Occurrence::Repeated, None), "what is in stays in");
    assert_eq!((ledger.pending(), ledger.tally().dropped), (1, 1));
}

proptest! {
    /// In whatever order decisions, checks and changes of the graph arrive, every prediction is
    /// settled once or waits, none is lost, and no disagreement is reported before the grace period
    /// ends.
    #[test]
    fn no_prediction_is_lost_and_no_disagreement_is_reported_early(
        steps in prop::collection::vec((0..4_u8, 0..4_usize, 0..40_u64), 1..200)
    ) {
        let mut ledger = Ledger::with_room(GRACE, 3);
        let names = ["a", "b", "c", "d"];
        let mut since = std::collections::HashMap::new();
        let mut predicted = 0;
        let mut now = (Duration::ZERO, SystemTime::UNIX_EPOCH);
        for (step, name, seconds) in steps {
            let predict = |name: &str| DecisionRecord { object: identity(name), ..deletion() };
            if step < 2 {
                let before = ledger.pending();
                let dropped = ledger.hear(&predict(names[name]), now).1.is_some();
                let is_new = ledger.pending() > before;
                predicted += u64::from(dropped || is_new);
                if is_new {
                    since.insert(identity(names[name]), now.0);
                }
                continue;
            }
            now.0 += Duration::from_secs(seconds);
            for subject in ledger.due(now.0, 100) {
                let seen = if step == 2 { known(&["owner"]) } else { GONE };
                if ledger.looked(&subject, &seen, now.0) == Next::Decide {
                    if name > 0 {
                        ledger.hear(&predict(&subject.object.name), now);
                    }
                    let next = ledger.decided(&subject, name < 3, &seen, now);
                    if next == Next::Settled(ComparisonResult::Disagreed) {
                        prop_assert!(now.0 >= since[&subject.object] + GRACE && name > 0);
                    }
                }
            }
            let Tally { agreed, disagreed, overtaken, dropped } = ledger.tally();
            prop_assert_eq!(agreed + disagreed + overtaken + dropped + ledger.pending() as u64, predicted);
            prop_assert_eq!(ledger.next_look().is_some(), ledger.pending() > 0);
        }
    }
}
