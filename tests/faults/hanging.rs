//! Types whose requests hang.

use anyhow::{Result, ensure};

use crate::faults::stage::{Stage, never};
use kube_gc_testkit::cluster::create_all;
use kube_gc_testkit::proxy::{Fault, Matcher, Reply, Verb};
use kube_gc_testkit::{Collector, Obj, Options, Policy, Scope};

kube_gc_testkit::scenarios! {
    a_type_whose_lookups_hang_delays_no_other,
}

const WIDGETS: &str = "widgets.example.com";
/// The number of objects whose owners' lookups hang.
const STUCK: usize = 100;
/// The number of workers. The type may block each of them once.
const WORKERS: usize = 8;

/// A conversion webhook that hangs makes every GET of its type hang (rules 7.7 and 10.5). Fails if
/// each object that waits for such an owner occupies a worker until its own lookup is given up: all
/// of these objects are queued before the others.
async fn a_type_whose_lookups_hang_delays_no_other() -> Result<()> {
    let stage = Stage::set().await?;
    let (cluster, ns) = (&stage.cluster, &stage.ns);
    let widgets = cluster.crd(WIDGETS, Scope::Namespaced, &["v1"]).await?;
    let owners = create_all((0..STUCK).map(|n| ns.object(widgets.resource(), format!("w-{n}")))).await?;
    let stuck = owners.iter().map(|owner| ns.configmap(format!("of-{}", owner.name)).owned_by(owner));
    let stuck = create_all(stuck).await?;
    let broken = stage.proxy.always(Matcher::verb(Verb::List).of(WIDGETS), Fault::Instead(Reply::broken()));
    let gets = Matcher::verb(Verb::Get).of(WIDGETS);
    let mut held = stage.proxy.hold(gets.clone());
    let config = format!(
        "[startup]\nsync_timeout = \"300ms\"\n[workers]\ndelete = {WORKERS}\n\
         [watch]\nmin_backoff = \"100ms\"\nmax_backoff = \"300ms\"\n[retry]\nmax = \"300ms\"\n"
    );

    let collector = Collector::start_with(stage.proxy.kubeconfig(), Options::config(config)).await?;
    let mut waiting = Vec::new();
    while waiting.len() < WORKERS {
        waiting.push(held.next().await?);
    }
    // All workers are busy, and the queue is long.
    let owner = ns.secret("owner").create().await?;
    let blocking = ns.pod("blocking").owned_by(&owner).blocking().create().await?;
    let garbage = ns.secret("garbage").owner_reference(never()).create().await?;
    cluster.delete(&owner, Policy::Foreground).await?;
    for object in [&garbage, &blocking, &owner] {
        stage.gone(object).await?;
    }
    let sent = stage.proxy.all(&gets).len();
    ensure!(sent <= STUCK / 2, "{sent} look-ups came first");
    cluster.assert_kept(&stuck).await?;

    let (dead, live) = owners.split_at(STUCK / 2);
    cluster.delete_all(dead, Policy::Background).await?;
    drop(waiting);
    held.release();
    broken.remove();
    cluster.settled(&collector).await?;
    let (gone, kept): (&[Obj], &[Obj]) = stuck.split_at(STUCK / 2);
    cluster.assert_gone(gone).await?;
    for (object, owner) in kept.iter().zip(live) {
        stage.assert_owners(object, &[owner]).await?;
    }
    // Its dependents are removed, too: without the type, nothing shows whether they are garbage.
    widgets.remove().await?;
    cluster.settled(&collector).await?;
    collector.stop().await
}
