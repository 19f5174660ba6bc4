//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};

use crate::feeder::WatchEncoding;

/// Measures what kube-gc takes for a large cluster: memory, time and CPU.
///
/// A feeder inside this program takes the place of the API server. It serves as many objects
/// as are asked for, in the shape of a real cluster, and remembers none of them. The tables go
/// to standard output, progress to standard error. docs/scale.md says how to read them. The
/// exit code is 0 when everything was measured, whatever came of it.
#[derive(Debug, Parser)]
#[command(name = "scale", bin_name = "cargo bench --bench scale --")]
pub struct Arguments {
    /// Clusters of so many objects, separated by commas; the last one is what events and churn
    /// are measured with
    #[arg(long, value_delimiter = ',', value_name = "COUNT", default_value = "10000,100000,1000000")]
    pub objects: Vec<u64>,

    /// A cluster of 5,000,000 objects in addition
    #[arg(long)]
    pub full: bool,

    /// Small clusters and short times: to see that it works, not to judge by
    #[arg(long, conflicts_with_all = ["objects", "full"])]
    pub quick: bool,

    /// What to measure, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "PART", value_enum, default_values_t = Part::ALL)]
    pub parts: Vec<Part>,

    /// How long to create and delete pods
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, default_value = "2m")]
    pub churn: Duration,

    /// Partitions of the graph [default: one for each core, at most 8]
    #[arg(long, value_name = "COUNT")]
    pub partitions: Option<u16>,

    /// The encoding of watches
    #[arg(long, value_name = "ENCODING", value_enum, default_value_t)]
    pub watch_encoding: WatchEncoding,

    /// The kube-gc to measure; by default the one that
    /// `cargo build --release --locked --bin kube-gc` makes
    #[arg(long, value_name = "PATH")]
    pub kube_gc: Option<PathBuf>,

    /// Where all figures go as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Where pictures of them go, as SVG; docs/scale in the repository
    #[arg(long, value_name = "DIRECTORY")]
    pub plots: Option<PathBuf>,

    /// What `cargo bench` says to every benchmark.
    #[arg(long = "bench", hide = true)]
    pub by_cargo: bool,
}

/// Something to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Clusters of several sizes: from start to all types read
    Sizes,
    /// 10,000 updates a second that change nothing for a garbage collector
    Updates,
    /// As many events as the program can take
    Saturation,
    /// 500 pods created and 500 deleted a second
    Churn,
    /// A namespace with half of all objects is deleted
    Namespace,
    /// More references of each object, more types, more partitions
    Growth,
}

impl Part {
    const ALL: [Self; 6] =
        [Self::Sizes, Self::Updates, Self::Saturation, Self::Churn, Self::Namespace, Self::Growth];
}

/// How much of everything.
#[derive(Clone, Debug)]
pub struct Scale {
    /// The sizes of the clusters, ascending.
    pub sizes: Vec<u64>,
    /// The cluster that growth is measured with.
    pub growth: u64,
    /// For how long there are updates.
    pub updates: Duration,
    /// How many events there are at saturation.
    pub saturation: u64,
    /// For how long there is churn.
    pub churn: Duration,
    /// For how long memory is looked at after a namespace was deleted.
    pub after: Duration,
}

impl Arguments {
    /// How much of everything.
    pub fn scale(&self) -> Result<Scale> {
        if self.quick {
            let short = Duration::from_secs(5);
            return Ok(Scale {
                sizes: vec![2000, 20_000],
                growth: 10_000,
                updates: short,
                saturation: 50_000,
                churn: short,
                after: short,
            });
        }
        let mut sizes = self.objects.clone();
        if sizes.iter().any(|&size| size < crate::cluster::BLOCK) {
            bail!("a cluster has at least {} objects", crate::cluster::BLOCK);
        }
        sizes.extend(self.full.then_some(5_000_000));
        Ok(Scale {
            sizes,
            growth: 100_000,
            updates: Duration::from_secs(30),
            saturation: 2_000_000,
            churn: self.churn,
            after: Duration::from_secs(60),
        })
    }

    /// The cluster that events and churn are measured with.
    pub fn main_size(&self, scale: &Scale) -> Option<u64> {
        let sizes = if self.quick { &scale.sizes } else { &self.objects };
        sizes.last().copied()
    }

    /// Whether something is to be measured.
    pub fn has(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }
}
