//! Owners that may be on their way through admission.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::advance;

use super::scene::{Scene, Thing};
use crate::actors::pool::Outcome;
use crate::actors::tests::in_system;
use kube_gc_client::ApiSettings;
use kube_gc_client::testing::{Reply, Server};
use kube_gc_core::graph::LARGE;
use kube_gc_core::mailbox::{Completion, Wait};
use kube_gc_observe::telemetry::StuckReason;

const GRACE: Duration = Duration::from_secs(2);

/// What the API server has, and its clock.
#[derive(Clone, Default)]
struct Store(Arc<Mutex<(Vec<Thing>, Option<&'static str>)>>);

impl Store {
    fn put(&self, thing: &Thing) {
        self.0.lock().unwrap().0.push(thing.clone());
    }

    fn server(&self) -> Server {
        let store = self.clone();
        Server::answering(move |seen| {
            let name = seen.path.rsplit('/').next().unwrap();
            let held = store.0.lock().unwrap();
            let (things, date) = &*held;
            let thing = things.iter().find(|thing| &*thing.identity.name == name);
            match (&*seen.method, thing) {
                ("GET", Some(thing)) => {
                    let reply = thing.reply();
                    date.map_or(reply.clone(), |date| reply.header("date", date))
                }
                ("GET", None) => {
                    Reply::status(404, "not found", &format!(r#"{{"name":"{name}","kind":"configmaps"}}"#))
                }
                _ => Reply::ok(r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#),
            }
        })
    }
}

/// A server that has these, a graph that shows them, and one owner that neither has.
async fn stage(things: &[&Thing]) -> (Store, Server, Scene) {
    let store = Store::default();
    things.iter().for_each(|thing| store.put(thing));
    let server = store.server();
    let scene = Scene::set(&server, ApiSettings::default(), things).await.with_birth_grace(GRACE);
    (store, server, scene)
}

/// An owner, and its dependent.
fn family() -> (Thing, Thing) {
    let owner = Thing::new("owner", 1, &[]);
    let dependent = Thing::new("dependent", 2, &[&owner]);
    (owner, dependent)
}

/// How long an object waits for a birth.
fn wait(outcome: &Outcome) -> Duration {
    match outcome {
        Completion::Later { wait: Wait::Untried(after), reason: StuckReason::Deferred, error } => {
            assert!(error.contains("may still be in admission"), "{error}");
            *after
        }
        other => panic!("{other:?}"),
    }
}

fn count(server: &Server, of: &str) -> usize {
    server.requests().iter().filter(|request| *request == of).count()
}

const GET_OWNER: &str = "GET /api/v1/namespaces/a/configmaps/owner";
const GET_DEPENDENT: &str = "GET /api/v1/namespaces/a/configmaps/dependent";
const DELETE_DEPENDENT: &str = "DELETE /api/v1/namespaces/a/configmaps/dependent";

/// Rule 1.28. Who names an owner knows its uid, so a later dependent has no earlier owner.
#[test]
fn one_old_dependent_proves_an_absence_for_all() {
    in_system(async {
        let (owner, dependent) = family();
        let young = Thing::new("young", 3, &[&owner]);
        let (store, server, scene) = stage(&[&dependent]).await;
        wait(&scene.decide(&dependent).await);
        advance(GRACE).await;
        scene.decide(&dependent).await;
        store.put(&young);
        scene.see(&young).await;
        assert!(matches!(scene.decide(&young).await, Completion::Done));
        assert_eq!(server.requests().iter().filter(|request| request.starts_with("DELETE")).count(), 2);
    });
}

/// Rule 1.29. After a restart, most objects are old. An owner in admission may adopt one, and an
/// aggregated API may lie about its objects.
#[test]
fn the_servers_clock_determines_for_how_long_an_object_waits() {
    for (created, changed, wait_for) in [
        ("00:00:00", "00:00:00", Duration::ZERO),
        ("00:00:00", "01:00:00", GRACE / 2),
        ("23:00:00", "23:00:00", GRACE),
    ] {
        in_system(async {
            let (_, mut dependent) = family();
            dependent.times = Some([created, changed].map(|time| format!("2026-01-01T{time}Z")));
            let (store, server, scene) = stage(&[&dependent]).await;
            store.0.lock().unwrap().1 = Some("Thu, 01 Jan 2026 01:00:02 GMT");
            let outcome = scene.decide(&dependent).await;
            if wait_for.is_zero() {
                assert!(matches!(outcome, Completion::Done));
                assert_eq!(server.requests(), [GET_OWNER, GET_DEPENDENT, DELETE_DEPENDENT]);
                return;
            }
            assert_eq!(wait(&outcome), wait_for);
            advance(wait_for).await;
            assert!(matches!(scene.decide(&dependent).await, Completion::Done));
            assert_eq!(count(&server, DELETE_DEPENDENT), 1);
        });
    }
}

/// Rule 1.28. Fails if an object that has waited for one owner waits for no other.
#[test]
fn an_object_waits_for_each_of_its_owners() {
    in_system(async {
        let (owner, stays) = (Thing::new("owner", 1, &[]), Thing::new("stays", 2, &[]));
        let dependent = Thing::new("dependent", 4, &[&owner, &stays]);
        let (_, server, scene) = stage(&[&dependent, &stays]).await;
        assert_eq!(wait(&scene.decide(&dependent).await), GRACE);
        advance(GRACE).await;
        scene.decide(&dependent).await;
        scene.see(&Thing::new("dependent", 5, &[&Thing::new("later", 3, &[])])).await;
        assert_eq!(wait(&scene.decide(&dependent).await), GRACE);
        assert_eq!(count(&server, DELETE_DEPENDENT), 0);
    });
}

/// Rule 4.36. Fails if it is parked as the object of an owner that can never be looked up.
#[test]
fn an_object_with_an_unserved_owner_waits_for_the_birth_of_another() {
    in_system(async {
        let (_, mut dependent) = family();
        let mut unserved = Thing::new("unserved", 1, &[]).reference();
        unserved.kind = "Unserved".into();
        dependent.owners.insert(0, unserved);
        let (_, _, scene) = stage(&[&dependent]).await;
        assert_eq!(wait(&scene.decide(&dependent).await), GRACE);
    });
}

/// Rule 4.36. The workers of objects with very many owners look these up themselves.
#[test]
fn an_object_with_very_many_unborn_owners_waits_too() {
    in_system(async {
        let owners: Vec<_> =
            (0..=LARGE).map(|number| Thing::new(&format!("owner-{number}"), 1, &[])).collect();
        let dependent = Thing::new("dependent", 2, &owners.iter().collect::<Vec<_>>());
        let (store, server, scene) = stage(&[&dependent]).await;
        assert_eq!(wait(&scene.decide(&dependent).await), GRACE);
        store.put(&owners[LARGE]);
        advance(GRACE).await;
        scene.decide(&dependent).await;
        assert_eq!(count(&server, DELETE_DEPENDENT), 0, "one was born");
        let patches = server.seen().into_iter().filter(|seen| seen.method == "PATCH").count();
        assert_eq!(patches, 1, "the others are absent");
    });
}
