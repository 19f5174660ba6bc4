//! The basis of a decision changes while its request waits for the rate limiter.

use anyhow::{Result, ensure};

use crate::faults::stage::Stage;
use kube_gc_testkit::cluster::create_all;
use kube_gc_testkit::proxy::Verb;
use kube_gc_testkit::{Obj, Options, Policy};

kube_gc_testkit::scenarios! {
    an_orphan_deletion_keeps_dependents_whose_delete_still_waits_for_its_turn,
}

/// The number of dependents. Most wait when the owner is deleted again.
const DEPENDENTS: usize = 6;

/// An owner is deleted in the foreground by mistake. While the DELETEs of its dependents wait for
/// the rate limiter, it is deleted again, with Orphan. Fails if the owner is checked before that
/// wait and not after it: every waiting dependent would be deleted.
async fn an_orphan_deletion_keeps_dependents_whose_delete_still_waits_for_its_turn() -> Result<()> {
    let stage = Stage::set().await?;
    let (cluster, ns) = (&stage.cluster, &stage.ns);
    let owner = ns.configmap("owner").create().await?;
    let of_owner = (0..DEPENDENTS).map(|n| ns.secret(format!("dependent-{n}")).owned_by(&owner).blocking());
    let dependents = create_all(of_owner).await?;
    let limited = Options::config("[client]\nqps = 1\nburst = 1\n");
    let collector = stage.collector_with(limited).await?;
    let mut deletes = stage.proxy.hold(stage.here(Verb::Delete).of("secrets"));
    cluster.delete(&owner, Policy::Foreground).await?;
    let first = deletes.next().await?;

    cluster.delete(&owner, Policy::Orphan).await?;
    let orphaning = cluster.fresh(&owner).await?;
    stage.seen(&collector, &orphaning).await?;
    // Requests that were already sent were correct; one is sent each second.
    let mark = stage.proxy.mark();
    first.pass();
    deletes.release();
    cluster.settled(&collector).await?;

    let late = stage.proxy.since(mark, &stage.here(Verb::Delete).of("secrets"));
    ensure!(late.is_empty(), "sent when the owner was known to orphan its dependents: {late:#?}");
    let sent = stage.proxy.all(&stage.here(Verb::Delete).of("secrets")).len();
    let mut kept: Vec<&Obj> = Vec::new();
    for dependent in &dependents {
        if cluster.exists_with_uid(dependent).await? {
            kept.push(dependent);
        }
    }
    ensure!(kept.len() >= DEPENDENTS - sent, "{} are left after {sent} DELETEs", kept.len());
    ensure!(sent <= DEPENDENTS / 2, "{sent} DELETEs were sent, so too few have waited");
    for dependent in kept {
        stage.assert_owners(dependent, &[]).await?;
    }
    cluster.assert_gone([&owner]).await?;
    collector.stop().await
}
