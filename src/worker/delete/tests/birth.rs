//! Owners that may be on their way through admission.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::advance;

use super::scene::{Scene, Thing, in_system};
use crate::actors::pool::Outcome;
use crate::api::ApiSettings;
use crate::api::scripted::{Reply, Server};
use crate::telemetry::StuckReason;
use kube_gc_core::graph::LARGE;
use kube_gc_core::mailbox::Completion;

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

async fn scene(store: &Store, server: &Server, things: &[&Thing]) -> Scene {
    for thing in things {
        store.put(thing);
    }
    Scene::set(server, ApiSettings::default(), things).await.with_birth_grace(GRACE)
}

/// How long an object waits for a birth.
fn wait(outcome: &Outcome) -> Duration {
    match outcome {
        Completion::Defer { after, reason: StuckReason::Deferred, error } => {
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

/// Rule 4.36. An owner that is denied in the end.
#[test]
fn a_dependent_of_an_owner_that_is_not_born_goes_when_it_is_old_enough() {
    in_system(async {
        let owner = Thing::new("owner", 1, &[]);
        let dependent = Thing::new("dependent", 2, &[&owner]);
        let store = Store::default();
        let server = store.server();
        let scene = scene(&store, &server, &[&dependent]).await;
        assert_eq!(wait(&scene.decide(&owner).await), GRACE);
        assert_eq!(wait(&scene.decide(&dependent).await), GRACE);
        assert_eq!(server.requests(), [GET_OWNER, GET_OWNER, GET_DEPENDENT]);

        advance(GRACE / 2).await;
        assert_eq!(wait(&scene.decide(&dependent).await), GRACE / 2, "it was queued for another reason");
        assert_eq!(count(&server, GET_DEPENDENT), 1, "our own clock counts now");

        advance(GRACE / 2).await;
        assert!(matches!(scene.decide(&dependent).await, Completion::Done));
        assert_eq!(server.requests()[4..], [GET_OWNER, DELETE_DEPENDENT]);
    });
}

/// Rule 1.28.
#[test]
fn a_dependent_of_an_owner_that_is_being_born_is_kept() {
    in_system(async {
        let owner = Thing::new("owner", 1, &[]);
        let dependent = Thing::new("dependent", 2, &[&owner]);
        let store = Store::default();
        let server = store.server();
        let scene = scene(&store, &server, &[&dependent]).await;
        scene.decide(&owner).await;
        wait(&scene.decide(&dependent).await);
        store.put(&owner);
        advance(GRACE).await;
        assert!(matches!(scene.decide(&dependent).await, Completion::Done), "no monitor has shown the owner");
        assert_eq!(count(&server, DELETE_DEPENDENT), 0);
        scene.see(&owner).await;
        assert!(matches!(scene.decide(&dependent).await, Completion::Done));
        assert_eq!(count(&server, DELETE_DEPENDENT), 0);
    });
}

/// Rule 1.28. Who names an owner knows its uid, so a later dependent has no earlier owner.
#[test]
fn one_old_dependent_proves_an_absence_for_all() {
    in_system(async {
        let owner = Thing::new("owner", 1, &[]);
        let (dependent, young) = (Thing::new("dependent", 2, &[&owner]), Thing::new("young", 3, &[&owner]));
        let store = Store::default();
        let server = store.server();
        let scene = scene(&store, &server, &[&dependent]).await;
        wait(&scene.decide(&dependent).await);
        advance(GRACE).await;
        scene.decide(&dependent).await;
        store.put(&young);
        scene.see(&young).await;
        assert!(matches!(scene.decide(&young).await, Completion::Done));
        assert_eq!(server.requests().iter().filter(|request| request.starts_with("DELETE")).count(), 2);
    });
}

/// Rule 1.28.
#[test]
fn a_cascade_waits_for_no_birth_and_costs_one_request_for_each_object() {
    in_system(async {
        let owner = Thing::new("owner", 1, &[]);
        let dependent = Thing::new("dependent", 2, &[&owner]);
        let store = Store::default();
        let server = store.server();
        let scene = scene(&store, &server, &[&owner, &dependent]).await;
        scene.lose(&owner).await;
        assert!(matches!(scene.decide(&dependent).await, Completion::Done));
        assert_eq!(server.requests(), [DELETE_DEPENDENT]);
    });
}

/// Rule 1.29. After a restart, most objects are old.
#[test]
fn an_object_that_is_old_by_the_servers_clock_does_not_wait() {
    in_system(async {
        let owner = Thing::new("owner", 1, &[]);
        let times = Some(["2026-01-01T00:00:00Z"; 2]);
        let dependent = Thing { times, ..Thing::new("dependent", 2, &[&owner]) };
        let store = Store::default();
        store.0.lock().unwrap().1 = Some("Thu, 01 Jan 2026 00:00:03 GMT");
        let server = store.server();
        let scene = scene(&store, &server, &[&dependent]).await;
        assert!(matches!(scene.decide(&dependent).await, Completion::Done));
        assert_eq!(server.requests(), [GET_OWNER, GET_DEPENDENT, DELETE_DEPENDENT]);
    });
}

/// Rule 1.29. An aggregated API may lie about its objects.
#[test]
fn an_object_from_the_future_waits_no_longer_than_others() {
    in_system(async {
        let owner = Thing::new("owner", 1, &[]);
        let times = Some(["2106-01-01T00:00:00Z"; 2]);
        let dependent = Thing { times, ..Thing::new("dependent", 2, &[&owner]) };
        let store = Store::default();
        store.0.lock().unwrap().1 = Some("Thu, 01 Jan 2026 00:00:03 GMT");
        let server = store.server();
        let scene = scene(&store, &server, &[&dependent]).await;
        scene.decide(&owner).await;
        assert_eq!(wait(&scene.decide(&dependent).await), GRACE);
        advance(GRACE).await;
        assert!(matches!(scene.decide(&dependent).await, Completion::Done));
        assert_eq!(count(&server, DELETE_DEPENDENT), 1);
    });
}

/// Rule 1.29. An owner in admission may adopt what was there before.
#[test]
fn an_old_object_that_was_adopted_just_now_waits() {
    in_system(async {
        let owner = Thing::new("owner", 1, &[]);
        let times = Some(["2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"]);
        let dependent = Thing { times, ..Thing::new("dependent", 2, &[&owner]) };
        let store = Store::default();
        store.0.lock().unwrap().1 = Some("Thu, 01 Jan 2026 01:00:02 GMT");
        let server = store.server();
        let scene = scene(&store, &server, &[&dependent]).await;
        assert_eq!(wait(&scene.decide(&dependent).await), GRACE / 2);
    });
}

/// Rule 1.28. Fails if an object that has waited for one owner waits for no other.
#[test]
fn an_object_waits_for_each_of_its_owners() {
    in_system(async {
        let (owner, stays, later) =
            (Thing::new("owner", 1, &[]), Thing::new("stays", 2, &[]), Thing::new("later", 3, &[]));
        let dependent = Thing::new("dependent", 4, &[&owner, &stays]);
        let store = Store::default();
        let server = store.server();
        let scene = scene(&store, &server, &[&dependent, &stays]).await;
        assert_eq!(wait(&scene.decide(&dependent).await), GRACE);
        advance(GRACE).await;
        scene.decide(&dependent).await;
        scene.see(&Thing { version: 5, owners: vec![later.reference()], ..dependent.clone() }).await;
        assert_eq!(wait(&scene.decide(&dependent).await), GRACE);
        assert_eq!(count(&server, DELETE_DEPENDENT), 0);
    });
}

/// Rule 4.36. Fails if it is parked as the object of an owner that can never be looked up.
#[test]
fn an_object_with_an_unserved_owner_waits_for_the_birth_of_another() {
    in_system(async {
        let (owner, mut unserved) = (Thing::new("owner", 1, &[]), Thing::new("unserved", 1, &[]).reference());
        unserved.kind = "Unserved".into();
        let mut dependent = Thing::new("dependent", 2, &[&owner]);
        dependent.owners.insert(0, unserved);
        let store = Store::default();
        let server = store.server();
        let scene = scene(&store, &server, &[&dependent]).await;
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
        let store = Store::default();
        let server = store.server();
        let scene = scene(&store, &server, &[&dependent]).await;
        assert_eq!(wait(&scene.decide(&dependent).await), GRACE);
        store.put(&owners[LARGE]);
        advance(GRACE).await;
        scene.decide(&dependent).await;
        assert_eq!(count(&server, DELETE_DEPENDENT), 0, "one was born");
        let patches = server.seen().into_iter().filter(|seen| seen.method == "PATCH").count();
        assert_eq!(patches, 1, "the others are absent");
    });
}
