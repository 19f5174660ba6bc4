//! Deletes owners and measures the cascade. Most rows use it.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};

use crate::contestants::limit::{self, WORKERS};
use crate::figure::{Contestant, Figure, Target};
use crate::objects::{Family, Mode, clear, make_family};
use crate::observe::{Watch, emptied};
use crate::proc::Memory;
use crate::requests;
use crate::row::Measured;
use crate::stage::Stage;

/// The measurements of a cascade.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Dependents.
    pub objects: usize,
    /// From sending the DELETE of the first owner to the end, in seconds.
    pub seconds: f64,
    /// The contestant's requests about ConfigMaps.
    pub requests: u64,
    /// The CPU time of the API server and its etcd, in seconds.
    pub servers: f64,
    /// The cost of the collector; `None` for the limit.
    pub collector: Option<Cost>,
}

/// The cost of a collector.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Its CPU time until it was at rest again, in seconds.
    pub cpu: f64,
    /// Its memory before the cascade.
    pub before: Memory,
    /// Its memory after the cascade, with the peak in between.
    pub after: Memory,
}

/// The figures that [`Outcome::measured`] returns, with their targets.
pub const fn figures(
    objects_per_second: &'static [Target],
    requests_per_object: &'static [Target],
    cpu_per_object: &'static [Target],
) -> [Figure; 4] {
    [
        Figure {
            key: "objects_per_second",
            title: "objects per second",
            unit: "1/s",
            digits: 0,
            targets: objects_per_second,
        },
        Figure {
            key: "requests_per_object",
            title: "requests per object",
            unit: "",
            digits: 3,
            targets: requests_per_object,
        },
        Figure {
            key: "cpu_per_object",
            title: "CPU of the collector per object",
            unit: "ms",
            digits: 3,
            targets: cpu_per_object,
        },
        Figure {
            key: "server_cpu_per_object",
            title: "CPU of the API server and etcd per object",
            unit: "ms",
            digits: 3,
            targets: &[],
        },
    ]
}

impl Outcome {
    /// The figures of most cascades: `objects_per_second`, `requests_per_object`, and
    /// `cpu_per_object` and `server_cpu_per_object` in milliseconds.
    pub fn measured(&self) -> Measured {
        let objects = count(self.objects);
        // A float represents such a count exactly.
        #[allow(clippy::cast_precision_loss)]
        let requests = self.requests as f64;
        let mut measured =
            vec![("objects_per_second", objects / self.seconds), ("requests_per_object", requests / objects)];
        measured.push(("server_cpu_per_object", self.servers * 1e3 / objects));
        measured.extend(self.collector.map(|cost| ("cpu_per_object", cost.cpu * 1e3 / objects)));
        measured
    }
}

/// A number of objects as a float.
pub fn count(objects: usize) -> f64 {
    // A float represents such a count exactly.
    #[allow(clippy::cast_precision_loss)]
    let objects = objects as f64;
    objects
}

/// Creates owners with dependents, starts the contestant, deletes the owners, and waits for the
/// end.
pub async fn run(
    stage: &Stage,
    contestant: Contestant,
    namespace: &str,
    mode: Mode,
    owners: usize,
    dependents: usize,
) -> Result<Outcome> {
    let client = &stage.client;
    let mut families = Vec::new();
    for number in 0..owners {
        families.push(make_family(client, namespace, &format!("owner-{number:04}"), dependents).await?);
    }
    let collector = stage.collector_at_rest(contestant, namespace).await?;
    let bare = stage.another_client()?;
    let mut limit = None;
    if contestant == Contestant::Limit {
        bare.warm_up(WORKERS).await?;
        limit = Some(limit::Cascade::prepare(&families, mode));
    }
    let watches = watch_owners(stage, &families, mode).await?;
    client.warm_up(WORKERS).await?;
    stage.collect_garbage().await?;
    let before = match &collector {
        Some(process) => {
            process.forget_peak()?;
            Some((process.cpu()?, process.memory()?))
        }
        None => None,
    };
    let requests = requests::count(client).await?;
    let ours = client.sent();

    let servers = stage.servers_cpu()?;
    let begun = Instant::now();
    let work = async {
        delete_owners(stage, &families, mode).await?;
        if let Some(cascade) = limit {
            cascade.run(&bare).await?;
        }
        anyhow::Ok(())
    };
    let end = async {
        match mode {
            Mode::Background | Mode::Foreground => {
                emptied(client, namespace, owners * (dependents + 1)).await
            }
            Mode::Orphan => last_deleted(watches).await,
        }
    };
    let ((), end) = futures::try_join!(work, end)?;
    let servers = stage.servers_cpu()? - servers;

    let ours = client.sent() - ours;
    let after = match (&collector, before) {
        (Some(process), Some((cpu, before))) => {
            process.quiet().await?;
            let cpu = (process.cpu()? - cpu).as_secs_f64();
            Some(Cost { cpu, before, after: process.memory()? })
        }
        _ => None,
    };
    let requests = (requests::count(client).await?)
        .checked_sub(requests + ours)
        .context("the API server has counted fewer requests than were sent")?;
    verify(stage, namespace, mode, owners * dependents).await?;
    drop(collector);
    if mode == Mode::Orphan {
        clear(client, namespace).await?;
    }
    Ok(Outcome {
        objects: owners * dependents,
        seconds: (end - begun).as_secs_f64(),
        requests,
        servers: servers.as_secs_f64(),
        collector: after,
    })
}

async fn delete_owners(stage: &Stage, families: &[Family], mode: Mode) -> Result<()> {
    stream::iter(families)
        .map(async |family| stage.client.send(family.owner.deletion(mode)).await?.success())
        .buffer_unordered(WORKERS)
        .try_for_each(async |_| Ok(()))
        .await
}

/// Opens a watch for each owner that is deleted while its dependents stay.
async fn watch_owners(stage: &Stage, families: &[Family], mode: Mode) -> Result<Vec<(Watch, String)>> {
    let mut watches = Vec::new();
    if mode == Mode::Orphan {
        for family in families {
            let watch = Watch::object(&stage.client, &family.owner).await?;
            watches.push((watch, family.owner.name.clone()));
        }
    }
    Ok(watches)
}

async fn last_deleted(watches: Vec<(Watch, String)>) -> Result<Instant> {
    let mut last = Instant::now();
    for (mut watch, name) in watches {
        last = last.max(watch.deleted(&name).await?);
    }
    Ok(last)
}

/// Checks that the cascade had the right result. Otherwise its figures would be worthless.
async fn verify(stage: &Stage, namespace: &str, mode: Mode, dependents: usize) -> Result<()> {
    let left = crate::objects::remaining(&stage.client, namespace).await?;
    let expected = if mode == Mode::Orphan { u64::try_from(dependents)? } else { 0 };
    ensure!(left == expected, "{left} objects are left in {namespace}, and not {expected}");
    Ok(())
}
