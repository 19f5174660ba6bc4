//! Uids in references are arbitrary text. Uids that collide in a table with a public hash cost no
//! more than others.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use crate::faults::stage::Stage;
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::{Collector, Options, Policy};

kube_gc_testkit::scenarios! {
    crafted_uids_cost_no_more_than_random_ones_and_delay_no_other_object(threaded),
}

/// The number of objects with crafted references, and of references on each: as many as fit.
const OBJECTS: u64 = 10;
const REFERENCES: u64 = 8_000;
/// No retries during the measurement. They would cost the same for any uids.
const ONCE: &str = "[retry]\nmin = \"10m\"\nmax = \"10m\"\n";

async fn crafted_uids_cost_no_more_than_random_ones_and_delay_no_other_object() -> Result<()> {
    let stage = Stage::set().await?;
    let usual =
        cost(&stage, |number| format!("{:08x}-0000-4000-8000-{:012x}", spread(number), number)).await?;
    for (family, make) in [
        ("beginning", (|number| format!("082efa98-ec4e-6c89-8000-{number:012x}")) as fn(u64) -> String),
        ("ending", |number| format!("{:08x}-{:04x}-4000-c0ac-29b7c97c50dd", spread(number), number >> 8)),
    ] {
        let cost = cost(&stage, make).await?;
        eprintln!("{cost} ticks of CPU for uids with a common {family}, {usual} for random ones");
        // A busy machine may add a second to either.
        ensure!(cost <= 2 * usual + 100, "{cost} ticks of CPU for a common {family}, {usual} usually");
    }
    Ok(())
}

/// The CPU time of a collector, in hundredths of a second, for such objects and a cascade in
/// another namespace.
async fn cost(stage: &Stage, uid: impl Fn(u64) -> String) -> Result<u64> {
    let collector = stage.collector_with(Options::config(ONCE)).await?;
    let (tenant, other) = (stage.cluster.namespace().await?, stage.cluster.namespace().await?);
    let owner = other.configmap("owner").create().await?;
    let dependents =
        create_all((0..10).map(|number| other.configmap(format!("dependent-{number}")).owned_by(&owner)))
            .await?;
    let before = ticks(&collector)?;
    let mut fat = Vec::new();
    for object in 0..OBJECTS {
        let numbers = object * REFERENCES..(object + 1) * REFERENCES;
        let references = numbers
            .map(|number| json!({ "apiVersion": "v1", "kind": "Nobody", "name": "n", "uid": uid(number) }));
        let builder = tenant.configmap(format!("fat-{object}"));
        fat.push(
            references
                .fold(builder, |builder, reference| builder.owner_reference(reference))
                .create()
                .await?,
        );
    }
    stage.cluster.delete(&owner, Policy::Background).await?;
    for object in dependents.iter().chain([&owner]) {
        stage.gone(object).await?;
    }
    for object in &fat {
        stage.seen(&collector, object).await?;
    }
    poll("all references to be known", async || {
        Ok(collector.metric("kube_gc_graph_edges").await? >= (OBJECTS * REFERENCES) as f64)
    })
    .await?;
    let cost = ticks(&collector)? - before;
    stage.cluster.assert_kept(&fat).await?;
    stage.cluster.delete_all(&fat, Policy::Background).await?;
    collector.stop().await?;
    Ok(cost)
}

/// The CPU time of the process so far.
fn ticks(collector: &Collector) -> Result<u64> {
    let path = Path::new("/proc").join(collector.pid().to_string()).join("stat");
    let text = std::fs::read_to_string(path)?;
    // The name of the command, in parentheses, may contain any characters.
    let (_, fields) = text.rsplit_once(')').context("no command")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let field = |index: usize| -> Result<u64> { Ok(fields.get(index).context("no such field")?.parse()?) };
    Ok(field(11)? + field(12)?)
}

/// Eight digits that differ in all places.
fn spread(number: u64) -> u64 {
    number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}
