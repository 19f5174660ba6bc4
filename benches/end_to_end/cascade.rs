//! Deletes an owner and measures the cascade.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use crate::contestants::{Cascade, Contestant, WORKERS};
use crate::objects::{Mode, clear, make_family, remaining};
use crate::observe::{Watch, emptied, requests};
use crate::process::Process;
use crate::report::Figure;
use crate::rows::Measured;
use crate::stage::Stage;

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
    namespace: &str,
    mode: Mode,
    dependents: usize,
) -> Result<Measured> {
    let client = &stage.client;
    let family = make_family(client, namespace, "owner", dependents).await?;
    let collector = stage.collector_at_rest(contestant, namespace).await?;
    let bare = stage.another_client().await?;
    let mut limit = None;
    if contestant == Contestant::Limit {
        bare.warm_up(WORKERS).await?;
        limit = Some(Cascade::prepare(&family, mode));
    }
    // Of an owner whose dependents stay.
    let watch = match mode {
        Mode::Orphan => Some(Watch::object(client, &family.owner).await?),
        Mode::Background | Mode::Foreground => None,
    };
    client.warm_up(WORKERS).await?;
    stage.collect_garbage().await?;
    let cpu = collector.as_ref().map(Process::cpu).transpose()?;
    let counted = requests(client).await?;
    let ours = client.sent();

    let servers = stage.servers_cpu()?;
    let begun = Instant::now();
    let work = async {
        client.send(family.owner.deletion(mode)).await?.success()?;
        match limit {
            Some(cascade) => cascade.run(&bare).await,
            None => Ok(()),
        }
    };
    let end = async {
        match watch {
            Some(mut watch) => watch.deleted().await,
            None => emptied(client, namespace, dependents + 1).await,
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
    let sent = (requests(client).await?)
        .checked_sub(counted + ours)
        .context("the API server has counted fewer requests than were sent")?;
    // Otherwise the figures would be worthless.
    let left = remaining(client, namespace).await?;
    let expected = if mode == Mode::Orphan { dependents } else { 0 };
    ensure!(left == u64::try_from(expected)?, "{left} objects are left in {namespace}, and not {expected}");
    drop(collector);
    if mode == Mode::Orphan {
        clear(client, namespace).await?;
    }
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
