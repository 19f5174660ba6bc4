//! The store is restored from a backup, in which an owner does not wait for its dependents yet.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::scene::{FOREGROUND, Scene, Thing};
use crate::actors::tests::in_system;
use kube_gc_client::testing::{Part, Reply, Server, paged};
use kube_gc_client::{ApiSettings, Step};
use kube_gc_core::graph::DeletesProve;
use kube_gc_core::mailbox::{Completion, Wait};

/// The dependents of an owner that waits, while GETs show it like this.
async fn dependents_of(
    owner: &Thing,
    mut live: impl FnMut() -> Thing + Send + 'static,
) -> (Scene, [Thing; 2]) {
    let dependents = ["one", "two"].map(|name| Thing::new(name, 2, &[owner]));
    let server = Server::answering(move |seen| match seen.query("watch") {
        Some(_) => Reply::stream([Part::Break]),
        None if seen.path.ends_with("owner") => live().reply(),
        None => Reply::ok(r#"{"kind":"List","metadata":{"resourceVersion":"100"},"items":[]}"#),
    });
    let settings = ApiSettings { qps: 1, burst: 1, ..paged() };
    let scene = Scene::set(&server, settings, &[owner, &dependents[0], &dependents[1]]).await;
    let api = &scene.work.context.api;
    let mut watch = api.watch(Arc::clone(&owner.identity.resource), DeletesProve::Absence);
    while !matches!(watch.next().await, Some(Step::Failed { .. })) {}
    (scene, dependents)
}

/// Rule 1.23. Fails if the dependent is kept: when the owner comes to wait at the very same version again, no
/// event shows a change, and nobody looks at the dependent any more.
#[test]
fn a_waiting_owner_that_a_get_shows_at_a_lower_version_proves_a_restore() {
    in_system(async {
        let live = Thing::new("owner", 1, &[]);
        let (scene, [dependent, _]) = dependents_of(&live.deleted(5, FOREGROUND), move || live.clone()).await;
        let outcome = scene.decide(&dependent).await;
        assert!(matches!(outcome, Completion::Later { wait: Wait::Backoff, .. }), "{outcome:?}");
        assert!(scene.work.context.api.gate().permit().is_err(), "everything is listed again");
    });
}

/// Fails if an answer is compared with what was seen after its request was sent.
#[test]
fn a_look_up_that_is_joined_later_proves_no_restore() {
    in_system(async {
        let owner = Thing::new("owner", 1, &[]).deleted(5, FOREGROUND);
        let (mut first, later) = (Some(owner.clone()), owner.deleted(9, FOREGROUND));
        let shown = later.clone();
        let (scene, [one, two]) =
            dependents_of(&owner, move || first.take().unwrap_or_else(|| shown.clone())).await;
        let other = async {
            sleep(Duration::from_millis(10)).await;
            scene.see(&later).await;
            scene.decide(&two).await
        };
        tokio::join!(scene.decide(&one), other);
        assert!(scene.work.context.api.gate().permit().is_ok());
    });
}
