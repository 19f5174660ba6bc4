//! A small cascade that begins during a large one in another namespace.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::time::sleep;

use crate::figure::{Contestant, Figure, Target};
use crate::objects::{Mode, clear, make_family, make_namespace, remaining};
use crate::observe::emptied;
use crate::row::{Measured, Row};
use crate::stage::Stage;

/// The number of dependents of the small one.
const SMALL: usize = 10;

/// The number of dependents of the large one: 10,000 at the usual size.
const fn large(objects: usize) -> usize {
    objects * 5 / 2
}

/// The delay of the small one: 2 s at the usual size, and never so late that the large one is
/// over.
const fn later(objects: usize) -> Duration {
    Duration::from_millis(objects as u64 / 2)
}

/// The row.
pub const ROW: Row = Row {
    name: "fairness",
    about: |objects| {
        let later = later(objects).as_secs_f64();
        format!("{SMALL}-object cascade {later} s into one of {}", large(objects))
    },
    figures: &[Figure {
        key: "seconds",
        title: "done after",
        unit: "s",
        digits: 3,
        targets: &[Target::AtMost(1.0)],
    }],
    contestants: &[Contestant::Peer, Contestant::KubeGc],
    prepare: None,
    measure: |stage, contestant, namespace| Box::pin(measure(stage, contestant, namespace)),
};

async fn measure(stage: &Stage, contestant: Contestant, namespace: &str) -> Result<Measured> {
    let client = &stage.client;
    let other = format!("{namespace}-small");
    make_namespace(client, &other).await?;
    let size = large(stage.scale.objects);
    let large = make_family(client, namespace, "large", size).await?;
    let small = make_family(client, &other, "small", SMALL).await?;
    let collector = stage.collector_at_rest(contestant, namespace).await?;

    client.send(large.owner.deletion(Mode::Background)).await?.success()?;
    sleep(later(stage.scale.objects)).await;
    let left = remaining(client, namespace).await?;
    ensure!(left > 0, "all {size} objects were gone before the small cascade began");
    let begun = Instant::now();
    client.send(small.owner.deletion(Mode::Background)).await?.success()?;
    let end = emptied(client, &other, SMALL + 1).await?;

    // No garbage may be left for the next contestant.
    drop(collector);
    clear(client, namespace).await?;
    Ok(vec![("seconds", (end - begun).as_secs_f64())])
}
