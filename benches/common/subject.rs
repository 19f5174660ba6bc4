//! kube-gc as it is released, connected to a feeder.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use kube_gc_testkit::Collector;
use tokio::time::{Instant as Clock, sleep, sleep_until};

use super::cluster::{Cluster, Type};
use super::feeder::Feeder;
use super::{kube_gc, proc};

/// The interval at which a condition is checked.
const POLL: Duration = Duration::from_millis(20);
/// The time limit of every wait.
const LONGEST: Duration = Duration::from_secs(1800);
/// The length of a step at an even rate.
const STEP: Duration = Duration::from_millis(1);

/// A collector with the default configuration, and its feeder.
pub struct Subject {
    pub feeder: Arc<Feeder>,
    pub collector: Collector,
    started: Instant,
    kubeconfig: tempfile::NamedTempFile,
}

/// The cost of a stream of updates.
#[derive(Clone, Copy, Debug)]
pub struct Updates {
    pub count: u64,
    pub seconds: f64,
    /// The CPU time of the collector in seconds.
    pub cpu: f64,
}

impl Subject {
    /// Starts a feeder and a collector.
    pub async fn start(program: &Path, cluster: Cluster) -> Result<Self> {
        let feeder = Feeder::start(cluster).await?;
        let kubeconfig = tempfile::NamedTempFile::new()?;
        std::fs::write(&kubeconfig, feeder.kubeconfig())?;
        let command = kube_gc::command(program, kubeconfig.path());
        let started = Instant::now();
        let collector = Collector::spawn(command, None).await?;
        Ok(Self { feeder, collector, started, kubeconfig })
    }

    /// The file with the address of the feeder.
    pub fn kubeconfig(&self) -> &Path {
        self.kubeconfig.path()
    }

    /// Waits until it has read all types, and returns how long that took since its start.
    pub async fn synced(&self) -> Result<Duration> {
        loop {
            // A busy machine may not let it answer within its own time limit.
            let answer = self.collector.get_debug("/debug/summary").await;
            if answer.as_ref().is_ok_and(|page| page.json().is_ok_and(|page| page["synced"] == true)) {
                break;
            }
            ensure!(self.started.elapsed() < LONGEST, "not synced after {LONGEST:?}: {answer:?}");
            sleep(POLL).await;
        }
        let took = self.started.elapsed();
        let late = self.collector.logged("\"level\":\"WARN\"");
        ensure!(late.is_empty(), "it warns: {late:?}");
        Ok(took)
    }

    /// Waits until it has seen an event and has no work left.
    pub async fn seen(&self, last: Option<(Type, u64)>) -> Result<()> {
        let mut path = "/debug/idle".to_owned();
        if let Some((resource, version)) = last {
            let called = resource.called();
            let dot = if called.group.is_empty() { "" } else { "." };
            path += &format!("?seen={}{dot}{}={version}", called.plural, called.group);
        }
        let began = Instant::now();
        loop {
            let answer = self.collector.get_debug(&path).await?;
            if answer.status == 200 {
                return self.feeder.understood_all();
            }
            ensure!(began.elapsed() < LONGEST, "not idle after {LONGEST:?}: {}", answer.body);
            sleep(POLL).await;
        }
    }

    /// Ten thousand updates a second, of any objects; none changes a reference.
    pub async fn updates(&self, lasting: Duration) -> Result<Updates> {
        const PER_SECOND: f64 = 10_000.0;
        self.costs(async |update: &mut Updated<'_>| {
            let began = Clock::now();
            let mut step = 0;
            loop {
                // By the clock, so that a late step is made up for, even the last one.
                let elapsed = began.elapsed().min(lasting);
                while update.count < (elapsed.as_secs_f64() * PER_SECOND) as u64 {
                    update.next().await;
                }
                if elapsed == lasting {
                    return;
                }
                step += 1;
                sleep_until(began + STEP * step).await;
            }
        })
        .await
    }

    /// As many updates as it can process: the feeder waits for the slowest watch.
    pub async fn as_many_as_possible(&self, count: u64) -> Result<Updates> {
        self.costs(async |update: &mut Updated<'_>| {
            while update.count < count {
                update.next().await;
            }
        })
        .await
    }

    async fn costs(&self, send: impl AsyncFnOnce(&mut Updated<'_>)) -> Result<Updates> {
        self.seen(None).await?;
        let (before, began) = (self.cpu()?, Instant::now());
        let mut updated = Updated { feeder: &self.feeder, count: 0, last: std::collections::BTreeMap::new() };
        send(&mut updated).await;
        for (resource, version) in updated.last {
            self.seen(Some((resource, version))).await?;
        }
        let cpu = (self.cpu()? - before).as_secs_f64();
        Ok(Updates { count: updated.count, seconds: began.elapsed().as_secs_f64(), cpu })
    }

    /// Its CPU time.
    pub fn cpu(&self) -> Result<Duration> {
        proc::cpu(self.collector.pid())
    }

    /// Its memory.
    pub fn memory(&self) -> Result<proc::Memory> {
        proc::memory(self.collector.pid())
    }

    /// Stops it. Fails if it does not end cleanly.
    pub async fn stop(self) -> Result<()> {
        self.feeder.understood_all()?;
        self.collector.stop().await
    }
}

/// The updates so far, and the version of the last one of each type.
struct Updated<'a> {
    feeder: &'a Feeder,
    count: u64,
    last: std::collections::BTreeMap<Type, u64>,
}

impl Updated<'_> {
    async fn next(&mut self) {
        let (resource, version) = self.feeder.update(self.feeder.cluster.any(self.count)).await;
        self.last.insert(resource, version);
        self.count += 1;
    }
}
