//! A dependent that names an owner of another namespace.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::scene::{Scene, Thing, in_system};
use crate::actors::tests::identity;
use crate::api::ApiSettings;
use crate::api::EventRecorder;
use crate::api::scripted::{Reply, Server};
use crate::worker::namespace_check::NamespaceCheck;

/// Fails if the check waits for the graph, or if a mistake is not reported.
#[test]
fn an_owner_in_another_namespace_is_reported_later_and_a_missing_one_is_not() {
    in_system(async {
        let (owner, nowhere) = (Thing::new("owner", 1, &[]), Thing::new("nowhere", 1, &[]));
        let server = Server::answering(|_| Reply::code(201, "{}"));
        let scene = Scene::set(&server, ApiSettings::default(), &[&owner]).await;
        let ending = CancellationToken::new();
        let (recorder, recording) = EventRecorder::new(server.api(), ending.clone());
        let (check, checking) = NamespaceCheck::new(scene.graph.clone(), recorder, ending.clone());
        let tasks = tokio::spawn(async { tokio::join!(recording, checking) });
        let references = [owner.reference(), nowhere.reference()];
        check.check(&identity("b", "dependent"), references.iter());
        check.check(&identity("a", "sibling"), references.iter());
        assert_eq!(server.seen().len(), 0, "nothing was waited for");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let seen = server.seen();
        assert_eq!(seen.len(), 1, "{:?}", server.requests());
        let event = seen[0].json();
        assert_eq!(event["involvedObject"]["name"], "dependent");
        assert!(event["message"].as_str().unwrap().contains("name: owner"), "{event}");
        ending.cancel();
        tasks.await.unwrap();
    });
}

/// Fails if a worker waits for a check that no task carries out.
#[test]
fn a_namespace_check_beyond_the_bound_is_dropped() {
    in_system(async {
        let owner = Thing::new("owner", 1, &[]);
        let server = Server::answering(|_| Reply::code(201, "{}"));
        let scene = Scene::set(&server, ApiSettings::default(), &[&owner]).await;
        let (check, _never_run) =
            NamespaceCheck::new(scene.graph.clone(), EventRecorder::silent(), CancellationToken::new());
        for number in 0..10_000 {
            check.check(&identity("b", &number.to_string()), [owner.reference()].iter());
        }
    });
}
