//! What the log of decisions leaves out.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::actors::tests::{identity, in_system};
use crate::api::scripted::{Reply, Server};
use crate::api::{AbsenceProof, ApiError, ApiSettings, Deleted, ErrorClass, Patched, WriteGate};
use crate::telemetry::testing::logged as logged_text;
use crate::worker::classified::{Classified, Evidence};
use crate::worker::comparison::Comparison;
use crate::worker::decision::{
    DecisionLine, DecisionLines, DecisionObserver, DecisionRecord, DecisionRecorder, LoggedAs, Occurrence,
    Summaries,
};
use kube_gc_core::verdict::ReferenceClass;
use kube_gc_core::verdict::testing::item;
use tokio_util::sync::CancellationToken;

/// The log of a decision that failed like this.
fn logged(gate: WriteGate, class: ErrorClass) -> String {
    logged_with(gate, class, "PATCH", None)
}

/// The same for a request with this method that was answered with this code.
fn logged_with(gate: WriteGate, class: ErrorClass, action: &'static str, code: Option<u16>) -> String {
    logged_by(gate, |recorder| {
        let target = "configmaps a/x".to_owned();
        let error = ApiError { class, action, target, message: "says the server".into(), code };
        let object = identity("a", "x");
        DecisionLine::new(recorder, &object, "remove_references").finish(&Err::<Patched, _>(error));
    })
}

/// What is logged by this.
fn logged_by(gate: WriteGate, decide: impl FnOnce(&DecisionRecorder)) -> String {
    logged_observed(gate, Vec::new(), decide)
}

fn logged_observed(
    gate: WriteGate,
    observers: Vec<Arc<dyn DecisionObserver>>,
    decide: impl FnOnce(&DecisionRecorder),
) -> String {
    logged_as(DecisionLines::All, gate, observers, decide)
}

fn logged_as(
    lines: DecisionLines,
    gate: WriteGate,
    observers: Vec<Arc<dyn DecisionObserver>>,
    decide: impl FnOnce(&DecisionRecorder),
) -> String {
    in_system(async {
        let server = Server::answering(|_| Reply::never());
        let (summaries, _task) = Summaries::new(lines, CancellationToken::new());
        let api = server.api_with(ApiSettings::default(), gate);
        let recorder = DecisionRecorder::new(api, observers, summaries.clone());
        logged_text(|| {
            decide(&recorder);
            summaries.close();
        })
    })
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
    let lines = parked(&Classified::unresolved(true));
    assert!(lines.contains("an owner is unresolved") && lines.contains("get no answer"), "{lines}");
    assert!(lines.lines().count() < 20, "{lines}");
    let answered = Classified::unresolved(false);
    assert_eq!(parked(&answered).lines().count(), 200);
}

/// An outcome says what is known: only the server's own refusal or failure is `failed`.
#[test]
fn a_write_without_an_answer_is_unknown_and_one_that_was_not_sent_is_deferred() {
    let outcome = |class, action, code| {
        let line = logged_with(WriteGate::open(), class, action, code);
        let outcome = line.split("outcome=\"").nth(1).and_then(|rest| rest.split('"').next());
        outcome.unwrap_or_else(|| panic!("no outcome: {line}")).to_owned()
    };
    assert_eq!(outcome(ErrorClass::Transient, "DELETE", None), "unknown");
    assert_eq!(outcome(ErrorClass::Transient, "GET", None), "deferred", "read before the write");
    assert_eq!(outcome(ErrorClass::Fenced, "DELETE", None), "deferred");
    assert_eq!(outcome(ErrorClass::GateClosed, "DELETE", None), "deferred");
    assert_eq!(outcome(ErrorClass::Transient, "DELETE", Some(500)), "failed");
    assert_eq!(outcome(ErrorClass::Refused, "DELETE", Some(400)), "failed");
}

/// A dry run decides again to compare itself with another collector.
#[test]
fn a_dry_run_logs_a_decision_about_an_object_once() {
    let comparison = Comparison::new(Duration::from_secs(60));
    let lines = logged_observed(WriteGate::dry_run(), vec![Arc::new(comparison)], |recorder| {
        for name in ["x", "y", "x", "x"] {
            let object = identity("a", name);
            let (action, target) = ("DELETE", format!("configmaps a/{name}"));
            let error =
                ApiError { class: ErrorClass::DryRun, action, target, message: "dry run".into(), code: None };
            DecisionLine::new(recorder, &object, "delete").finish(&Err::<Patched, _>(error));
        }
    });
    assert_eq!(lines.lines().count(), 2, "{lines}");
}

