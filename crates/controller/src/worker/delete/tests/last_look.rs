//! A request may wait long for its turn. Everything that it rests on and that may change in the
//! meantime is checked once more, when nothing remains to wait for.

use std::time::Duration;

use tokio::time::sleep;

use super::scene::{FOREGROUND, Scene, Thing};
use crate::actors::tests::in_system;
use kube_gc_client::ApiSettings;
use kube_gc_client::testing::{ReceivedRequest, Reply, Server};
use kube_gc_core::mailbox::Completion;
use kube_gc_core::object::Finalizers;

/// One request a second about single objects, and none at once.
fn slow() -> ApiSettings {
    ApiSettings { seed: 1, qps: 1, burst: 1, ..ApiSettings::default() }
}

/// A server that answers GETs like this, and every write with success.
fn answering(mut get: impl FnMut(&ReceivedRequest) -> Reply + Send + 'static) -> Server {
    Server::answering(move |seen| match &*seen.method {
        "GET" => get(seen),
        _ => Reply::ok(r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#),
    })
}

fn deletes(server: &Server) -> Vec<ReceivedRequest> {
    server.seen().into_iter().filter(|seen| seen.method == "DELETE").collect()
}

/// A dependent of an owner that is being deleted in the foreground.
fn family() -> (Thing, Thing) {
    let owner = Thing::new("owner", 1, &[]);
    let dependent = Thing::new("dependent", 2, &[&owner]);
    (owner.deleted(5, FOREGROUND), dependent)
}

/// However slow the limiter is, and however many owners wait: the owners are looked up one after
/// another when all turns have come. Fails if each lookup waits for its own turn: the first would
/// be outdated when the last is made.
#[test]
fn a_dependent_of_waiting_owners_needs_at_most_one_request_a_second() {
    in_system(async {
        let owners = ["one", "two", "three"].map(|name| Thing::new(name, 1, &[]).deleted(5, FOREGROUND));
        let dependent = Thing::new("dependent", 2, &owners.each_ref());
        let replies = owners.each_ref().map(|owner| (owner.identity.name.clone(), owner.reply()));
        let server = answering(move |seen| {
            let found = replies.iter().find(|(name, _)| seen.path.ends_with(&**name));
            found.map(|(_, reply)| reply.clone()).unwrap()
        });
        let [one, two, three] = &owners;
        let scene = Scene::set(&server, slow(), &[one, two, three, &dependent]).await;
        assert!(matches!(scene.decide(&dependent).await, Completion::Done), "{:?}", server.requests());
        let seen = server.seen();
        assert_eq!(deletes(&server).len(), 1);
        let last = seen.last().unwrap();
        assert_eq!(last.method, "DELETE");
        for owner in &owners {
            let looks = seen.iter().filter(|seen| seen.path.ends_with(&*owner.identity.name));
            let age = last.at - looks.map(|seen| seen.at).max().unwrap();
            assert!(age < Duration::from_secs(1), "looked at {age:?} before: {:?}", server.requests());
        }
    });
}

/// After five irrelevant conflicts the DELETE carries only the uid. While it waits for the limiter,
/// a living owner is added. Fails if the object is read before that wait and not after it.
#[test]
fn an_owner_added_while_a_delete_with_only_the_uid_waits_saves_the_object() {
    in_system(async {
        let (gone, saviour) = (Thing::new("gone", 1, &[]), Thing::new("saviour", 1, &[]));
        let dependent = Thing::new("dependent", 2, &[&gone]);
        let (lonely, saved) = (dependent.clone(), Thing::new("dependent", 2, &[&gone, &saviour]));
        let mut version = 2;
        let start = tokio::time::Instant::now();
        // Its status changes with every read, and its owners change after the fifth conflict.
        let server = Server::answering(move |seen| match &*seen.method {
            "GET" if seen.path.ends_with("gone") => Reply::status(
                404,
                "configmaps \"gone\" not found",
                r#"{"name":"gone","group":"","kind":"configmaps"}"#,
            ),
            "GET" => {
                version += 1;
                // Between the read after the fifth conflict and the turn of the next DELETE.
                let of = if version > 7 { &saved } else { &lonely };
                Thing { version, ..of.clone() }.reply()
            }
            "DELETE" if seen.json()["preconditions"]["resourceVersion"].is_string() => {
                Reply::status(409, "the object has been modified", "{}")
            }
            _ => Reply::ok(r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#),
        });
        let scene = Scene::set(&server, slow(), &[&gone, &saviour, &dependent]).await;
        scene.lose(&Thing { version: 101, ..gone.clone() }).await;
        scene.decide(&dependent).await;
        let by_uid_alone = deletes(&server)
            .into_iter()
            .filter(|seen| !seen.json()["preconditions"]["resourceVersion"].is_string());
        assert_eq!(by_uid_alone.count(), 0, "{:?} after {:?}", server.requests(), start.elapsed());
        assert_eq!(deletes(&server).len(), 5, "{:?}", server.requests());
    });
}

/// How many patches are sent for a dependent of an owner that waits and of a solid one, if these show
/// something else while the patch waits for the limiter.
async fn patches_if(later: impl FnOnce(&Thing, &Thing) -> [Reply; 2]) -> usize {
    let (owner, solid) = (Thing::new("owner", 1, &[]), Thing::new("solid", 1, &[]));
    let dependent = Thing::new("dependent", 2, &[&owner, &solid]);
    let owner = owner.deleted(5, FOREGROUND);
    let (before, later) = ([owner.reply(), solid.reply()], later(&owner, &solid));
    let server = answering(move |seen| {
        let replies = if seen.at < Duration::from_millis(1_500) { &before } else { &later };
        replies[usize::from(seen.path.ends_with("solid"))].clone()
    });
    let scene = Scene::set(&server, slow(), &[&owner, &solid, &dependent]).await;
    scene.decide(&dependent).await;
    server.seen().into_iter().filter(|seen| seen.method == "PATCH").count()
}

/// The solid owner is deleted in the foreground. Fails if it is confirmed before the wait and not
/// after it.
#[test]
fn a_solid_owner_is_confirmed_right_before_the_patch_is_sent() {
    in_system(async {
        let later = |owner: &Thing, solid: &Thing| [owner.reply(), solid.deleted(6, FOREGROUND).reply()];
        assert_eq!(patches_if(later).await, 0);
        assert_eq!(patches_if(|owner, solid| [owner.reply(), solid.reply()]).await, 1);
    });
}

/// The waiting owner ends its foreground deletion, and another finalizer keeps it (rule 4.32). Fails if
/// the patch rests on what the owner was before the wait.
#[test]
fn a_reference_stays_if_its_owner_stops_waiting_before_the_patch_is_sent() {
    in_system(async {
        let later =
            |owner: &Thing, solid: &Thing| [owner.deleted(6, Finalizers::default()).reply(), solid.reply()];
        assert_eq!(patches_if(later).await, 0);
    });
}

/// A blocking dependent is added while the finalizer patch waits for the rate limiter (rule 4.6).
/// Fails if the graph is asked before that wait and not after it.
#[test]
fn a_finalizer_stays_if_a_blocking_dependent_appears_during_the_rate_limit() {
    in_system(async {
        let (owner, dependent) = family();
        let reply = owner.reply();
        let server = Server::answering(move |_| reply.clone());
        let scene = Scene::set(&server, slow(), &[&owner]).await;
        let late = async {
            sleep(Duration::from_millis(500)).await;
            scene.see(&dependent).await;
        };
        tokio::join!(scene.decide(&owner), late);
        let patches = server.seen().into_iter().filter(|seen| seen.method == "PATCH").count();
        assert_eq!(patches, 0, "{:?}", server.requests());
    });
}
