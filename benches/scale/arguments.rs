//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};

use crate::feeder::WatchEncoding;

/// Measures the memory, time and CPU that kube-gc takes for a large cluster.
///
/// A feeder inside this program replaces the API server. It serves any number of objects in the
/// shape of a real cluster, and stores none of them. The tables go to standard output, progress
/// to standard error. docs/scale.md explains how to read them. The exit code is 0 if everything
/// was measured, whether or not the goals are met.
#[derive(Debug, Parser)]
#[command(name = "scale", bin_name = "cargo bench --bench scale --")]
pub struct Arguments {
    /// The sizes of the clusters in objects, separated by commas; events and churn are measured
    /// with the last one
    #[arg(long, value_delimiter = ',', value_name = "COUNT", default_value = "10000,100000,1000000")]
    pub objects: Vec<u64>,

    /// Add a cluster of 5,000,000 objects
    #[arg(long)]
    pub full: bool,

    /// Small clusters and short times, to see that everything works
    #[arg(long, conflicts_with_all = ["objects", "full"])]
    pub quick: bool,

    /// The parts to measure, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "PART", value_enum, default_values_t = Part::ALL)]
    pub parts: Vec<Part>,

    /// How long to create and delete pods
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, default_value = "2m")]
    pub churn: Duration,

    /// The partitions of the graph [default: one for each core, at most 8]
    #[arg(long, value_name = "COUNT")]
    pub partitions: Option<u16>,

    /// The encoding of watches
    #[arg(long, value_name = "ENCODING", value_enum, default_value_t)]
    pub watch_encoding: WatchEncoding,

    /// The kube-gc to measure [default: the one that `cargo build --release --locked --bin
    /// kube-gc` builds]
    #[arg(long, value_name = "PATH")]
    pub kube_gc: Option<PathBuf>,

    /// The file for all figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// `cargo bench` passes this to every benchmark.
    #[arg(long = "bench", hide = true)]
    pub by_cargo: bool,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Clusters of several sizes: from start to all types read
    Sizes,
    /// 10,000 updates a second that do not matter to a garbage collector
    Updates,
    /// As many events as kube-gc can process
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

/// The size of the measurements.
#[derive(Clone, Debug)]
pub struct Scale {
    /// The sizes of the clusters, ascending.
    pub sizes: Vec<u64>,
    /// The cluster in which growth is measured.
    pub growth: u64,
    /// How long there are updates.
    pub updates: Duration,
    /// The number of events at saturation.
    pub saturation: u64,
    /// How long there is churn.
    pub churn: Duration,
    /// How long memory is observed after a namespace was deleted.
    pub after: Duration,
}

impl Arguments {
    /// The size of the measurements.
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

    /// The cluster in which events and churn are measured.
    pub fn main_size(&self, scale: &Scale) -> Option<u64> {
        let sizes = if self.quick { &scale.sizes } else { &self.objects };
        sizes.last().copied()
    }

    /// Whether a part is measured.
    pub fn has(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }
}
