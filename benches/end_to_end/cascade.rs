//! Deletes an owner and measures the cascade.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use kube_gc_testkit::{Ns, Policy};
use serde_json::json;

use crate::client;
use crate::contestants::{Cascade, Contestant, WORKERS};
use crate::process::Process;
use crate::report::Figure;
use crate::rows::Measured;
use crate::stage::{Stage, make_family};

/// The figures of a cascade.
pub const FIGURES: [Figure; 4] = [
    Figure { key: "objects_per_second", title: "objects per second", unit: "1/s", digits: 0 },
    Figure { key: "requests_per_object", title: "requests per object", unit: "", digits: 3 },
    Figure { key: "cpu_per_object", title: "CPU of the collector per object", unit: "ms", digits: 3 },
    Figure {
        key: "server_cpu_per_object",
        title: "CPU of the API server and etcd per object",
        unit: "ms",
        digits: 3,
    },
];

/// Creates an owner with dependents, starts the contestant, deletes the owner, and waits for the end.
pub async fn run(
    stage: &Stage,
    contestant: Contestant,
    ns: &Ns,
    policy: Policy,
    dependents: usize,
) -> Result<Measured> {
    let client = &stage.client;
    let (owner, family) = make_family(ns, "owner", dependents).await?;
    let collector = stage.collector_at_rest(contestant, ns).await?;
    let bare = stage.another_client().await?;
    let mut limit = None;
    if contestant == Contestant::Limit {
        bare.warm_up(WORKERS).await?;
        limit = Some(Cascade::prepare(&owner, &family, policy)?);
    }
    // Of an owner whose dependents stay.
    let watch = match policy {
        Policy::Orphan => Some(client.watch(&owner).await?),
        Policy::Background | Policy::Foreground => None,
    };
    let deletion = client::deletion(&owner, policy, &json!({ "uid": owner.uid }))?;
    client.warm_up(WORKERS).await?;
    stage.collect_garbage().await?;
    let cpu = collector.as_ref().map(Process::cpu).transpose()?;
    let counted = client.counted_by_the_server().await?;
    let ours = client.sent();

    let servers = stage.servers_cpu()?;
    let begun = Instant::now();
    let work = async {
        client.send(deletion).await?;
        match limit {
            Some(cascade) => cascade.run(&bare).await,
            None => Ok(()),
        }
    };
    let end = async {
        match watch {
            Some(deleted) => deleted.await,
            None => client.emptied(ns, dependents + 1).await,
        }
    };
    let ((), end) = futures::try_join!(work, end)?;
    let servers = stage.servers_cpu()? - servers;

    let ours = client.sent() - ours;
    let cpu = match (&collector, cpu) {
        (Some(process), Some(before)) => {
            process.quiet().await?;
            Some(process.cpu()? - before)
        }
        _ => None,
    };
    let sent = (client.counted_by_the_server().await?)
        .checked_sub(counted + ours)
        .context("the API server has counted fewer requests than were sent")?;
    // Otherwise the figures would be worthless.
    let left = client.remaining(ns).await?;
    let expected = if policy == Policy::Orphan { dependents } else { 0 };
    ensure!(left == u64::try_from(expected)?, "{left} objects are left, and not {expected}");
    // A float represents such counts exactly.
    #[allow(clippy::cast_precision_loss)]
    let (objects, sent) = (dependents as f64, sent as f64);
    let mut measured = vec![
        ("objects_per_second", objects / (end - begun).as_secs_f64()),
        ("requests_per_object", sent / objects),
        ("server_cpu_per_object", servers.as_secs_f64() * 1e3 / objects),
    ];
    measured.extend(cpu.map(|cpu| ("cpu_per_object", cpu.as_secs_f64() * 1e3 / objects)));
    Ok(measured)
}
