//! What the log of decisions leaves out.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::actors::tests::{identity, in_system, seen};
use crate::worker::classified::{Classified, Evidence};
use crate::worker::comparison::Comparison;
use crate::worker::decision::{
    DecisionLine, DecisionObserver, DecisionRecord, DecisionRecorder, Ended, LoggedAs, Occurrence, Summaries,
};
use kube_gc_client::testing::{Reply, Server};
use kube_gc_client::{
    AbsenceProof, ApiError, ApiSettings, Deleted, ErrorClass, Finalizer, Patched, WriteGate,
};
use kube_gc_config::DecisionLines;
use kube_gc_core::object::ObjectFacts;
use kube_gc_core::verdict::ReferenceClass;
use kube_gc_core::verdict::testing::item;
use kube_gc_observe::telemetry::testing::logged as logged_text;

/// What the API server or the network made of a request.
fn error(class: ErrorClass, action: &'static str, code: Option<u16>) -> ApiError {
    ApiError { class, action, target: "configmaps a/x".to_owned(), message: "says the server".into(), code }
}

/// Decides about an object, and that fails like this.
fn fail(recorder: &DecisionRecorder, name: &str, error: ApiError) -> LoggedAs {
    let object = identity("a", name);
    DecisionLine::new(recorder, &object, "delete").finish(&Err::<Deleted, _>(error))
}

fn succeed(line: &DecisionLine<'_>, ended: impl Ended) {
    line.finish(&Ok::<_, ApiError>(ended));
}

/// What is logged by this.
fn logged_by(gate: WriteGate, decide: impl FnOnce(&DecisionRecorder)) -> String {
    logged_as(DecisionLines::All, gate, Vec::new(), decide)
}

fn logged_as(
    lines: DecisionLines,
    gate: WriteGate,
    observers: Vec<Arc<dyn DecisionObserver>>,
    decide: impl FnOnce(&DecisionRecorder),
) -> String {
    in_system(async {
        let server = Server::answering(|_| Reply::never());
        let summaries = Summaries::new(lines);
        let api = server.api_with(ApiSettings::default(), gate);
        let recorder = DecisionRecorder::new(api, observers, summaries.clone());
        logged_text(|| {
            decide(&recorder);
            summaries.close();
        })
    })
}

/// An owner whose look-up failed, with this code if it was answered.
fn unresolved(code: Option<u16>) -> Classified {
    Classified::failed(error(ErrorClass::Transient, "GET", code))
}

/// Fails if each object that an outage affects has a line.
#[test]
fn few_lines_are_logged_for_owners_whose_lookups_get_no_answer() {
    let parked = |owner: &Classified| {
        logged_by(WriteGate::open(), |recorder| {
            for number in 0..200 {
                let (object, item) = (identity("a", &number.to_string()), item(1));
                let owners = Some((&item, std::slice::from_ref(owner)));
                DecisionLine { owners, ..DecisionLine::new(recorder, &object, "keep") }
                    .parked(&"an owner is unresolved");
            }
        })
    };
    let lines = parked(&unresolved(None));
    assert!(lines.contains("an owner is unresolved"), "{lines}");
    assert_eq!(lines.lines().count(), 1, "{lines}");
    assert_eq!(parked(&unresolved(Some(500))).lines().count(), 200);
}

/// An outcome says what is known: only the server's own refusal or failure is `failed`.
#[test]
fn a_write_without_an_answer_is_unknown_and_one_that_was_not_sent_is_deferred() {
    for (class, action, code, outcome) in [
        (ErrorClass::Transient, "DELETE", None, "unknown"),
        // Read before the write.
        (ErrorClass::Transient, "GET", None, "deferred"),
        (ErrorClass::Fenced, "DELETE", None, "deferred"),
        (ErrorClass::GateClosed, "DELETE", None, "deferred"),
        (ErrorClass::Transient, "DELETE", Some(500), "failed"),
        (ErrorClass::Refused, "DELETE", Some(400), "failed"),
    ] {
        let line = logged_by(WriteGate::open(), |recorder| {
            fail(recorder, "x", error(class, action, code));
        });
        assert!(line.contains(&format!("outcome=\"{outcome}\"")), "{class:?} {action} {code:?}: {line}");
    }
}

/// A dry run decides again to compare itself with another collector.
#[test]
fn a_dry_run_logs_a_decision_about_an_object_once() {
    let comparison = Comparison::new(Duration::from_secs(60));
    let observers = vec![Arc::new(comparison) as _];
    let lines = logged_as(DecisionLines::All, WriteGate::dry_run(), observers, |recorder| {
        for name in ["x", "y", "x", "x"] {
            fail(recorder, name, error(ErrorClass::DryRun, "DELETE", None));
        }
    });
    assert_eq!(lines.lines().count(), 2, "{lines}");
}

/// Another collector that was faster is expected; what is nobody else's doing is not.
#[test]
fn a_dry_run_warns_of_what_another_collector_cannot_explain() {
    for (gate, class, expected) in [
        (WriteGate::dry_run(), ErrorClass::Conflict, &[][..]),
        (WriteGate::open(), ErrorClass::Conflict, &["WARN", "outcome=\"conflict\""]),
        (WriteGate::dry_run(), ErrorClass::Transient, &["WARN", "says the server"]),
        (WriteGate::dry_run(), ErrorClass::DryRun, &["INFO", "dry_run"]),
    ] {
        let line = logged_by(gate, |recorder| {
            fail(recorder, "x", error(class, "PATCH", None));
        });
        assert_eq!(line.is_empty(), expected.is_empty(), "{line}");
        assert!(expected.iter().all(|text| line.contains(text)), "{line}");
    }
}

