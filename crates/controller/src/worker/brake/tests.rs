mod lease;

use std::num::NonZeroU32;
use std::sync::atomic::Ordering::SeqCst;

use actix::{Actor, Context, Handler};

use super::*;
use kube_gc_client::AbsenceProof;
use kube_gc_client::scripted::{Reply, Server, widget};
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
    let api = Api::connect(config, settings, kube_gc_client::WriteGate::open()).unwrap();
    let deleted = api.delete(&widget(), kube_gc_core::object::PropagationPolicy::Background, None).await;
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

#[tokio::test]
async fn the_reason_on_the_lease_is_inherited_unchanged() {
    let since = humantime::parse_rfc3339("2026-01-02T03:04:05Z").unwrap();
    let (first, second) = (brake(1), brake(1));
    assert_eq!(first.warning(), None);
    first.engage(None, Engagement { since, why: "too many".to_owned() });
    first.sample(7);
    let warning = "deletion is paused since 2026-01-02T03:04:05Z: too many; 7 objects held; resume ";
    assert_eq!(first.warning(), Some(format!("{warning}by a restart")));
    let mut written = lease(&[]);
    first.read(&written);
    let annotate =
        "with: kubectl annotate --overwrite -n ns lease/kube-gc kube-gc.io/resume-deletion=\"$(date)\"";
    assert_eq!(first.warning(), Some(format!("{warning}{annotate}")));
    first.write(&mut written);
    assert_eq!(written.metadata.annotations.as_ref().unwrap()[ENGAGED], "2026-01-02T03:04:05Z too many");
    second.inherit(&written);
    assert_eq!(second.holds(None), first.holds(None));
    assert_eq!(reserve(&second, 0).unwrap_err(), Refusal::Engaged);

    let off = Brake::new(Limits::default());
    off.inherit(&written);
    assert_eq!(off.warning(), None, "who has no brake is not held by another's");
    off.write(&mut written);
    assert_eq!(written.metadata.annotations, None);
}

/// Counts how often it is woken.
struct Pool(Arc<AtomicUsize>);

impl Actor for Pool {
    type Context = Context<Self>;
}

impl Handler<PoolCommand> for Pool {
    type Result = ();

    fn handle(&mut self, _: PoolCommand, _: &mut Self::Context) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn the_brake_sends_events_about_the_lease_and_tells_the_pool_when_it_is_released() {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    actix::System::with_tokio_rt(runtime).block_on(async {
        let woken = Arc::new(AtomicUsize::new(0));
        let pool = Pool(Arc::clone(&woken)).start();
        let server = Server::answering(|_| Reply::code(201, "{}"));
        let (api, brake, ending) = (server.api(), brake(1), CancellationToken::new());
        let telling = tell(brake.clone(), api.clone(), vec![pool.recipient()], ending.clone());
        let telling = tokio::spawn(telling);
        let wait = async || tokio::time::sleep(Duration::from_secs(60)).await;
        // Another replica left the annotation, and this one is about to lead.
        api.gate().pause();
        brake.inherit(&lease(&[(ENGAGED, "2026-01-02T03:04:05Z too many")]));
        wait().await;
        assert_eq!(server.seen().len(), 0);
        api.gate().resume();
        wait().await;
        wait().await;
        assert_eq!((server.seen().len(), woken.load(SeqCst)), (1, 0), "told once");
        let request = server.seen().remove(0);
        assert!(request.path.starts_with("/api/v1/namespaces/ns/events"), "{}", request.path);
        let event = request.json();
        assert_eq!((&event["type"], &event["reason"]), (&"Warning".into(), &DELETION_PAUSED.into()));
        assert_eq!(event["involvedObject"]["kind"], "Lease");
        assert_eq!(event["involvedObject"]["uid"], "lease-uid");
        let message = event["message"].as_str().unwrap();
        assert!(message.starts_with("deletion is paused since 2026-01-02T03:04:05Z: too many; resume with"));

        brake.read(&lease(&[("kube-gc.io/resume-deletion", "now")]));
        wait().await;
        assert_eq!((server.seen().len(), woken.load(SeqCst)), (2, 1));
        let event = server.seen()[1].json();
        assert_eq!((&event["type"], &event["reason"]), (&"Normal".into(), &DELETION_RESUMED.into()));

        // The brake was released and engaged again between two looks: there is an event for each.
        let since = std::time::SystemTime::UNIX_EPOCH;
        brake.engage(None, Engagement { since, why: "again".to_owned() });
        wait().await;
        brake.read(&lease(&[("kube-gc.io/resume-deletion", "and again")]));
        brake.engage(None, Engagement { since, why: "once more".to_owned() });
        wait().await;
        let told: Vec<_> =
            server.seen()[2..].iter().map(|request| request.json()["reason"].clone()).collect();
        assert_eq!(told, [DELETION_PAUSED, DELETION_RESUMED, DELETION_PAUSED]);
        assert_eq!(woken.load(SeqCst), 2);
        ending.cancel();
        telling.await.unwrap();
    });
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
