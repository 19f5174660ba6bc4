mod lease;

use std::num::NonZeroU32;

use super::*;
use kube_gc_client::testing::{Reply, Server, order, widget};
use kube_gc_client::{AbsenceProof, Connection, ErrorClass};
use kube_gc_core::brake::lease::{ENGAGED, NAMESPACES};

fn brake(per_minute: u32) -> Brake {
    Brake::new(Limits { per_minute: NonZeroU32::new(per_minute), ..Limits::default() })
}

fn reserve(brake: &Brake, number: u32) -> Result<Reservation, Refusal> {
    brake.reserve(&Identity { uid: Uid::parse(&format!("u{number}")).unwrap(), ..widget() }, 0)
}

fn error(class: ErrorClass, code: Option<u16>, message: &str) -> Result<Deleted, ApiError> {
    let message = message.into();
    Err(ApiError { class, action: "DELETE", target: String::new(), message, code })
}

/// Whether a deletion that was answered like this leaves no room in a brake for one.
fn counts(answer: &Result<Deleted, ApiError>) -> bool {
    let brake = brake(1);
    let mut reservation = reserve(&brake, 0).unwrap();
    // However often it is tried.
    reservation.sending();
    reservation.answered(&error(ErrorClass::Conflict, Some(409), "the object has been modified"));
    reservation.sending();
    reservation.answered(answer);
    drop(reservation);
    reserve(&brake, 1).is_err()
}

#[tokio::test]
async fn a_deletion_that_took_or_may_have_taken_effect_counts_and_a_rejected_one_does_not() {
    use ErrorClass::{Conflict, Denied, GateClosed, Throttled, Transient};
    assert!(counts(&Ok(Deleted::Removed)));
    assert!(!counts(&Ok(Deleted::AlreadyGone(AbsenceProof::of_test()))), "somebody else has deleted it");
    assert!(counts(&error(Transient, None, "no answer within 30s")));
    assert!(counts(&error(Transient, Some(504), "request did not complete within the allotted timeout")));
    assert!(counts(&error(Transient, Some(500), "etcdserver: request timed out")));
    for refused in [
        error(Conflict, Some(409), "the object has been modified"),
        error(Denied, Some(403), "no"),
        error(Throttled { retry_after: None }, Some(429), "later"),
        error(GateClosed, None, "the write gate is closed"),
        error(Transient, Some(503), "the server is currently unable to handle the request"),
        error(Transient, Some(500), "Internal error occurred: failed calling webhook \"w.example.com\": EOF"),
    ] {
        assert!(!counts(&refused), "{refused:?}");
    }
}

/// The words are hyper's, and might change with it.
#[tokio::test]
async fn a_deletion_without_a_connection_does_not_count() {
    // Bound for the whole test, so that nothing else can listen there.
    let deaf = tokio::net::TcpSocket::new_v4().unwrap();
    deaf.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = deaf.local_addr().unwrap().port();
    let config = kube::Config::new(format!("http://127.0.0.1:{port}").parse().unwrap());
    let settings = kube_gc_client::ApiSettings::default();
    let api =
        Api::over(&Connection::new(config).unwrap(), settings, kube_gc_client::WriteGate::open()).unwrap();
    let deleted = api.delete(&order(&widget()), None).await;
    assert_eq!(deleted.as_ref().map_err(|error| error.class), Err(ErrorClass::Transient));
    assert!(!counts(&deleted), "{deleted:?}");
}

#[tokio::test]
async fn a_cancelled_request_counts_and_an_unsent_one_does_not() {
    let brake = brake(1);
    drop(reserve(&brake, 0).unwrap());
    let mut sent = reserve(&brake, 1).unwrap();
    assert_eq!(reserve(&brake, 2).unwrap_err(), Refusal::NotYet);
    sent.sending();
    drop(sent);
    assert!(matches!(reserve(&brake, 2), Err(Refusal::Engages { .. })));
    assert_eq!(reserve(&brake, 2).unwrap_err(), Refusal::Engaged);
}

fn lease(annotations: &[(&str, &str)]) -> Lease {
    let mut lease = Lease::default();
    lease.metadata.namespace = Some("ns".to_owned());
    lease.metadata.name = Some("kube-gc".to_owned());
    lease.metadata.uid = Some("lease-uid".to_owned());
    let pairs = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    lease.metadata.annotations = Some(pairs.collect());
    lease
}

