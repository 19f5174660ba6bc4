//! Cascades of one object each, one after another: the reaction time of an idle collector.

use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::time::sleep;

use crate::contestants::kube_gc::{metrics, metrics_address};
use crate::contestants::limit::deletion;
use crate::contestants::process::Process;
use crate::figure::{Contestant, Figure, Target};
use crate::objects::{Family, Mode, make_family};
use crate::observe::Watch;
use crate::pages::buckets;
use crate::row::{Measured, Row};
use crate::stage::{Stage, is_synced};
use crate::statistics::{bucket_of_percentile, percentile};

/// The pause between two cascades, so that each one begins when everything is idle.
const PAUSE: Duration = Duration::from_millis(25);
/// kube-gc's own measurement.
const HISTOGRAM: &str = "kube_gc_deletion_lag_seconds";

/// The number of cascades: 200 at the usual size.
const fn cascades(objects: usize) -> usize {
    objects / 20
}

const fn milliseconds(
    key: &'static str,
    title: &'static str,
    digits: usize,
    targets: &'static [Target],
) -> Figure {
    Figure { key, title, unit: "ms", digits, targets }
}

/// The row.
pub const ROW: Row = Row {
    name: "latency",
    about: |objects| format!("latency, idle, {} cascades of one object", cascades(objects)),
    figures: &[
        milliseconds("p50", "owner's to dependent's DELETED event, p50", 2, &[]),
        milliseconds("p99", "owner's to dependent's DELETED event, p99", 2, &[]),
        milliseconds("own_p50", "event to DELETE on the wire, p50, at most", 2, &[Target::AtMost(1.0)]),
        milliseconds("own_p99", "event to DELETE on the wire, p99, at most", 2, &[Target::AtMost(5.0)]),
    ],
    contestants: &Contestant::ALL,
    prepare: None,
    measure: |stage, contestant, namespace| Box::pin(measure(stage, contestant, namespace)),
};

async fn measure(stage: &Stage, contestant: Contestant, namespace: &str) -> Result<Measured> {
    let mut families = Vec::new();
    for number in 0..cascades(stage.scale.objects) {
        families.push(make_family(&stage.client, namespace, &format!("owner-{number:04}"), 1).await?);
    }
    let collector = stage.start_collector(contestant)?;
    let mut own = None;
    if let Some(process) = &collector {
        process.logged(is_synced(contestant)).await?;
        stage.settle(process, namespace).await?;
        if contestant == Contestant::KubeGc {
            own = Some(Own::begin(process).await?);
        }
    }
    let times = cascade_by_cascade(stage, contestant, namespace, &families).await?;
    let of = |percent| percentile(&times, percent).context("no cascade");
    let mut measured = vec![("p50", of(50)?), ("p99", of(99)?)];
    if let Some(own) = own {
        measured.extend(own.end().await?);
    }
    Ok(measured)
}

/// The milliseconds of each cascade, between two events on a watch of the benchmark.
async fn cascade_by_cascade(
    stage: &Stage,
    contestant: Contestant,
    namespace: &str,
    families: &[Family],
) -> Result<Vec<f64>> {
    let bare = stage.another_client()?;
    bare.warm_up(1).await?;
    let mut watch = Watch::namespace(&stage.client, namespace).await?;
    let mut times = Vec::new();
    for family in families {
        let dependent = family.dependents.first().context("no dependent")?;
        let call = (contestant == Contestant::Limit).then(|| deletion(dependent));
        let delete = async {
            stage.client.send(family.owner.deletion(Mode::Background)).await?.success()?;
            anyhow::Ok(())
        };
        let cascade = async {
            let begun = watch.deleted(&family.owner.name).await?;
            let react = async {
                if let Some(call) = call {
                    bare.send(call).await?.success()?;
                }
                anyhow::Ok(())
            };
            let ((), end) = futures::try_join!(react, watch.deleted(&dependent.name))?;
            anyhow::Ok((end - begun).as_secs_f64() * 1e3)
        };
        let ((), time) = futures::try_join!(delete, cascade)?;
        times.push(time);
        sleep(PAUSE).await;
    }
    Ok(times)
}

/// kube-gc's own measurement, from reading the owner's event to passing the DELETE to the
/// transport.
struct Own {
    address: String,
    before: Vec<(f64, f64)>,
}

impl Own {
    async fn begin(process: &Process) -> Result<Self> {
        let (_, line) = process.logged(|line| metrics_address(line).is_some()).await?;
        let address = metrics_address(&line).context("no address")?;
        let before = buckets(&metrics(&address).await?, HISTOGRAM);
        Ok(Self { address, before })
    }

    async fn end(self) -> Result<Measured> {
        let after = buckets(&metrics(&self.address).await?, HISTOGRAM);
        let since = after.iter().map(|(bound, count)| {
            let before = self.before.iter().find(|(other, _)| other == bound);
            (*bound, count - before.map_or(0.0, |(_, count)| *count))
        });
        let since: Vec<_> = since.collect();
        let of = |percent| bucket_of_percentile(&since, percent).context("kube-gc has measured nothing");
        Ok(vec![("own_p50", of(50.0)? * 1e3), ("own_p99", of(99.0)? * 1e3)])
    }
}
