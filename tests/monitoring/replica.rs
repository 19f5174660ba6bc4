//! Installations of the collector, each with its own namespace label in Prometheus, and their
//! faults.

use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::prometheus::Target;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::{Collector, Options};

/// The configuration of each: quick to notice changes and to retry.
const COMMON: &str = "[retry]\nmax = \"1s\"\n[discovery]\ninterval = \"1s\"\norphan_wait = \"1s\"\n[startup]\nsync_timeout = \"3s\"\n\
                      [watch]\nmin_backoff = \"100ms\"\nmax_backoff = \"1s\"\n";

/// A replica that can be killed and started again.
#[derive(Debug)]
pub struct Replica {
    namespace: &'static str,
    pod: &'static str,
    kubeconfig: PathBuf,
    options: Options,
    collector: Option<Collector>,
}

impl Replica {
    /// Starts a replica.
    pub async fn start(
        (namespace, pod): (&'static str, &'static str),
        kubeconfig: impl Into<PathBuf>,
        config: &str,
        options: impl FnOnce(&mut Options),
    ) -> Result<Self> {
        let mut set = Options::config(format!("{config}\n{COMMON}"));
        options(&mut set);
        let kubeconfig = kubeconfig.into();
        let mut replica = Self { namespace, pod, kubeconfig, options: set, collector: None };
        replica.start_again().await?;
        Ok(replica)
    }

    /// Starts it again after it was killed.
    pub async fn start_again(&mut self) -> Result<()> {
        let collector = Collector::start_with(&self.kubeconfig, self.options.clone()).await;
        self.collector = Some(collector.with_context(|| format!("{}/{}", self.namespace, self.pod))?);
        Ok(())
    }

    /// Kills it.
    pub fn kill(&mut self) -> Result<()> {
        self.collector.take().map_or(Ok(()), Collector::kill)
    }

    /// Its target in Prometheus. A replica that is not running is unreachable.
    pub fn target(&self) -> Target {
        let address = self.collector.as_ref().map_or("127.0.0.1:1", Collector::health_address).to_owned();
        Target { job: "kube-gc", namespace: self.namespace, pod: self.pod, address }
    }

    /// The value of one series.
    pub async fn value(&self, series: &str) -> Result<f64> {
        let collector = self.collector.as_ref().with_context(|| format!("{} does not run", self.pod))?;
        Ok(collector.metrics().await?.get(series).copied().unwrap_or_default())
    }

    /// Waits until a series has at least this value.
    pub async fn reaches(&self, series: &str, value: f64) -> Result<()> {
        poll(&format!("{series} of {} to be {value}", self.pod), async || {
            Ok(self.value(series).await? >= value)
        })
        .await
    }
}
