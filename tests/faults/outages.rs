//! The API server is killed during much work.

use anyhow::{Result, ensure};

use crate::faults::stage::Stage;
use kube_gc_testkit::cluster::create_all;
use kube_gc_testkit::proxy::{Exchange, Verb};
use kube_gc_testkit::{Options, Policy, Server};

kube_gc_testkit::scenarios! {
    a_cascade_continues_after_the_api_server_restarts,
}

/// The number of dependents of the deleted owner.
const DEPENDENTS: usize = 5000;
/// One in this many has another owner.
const SHARED: usize = 50;
/// Failures are retried soon.
const SOON: &str =
    "[retry]\nmax = \"2s\"\n[watch]\nmax_backoff = \"1s\"\n[client]\nrequest_timeout = \"5s\"\n";

/// Waits until this many deletions in the namespace of this test were answered. The proxy runs on this
/// thread, so no further request is handled before the caller waits.
async fn progress(stage: &Stage, answered: usize, all: usize) -> Result<()> {
    let deletes = stage.here(Verb::Delete);
    stage.proxy.answered(answered, &deletes).await?;
    let has_gone = |delete: &&Exchange| delete.status.is_some_and(|status| status < 300);
    let gone = stage.proxy.all(&deletes).iter().filter(has_gone).count();
    ensure!(gone < all, "too late for the middle");
    Ok(())
}

/// kube-apiserver is killed and restarted in the middle of a cascade, first alone and
/// then together with etcd (rule 8.8). Answered requests hold, and unanswered ones are
/// repeated. A type is listed only if its watch could not be resumed.
async fn a_cascade_continues_after_the_api_server_restarts() -> Result<()> {
    let stage = Stage::alone().await?;
    let (plane, cluster, ns) = (stage.plane()?, &stage.cluster, &stage.ns);
    let collector = stage.collector_with(Options::config(SOON)).await?;
    let (owner, solid) = (ns.secret("owner").create().await?, ns.secret("solid").create().await?);
    let (mut sole, mut shared) = (Vec::new(), Vec::new());
    for number in 0..DEPENDENTS {
        let dependent = ns.configmap(format!("dependent-{number}")).owned_by(&owner).blocking();
        match number % SHARED {
            0 => shared.push(dependent.owned_by(&solid)),
            _ => sole.push(dependent),
        }
    }
    let (sole, shared) = (create_all(sole).await?, create_all(shared).await?);
    // Of another type, so that several watches must work.
    let below = sole.iter().step_by(SHARED);
    let below = create_all(below.map(|owner| ns.pod(&owner.name).owned_by(owner).blocking())).await?;
    cluster.settled(&collector).await?;
    let mark = stage.proxy.mark();
    cluster.delete(&owner, Policy::Foreground).await?;

    progress(&stage, DEPENDENTS / 5, sole.len()).await?;
    plane.kill(Server::KubeApiserver)?;
    plane.restart(Server::KubeApiserver).await?;
    progress(&stage, DEPENDENTS / 2, sole.len()).await?;
    plane.kill(Server::KubeApiserver)?;
    plane.kill(Server::Etcd)?;
    plane.restart(Server::Etcd).await?;
    plane.restart(Server::KubeApiserver).await?;
    stage.answers().await?;

    cluster.settled(&collector).await?;
    cluster.assert_gone(sole.iter().chain(&below).chain([&owner])).await?;
    for object in &shared {
        stage.assert_owners(object, &[&solid]).await?;
    }
    stage.assert_lists_were_needed(mark)?;
    ensure!(collector.metric("kube_gc_store_restored_total").await? == 0.0, "nothing was restored");
    collector.stop().await
}