#[tokio::test(start_paused = true)]
async fn the_brake_sends_events_about_the_lease_when_this_replica_leads() {
    let server = Server::answering(|_| Reply::code(201, "{}"));
    let (api, brake) = (server.api(), brake(1));
    tokio::spawn(tell(brake.clone(), api.clone(), Vec::new()));
    let wait = async || tokio::time::sleep(Duration::from_secs(60)).await;
    // Another replica left the annotation, and this one is about to lead.
    api.gate().pause();
    brake.inherit(&lease(&[(ENGAGED, "2026-01-02T03:04:05Z too many")]));
    wait().await;
    assert_eq!(server.seen().len(), 0);
    api.gate().resume();
    wait().await;
    wait().await;
    assert_eq!(server.seen().len(), 1, "told once");
    let event = server.seen()[0].json();
    assert_eq!(event["involvedObject"]["uid"], "lease-uid");
    let message = event["message"].as_str().unwrap();
    assert!(message.starts_with("deletion is paused since 2026-01-02T03:04:05Z: too many; resume with"));

    // The brake was released and engaged again between two looks: there is an event for each.
    let since = std::time::SystemTime::UNIX_EPOCH;
    brake.read(&lease(&[(RESUME, "now")]));
    brake.engage(None, Engagement { since, why: "again".to_owned() });
    wait().await;
    let told: Vec<_> = server.seen().iter().map(|request| request.json()["reason"].clone()).collect();
    assert_eq!(told, [DELETION_PAUSED, DELETION_RESUMED, DELETION_PAUSED]);
}

/// Rule 6.15.
#[tokio::test]
async fn a_braked_namespace_is_named_and_inherited_and_resumed_like_everything() {
    let new = || Brake::new(Limits { namespace_per_minute: NonZeroU32::new(1), ..Limits::default() });
    let deletes = |brake: &Brake, namespace: &str, uid: &str| {
        let (namespace, uid) = (Namespace::parse(namespace), Uid::parse(uid).unwrap());
        let reservation = brake.reserve(&Identity { namespace, uid, ..widget() }, 0);
        reservation.map(|mut reservation| reservation.answered(&Ok(Deleted::Removed))).is_ok()
    };
    let (first, second) = (new(), new());
    first.read(&lease(&[]));
    assert!(deletes(&first, "a", "0") && !deletes(&first, "a", "1") && deletes(&first, "b", "2"));
    assert_eq!(first.holds(None), None);
    let warning = first.warning().unwrap();
    assert!(warning.starts_with("deletion is paused in the namespace a since 20"), "{warning}");
    assert!(
        warning.contains("namespace_deletions_per_minute allows; 0 objects held; resume with: kubectl"),
        "{warning}"
    );
    let reason = first.holds(Namespace::parse("a").as_ref()).unwrap();
    assert_eq!(first.holds(Namespace::parse("b").as_ref()), None);
    assert!(reason.starts_with("deletion in this namespace is paused since 20"), "{reason}");

    let mut written = lease(&[]);
    first.write(&mut written);
    let annotations = written.metadata.annotations.clone().unwrap();
    assert!(annotations.len() == 1 && annotations[NAMESPACES].ends_with("Z a"), "{annotations:?}");
    second.inherit(&written);
    let off = Brake::new(Limits::default());
    off.inherit(&written);
    assert_eq!(off.warning(), None, "who has no brake is not held by another's");
    assert!(!deletes(&second, "a", "1") && deletes(&second, "c", "2"));
    second.read(&lease(&[(RESUME, "now")]));
    assert_eq!(second.warning(), None);
    assert!(deletes(&second, "a", "1"));
}

#[test]
fn without_a_lease_an_event_is_about_the_pod_or_about_a_namespace_that_always_exists() {
    let in_a_pod = ourselves(|name| {
        let value = match name {
            "POD_NAMESPACE" => "gc",
            "POD_NAME" => "kube-gc-1",
            _ => "u-1",
        };
        Some(value.to_owned())
    })
    .unwrap();
    assert_eq!(in_a_pod.to_string(), "pods gc/kube-gc-1 (u-1)");
    let outside = ourselves(|_| None).unwrap();
    assert_eq!(outside.to_string(), "namespaces kube-system (kube-system)");
    assert_eq!(ourselves(|_| Some(String::new())).unwrap(), outside, "empty is as good as not set");
}
