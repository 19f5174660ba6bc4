//! Growth of the cost with references, types and partitions.

use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use super::sizes::{Size, size};
use crate::cluster::{BLOCK, Cluster, Custom};
use crate::subject::{GraphThreads, Setup, Subject};

/// One step of growth.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Growth {
    /// What grows.
    pub of: &'static str,
    /// How much of it there is.
    pub count: u64,
    pub size: Size,
}

/// Measures clusters of this many objects, half of which are of custom types.
pub async fn growth(program: &Path, objects: u64, told: impl Fn(&Growth)) -> Result<Vec<Growth>> {
    let cluster = |types, owners| Cluster {
        blocks: objects / 2 / BLOCK,
        merged: 0,
        custom: Custom { types, objects: objects / 2, owners },
    };
    let mut all = Vec::new();
    let runs = [0, 1, 2, 4, 8].map(|owners| ("references", owners, cluster(10, owners), None));
    let runs = runs
        .into_iter()
        .chain([1, 10, 100, 500].map(|types| ("types", types as u64, cluster(types, 1), None)));
    let runs = runs.chain(
        [1, 2, 4, 8, 16].map(|count| ("partitions", u64::from(count), Cluster::of(objects), Some(count))),
    );
    for (of, count, cluster, partitions) in runs {
        let setup = Setup { partitions, graph: GraphThreads::Own, ..Setup::default() };
        let subject = Subject::start(program, cluster, setup).await?;
        let measured = Growth { of, count, size: size(&subject).await? };
        subject.stop().await?;
        told(&measured);
        all.push(measured);
    }
    Ok(all)
}