#[test]
fn another_collector_that_was_faster_is_no_warning() {
    let line = logged(WriteGate::dry_run(), ErrorClass::Conflict);
    assert!(line.is_empty(), "{line}");
    let line = logged(WriteGate::open(), ErrorClass::Conflict);
    assert!(line.contains("WARN") && line.contains("outcome=\"conflict\""), "{line}");
}

#[test]
fn what_is_nobody_elses_doing_is_an_alarm_in_a_dry_run_too() {
    let line = logged(WriteGate::dry_run(), ErrorClass::Transient);
    assert!(line.contains("WARN") && line.contains("says the server"), "{line}");
    let line = logged(WriteGate::dry_run(), ErrorClass::DryRun);
    assert!(line.contains("INFO") && line.contains("dry_run"), "{line}");
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
                DecisionLine::new(recorder, &object, "delete").finish(&Ok(Deleted::Removed));
            }
            for class in
                [ErrorClass::Denied, ErrorClass::Conflict, ErrorClass::Transient, ErrorClass::Refused]
            {
                let (target, message) = ("configmaps a/x".to_owned(), "says the server".into());
                let error = ApiError { class, action: "DELETE", target, message, code: None };
                let object = identity("a", &format!("{class:?}"));
                let line = DecisionLine::new(recorder, &object, "delete");
                assert_eq!(line.finish(&Err::<Deleted, _>(error)), LoggedAs::Line);
            }
            let item = item(1);
            let object = identity("a", "y");
            let waits = [Classified::unresolved(false)];
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
            let object = identity("a", name);
            for _ in 0..100 {
                let error = ApiError {
                    class: ErrorClass::Denied,
                    action: "DELETE",
                    target: format!("configmaps a/{name}"),
                    message: "says the webhook".into(),
                    code: Some(403),
                };
                DecisionLine::new(recorder, &object, "delete").finish(&Err::<Deleted, _>(error));
            }
        }
        let object = identity("a", "x");
        DecisionLine::new(recorder, &object, "delete").finish(&Ok(Deleted::Removed));
    });
    let lines: Vec<_> = log.lines().collect();
    assert_eq!(lines.len(), 3, "{log}");
    assert!(lines[..2].iter().all(|line| line.contains("says the webhook")), "{log}");
    assert!(lines[2].contains("outcome=\"deleted\" repeated=99"), "{log}");
}

/// An owner that is orphaned is the owner of its dependents' decisions and of its own.
#[test]
fn what_follows_from_one_deletion_is_in_one_summary() {
    let log = logged_as(DecisionLines::Summaries, WriteGate::open(), Vec::new(), |recorder| {
        let owner = identity("a", "owner");
        for number in 0..3 {
            let object = identity("a", &number.to_string());
            let line = DecisionLine { owner: Some(&owner), ..DecisionLine::new(recorder, &object, "orphan") };
            line.finish(&Ok(Patched::Gone(AbsenceProof::of_test())));
        }
        DecisionLine::new(recorder, &owner, "remove_finalizer")
            .finish(&Ok(Patched::Gone(AbsenceProof::of_test())));
        let item = item(2);
        let owner = |class| Classified::new(class, Evidence::Graph);
        let owners = [owner(ReferenceClass::Solid), owner(ReferenceClass::Absent)];
        let object = identity("a", "shared");
        let owners = Some((&item, &owners[..]));
        DecisionLine { owners, ..DecisionLine::new(recorder, &object, "remove_references") }
            .finish(&Ok(Patched::Gone(AbsenceProof::of_test())));
    });
    let lines: Vec<_> = log.lines().collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(lines[0].contains("name: owner") && lines[0].contains("count=4"), "{log}");
    let counts = r#"counts="3 orphan configmaps already_gone; 1 remove_finalizer configmaps already_gone""#;
    assert!(lines[0].contains(counts), "{log}");
    assert!(lines[1].contains("name: name-2"), "the owner that is gone, not the first: {log}");
}
