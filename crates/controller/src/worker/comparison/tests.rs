//! What becomes of predictions.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use super::ledger::{
    ComparisonResult, Ledger, Next, ObjectState, PredictedAction, Progress, Subject, Tally, progress,
};

use crate::actors::tests;
use crate::worker::classified::Evidence;
use crate::worker::decision::{DecisionRecord, JudgedOwner, Occurrence, RemovedReferences};
use kube_gc_client::Finalizer;
use kube_gc_core::object::{Finalizers, Identity, ObjectFacts, OwnerReference, PropagationPolicy};
use kube_gc_core::verdict::testing::item;
use kube_gc_core::verdict::{Decision, ReferenceClass, decide};

const GRACE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

fn identity(name: &str) -> Identity {
    tests::identity("a", name)
}

fn reference(owner: &str) -> OwnerReference {
    identity(owner).reference()
}

fn judged(owner: &str, class: ReferenceClass) -> JudgedOwner {
    JudgedOwner { reference: reference(owner), class, evidence: Evidence::Graph, error: None }
}

fn decision(action: &'static str, owners: Vec<JudgedOwner>) -> DecisionRecord {
    let classes: Vec<_> = owners.iter().map(|owner| owner.class).collect();
    let remove = match decide(&item(owners.len()), &classes) {
        Decision::RemoveReferences { remove, .. } => remove,
        _ => Vec::new(),
    };
    let removed = Some(RemovedReferences::of(owners.iter().map(|owner| &owner.reference), &remove));
    DecisionRecord {
        object: identity("x"),
        action,
        policy: None,
        finalizer: None,
        owners,
        more_owners: 0,
        removed,
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

fn shown(being_deleted: bool, finalizers: &[Finalizer], owners: &[&str]) -> ObjectFacts {
    let finalizers = Finalizers {
        foreground: finalizers.contains(&Finalizer::Foreground),
        orphan: finalizers.contains(&Finalizer::Orphan),
    };
    let owners = owners.iter().map(|owner| reference(owner)).collect();
    ObjectFacts { being_deleted, finalizers, ..tests::seen(&identity("x"), 1, owners) }
}

fn live(owners: &[&str]) -> ObjectFacts {
    shown(false, &[], owners)
}

fn going(finalizers: &[Finalizer], owners: &[&str]) -> ObjectFacts {
    shown(true, finalizers, owners)
}

fn of(decision: &DecisionRecord, now: Option<&ObjectFacts>) -> Progress {
    progress(&PredictedAction::of(decision).unwrap(), &ObjectState::Known(now.cloned()))
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
fn what_the_graph_shows_of_an_object_fulfils_a_prediction_or_ends_it() {
    use Finalizer::{Foreground, Orphan};
    use Progress::{CameTrue, Overtaken, Stands};
    use ReferenceClass::{Absent, Orphaned, Solid, Waiting};
    let owners = vec![judged("gone", Absent), judged("keeper", Solid), judged("going", Waiting)];
    let removal = decision("remove_references", owners);
    assert_eq!(gone_in(&removal), [reference("gone"), reference("going")]);
    let without_solid = vec![judged("orphaned", Orphaned), judged("gone", Absent)];
    assert_eq!(gone_in(&decision("remove_references", without_solid)), [reference("orphaned")]);
    let release = DecisionRecord { owner: Some(identity("owner")), ..decision("orphan", Vec::new()) };
    let finalizer = decision("remove_finalizer", Vec::new());
    let finalizer = DecisionRecord { finalizer: Some(Foreground), ..finalizer };
    let stop = decision("stop_blocking", Vec::new());
    let blocking = |mut object: ObjectFacts| {
        object.owners[0].block_owner_deletion = true;
        object
    };
    for (decision, now, expected) in [
        (&deletion(), None, CameTrue),
        (&deletion(), Some(going(&[], &["owner"])), CameTrue),
        (&deletion(), Some(going(&[Foreground], &["owner"])), CameTrue),
        (&deletion(), Some(going(&[Orphan], &["owner"])), CameTrue),
        (&deletion(), Some(live(&["owner"])), Stands),
        (&deletion(), Some(live(&["owner", "other"])), Stands),
        // Nobody's garbage any more.
        (&deletion(), Some(live(&[])), Overtaken),
        (&removal, Some(live(&["keeper"])), CameTrue),
        (&removal, Some(live(&["gone", "keeper", "going"])), Stands),
        // Half of it.
        (&removal, Some(live(&["keeper", "going"])), Stands),
        // The reference is still there.
        (&removal, Some(blocking(live(&["gone", "keeper", "going"]))), Stands),
        // It would have lived.
        (&removal, None, Overtaken),
        (&release, Some(live(&["other"])), CameTrue),
        (&release, Some(live(&["other", "owner"])), Stands),
        (&release, None, Overtaken),
        (&finalizer, None, CameTrue),
        (&finalizer, Some(going(&[], &[])), CameTrue),
        (&finalizer, Some(going(&[Foreground], &[])), Stands),
        // Another policy has replaced it.
        (&finalizer, Some(going(&[Orphan], &[])), Overtaken),
        // It blocks nobody.
        (&stop, Some(going(&[Foreground], &["owner"])), CameTrue),
        (&stop, Some(blocking(going(&[Foreground], &["owner"]))), Stands),
        (&stop, Some(blocking(going(&[], &["owner"]))), Overtaken),
        (&stop, Some(blocking(live(&["owner"]))), Overtaken),
        (&stop, None, CameTrue),
    ] {
        assert_eq!(of(decision, now.as_ref()), expected, "{}: {now:?}", decision.action);
    }
}

fn gone_in(decision: &DecisionRecord) -> Vec<OwnerReference> {
    match PredictedAction::of(decision) {
        Some(PredictedAction::RemoveReferences(gone)) => gone.some,
        action => panic!("{action:?}"),
    }
}

#[test]
fn few_of_thousands_of_references_are_stored() {
    let names: Vec<String> = (0..8000).map(|number| format!("o{number}")).collect();
    let class = |place| if place < 4000 { ReferenceClass::Absent } else { ReferenceClass::Solid };
    let owners = names.iter().enumerate().map(|(place, name)| judged(name, class(place))).collect();
    let removal = decision("remove_references", owners);
    assert_eq!(gone_in(&removal).len(), 16);
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    assert_eq!(of(&removal, Some(&live(&names))), Progress::Stands);
    assert_eq!(of(&removal, Some(&live(&names[4000..]))), Progress::CameTrue);
    let long = judged(&"x".repeat(10_000), ReferenceClass::Absent);
    let unstored = decision("remove_references", vec![long, judged("keeper", ReferenceClass::Solid)]);
    assert_eq!(PredictedAction::of(&unstored), None);
}

/// A ledger and its clock.
struct Book {
    ledger: Ledger,
    now: Duration,
}

impl Book {
    /// With one prediction.
    fn new() -> Self {
        let mut book = Self { ledger: Ledger::new(GRACE, 10), now: Duration::ZERO };
        assert_eq!(book.hear(&deletion()), Occurrence::First);
        book
    }

    fn hear(&mut self, decision: &DecisionRecord) -> Occurrence {
        let (occurrence, dropped) = self.ledger.hear(decision, (self.now, SystemTime::UNIX_EPOCH));
        assert_eq!(dropped, None);
        occurrence
    }

    /// Looks at the object, which looks like this, at that time.
    fn look(&mut self, at: Duration, state: &ObjectState) -> Next {
        self.now = at;
        self.judge(state, None)
    }

    fn judge(&mut self, state: &ObjectState, decided: Option<bool>) -> Next {
        let subject = Arc::new(Subject { object: identity("x"), action: PredictedAction::Delete });
        self.ledger.looked(&subject, state, decided, (self.now, SystemTime::UNIX_EPOCH))
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
    assert_eq!(book.look(GRACE / 20, &GONE), Next::Settled(ComparisonResult::Agreed));
    assert_eq!(book.ledger.pending(), 0);
    assert_eq!(book.ledger.tally(), Tally { agreed: 1, ..Tally::default() });
}

/// Rule 9.9.
#[test]
fn an_unchanged_object_after_the_grace_period_is_a_disagreement_if_the_decision_is_repeated() {
    let mut book = Book::new();
    let lives = known(&["owner"]);
    assert_eq!(book.look(GRACE - SECOND, &lives), Next::Later, "there is time left");
    assert_eq!(book.look(GRACE, &ObjectState::Unknown), Next::Later, "nobody can say");
    assert_eq!(book.look(GRACE * 2, &lives), Next::Decide);
    assert_eq!(book.hear(&deletion()), Occurrence::Repeated);
    assert_eq!(book.judge(&lives, Some(true)), Next::Settled(ComparisonResult::Disagreed));
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
fn a_second_decision_that_fails_or_is_another_one_or_comes_too_late_is_no_disagreement() {
    let lives = || known(&["owner"]);
    for (was_made, is_repeated, state, next) in [
        (true, false, lives(), Next::Settled(ComparisonResult::Overtaken)),
        (true, true, GONE, Next::Settled(ComparisonResult::Agreed)),
        (false, false, lives(), Next::Later),
    ] {
        let mut book = Book::new();
        assert_eq!(book.look(GRACE, &lives()), Next::Decide);
        if is_repeated {
            book.hear(&deletion());
        }
        assert_eq!(book.judge(&state, Some(was_made)), next);
        let again = if next == Next::Later { Next::Decide } else { Next::Later };
        assert_eq!(book.look(GRACE * 2, &lives()), again, "what is not settled is tried again");
    }
}

proptest! {
    /// In whatever order decisions, checks and changes of the graph arrive, every prediction is
    /// settled once or waits, none is lost, and no disagreement is reported before the grace period
    /// ends.
    #[test]
    fn no_prediction_is_lost_and_no_disagreement_is_reported_early(
        steps in prop::collection::vec((0..4_u8, 0..4_usize, 0..40_u64), 1..200)
    ) {
        let mut ledger = Ledger::new(GRACE, 3);
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
            for subject in ledger.subjects() {
                let seen = if step == 2 { known(&["owner"]) } else { GONE };
                if ledger.looked(&subject, &seen, None, now) == Next::Decide {
                    if name > 0 {
                        ledger.hear(&predict(&subject.object.name), now);
                    }
                    let next = ledger.looked(&subject, &seen, Some(name < 3), now);
                    if next == Next::Settled(ComparisonResult::Disagreed) {
                        prop_assert!(now.0 >= since[&subject.object] + GRACE && name > 0);
                    }
                }
            }
            let Tally { agreed, disagreed, overtaken, dropped } = ledger.tally();
            prop_assert_eq!(agreed + disagreed + overtaken + dropped + ledger.pending() as u64, predicted);
        }
    }
}