/// Counts decisions.
#[derive(Debug, Default)]
struct Observed(Mutex<usize>);

impl DecisionObserver for Observed {
    fn decided(&self, _: &DecisionRecord) -> Occurrence {
        *self.0.lock().unwrap() += 1;
        Occurrence::First
    }
}

/// Whatever the setting, and however many decisions succeed at the same time.
#[test]
fn a_failure_a_refusal_and_an_object_that_waits_are_never_summed_up() {
    for lines in [DecisionLines::Auto, DecisionLines::Summaries, DecisionLines::None] {
        let observed = Arc::new(Observed::default());
        let log = logged_as(lines, WriteGate::open(), vec![Arc::clone(&observed) as _], |recorder| {
            for number in 0..100 {
                let object = identity("a", &number.to_string());
                succeed(&DecisionLine::new(recorder, &object, "delete"), Deleted::Removed);
            }
            for class in
                [ErrorClass::Denied, ErrorClass::Conflict, ErrorClass::Transient, ErrorClass::Refused]
            {
                let logged = fail(recorder, &format!("{class:?}"), error(class, "DELETE", None));
                assert_eq!(logged, LoggedAs::Line);
            }
            let item = item(1);
            let object = identity("a", "y");
            let waits = [unresolved(Some(500))];
            DecisionLine { owners: Some((&item, &waits)), ..DecisionLine::new(recorder, &object, "keep") }
                .parked(&"an owner is unresolved");
        });
        let count = |text: &str| log.lines().filter(|line| line.contains(text)).count();
        assert_eq!((count("says the server"), count("is unresolved")), (4, 1), "{lines:?}: {log}");
        assert!(count("outcome=\"deleted\"") <= 20, "{lines:?}: {log}");
        assert_eq!(*observed.0.lock().unwrap(), 105, "the debug page has all");
    }
}

/// Fails if a webhook that denies a write fills the log, or if the number of tries is not logged.
#[test]
fn a_write_that_fails_again_and_again_has_one_line_and_its_success_the_number() {
    let log = logged_by(WriteGate::open(), |recorder| {
        for name in ["x", "y"] {
            for _ in 0..100 {
                fail(recorder, name, error(ErrorClass::Denied, "DELETE", Some(403)));
            }
        }
        let object = identity("a", "x");
        succeed(&DecisionLine::new(recorder, &object, "delete"), Deleted::Removed);
    });
    let lines: Vec<_> = log.lines().collect();
    assert_eq!(lines.len(), 3, "{log}");
    assert!(lines[..2].iter().all(|line| line.contains("says the server")), "{log}");
    assert!(lines[2].contains("outcome=\"deleted\" repeated=99"), "{log}");
}

/// An owner that is orphaned is the owner of its dependents' decisions and of its own.
#[test]
fn what_follows_from_one_deletion_is_in_one_summary() {
    let gone = || Patched::Gone(AbsenceProof::of_test());
    let log = logged_as(DecisionLines::Summaries, WriteGate::open(), Vec::new(), |recorder| {
        let owner = identity("a", "owner");
        for number in 0..3 {
            let object = identity("a", &number.to_string());
            let line = DecisionLine { owner: Some(&owner), ..DecisionLine::new(recorder, &object, "orphan") };
            succeed(&line, gone());
        }
        succeed(&DecisionLine::new(recorder, &owner, "remove_finalizer"), gone());
        let item = item(2);
        let owner = |class| Classified::new(class, Evidence::Graph);
        let owners = [owner(ReferenceClass::Solid), owner(ReferenceClass::Absent)];
        let object = identity("a", "shared");
        let owners = Some((&item, &owners[..]));
        let line = DecisionLine::new(recorder, &object, "remove_references");
        succeed(&DecisionLine { owners, ..line }, gone());
    });
    let lines: Vec<_> = log.lines().collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(lines[0].contains("name: owner") && lines[0].contains("count=4"), "{log}");
    let counts = r#"counts="3 orphan configmaps already_gone; 1 remove_finalizer configmaps already_gone""#;
    assert!(lines[0].contains(counts), "{log}");
    assert!(lines[1].contains("name: name-2"), "the owner that is gone, not the first: {log}");
}

/// The metrics have these words.
#[test]
fn the_end_of_a_finalizer_has_words_of_its_own() {
    let live = |being_deleted| ObjectFacts { being_deleted, ..seen(&identity("a", "x"), 1, Vec::new()) };
    for (ended, words) in [
        (Patched::Changed(live(true)), ["patched", "removed"]),
        (Patched::Unneeded(live(true)), ["unneeded", "unneeded"]),
        (Patched::Unneeded(live(false)), ["unneeded", "not_being_deleted"]),
        (Patched::Gone(AbsenceProof::of_test()), ["already_gone", "already_gone"]),
    ] {
        assert_eq!(
            [None, Some(Finalizer::Orphan)].map(|finalizer| ended.word(finalizer)),
            words,
            "{ended:?}"
        );
    }
}
