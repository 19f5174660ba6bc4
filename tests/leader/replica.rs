//! A replica behind a proxy.

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::leader::election::Write;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::proxy::Proxy;
use kube_gc_testkit::{Cluster, Collector, ControlPlane, Ns, Options, Turn};

/// The environment of a scenario.
pub struct Stage {
    pub plane: &'static ControlPlane,
    pub cluster: Cluster,
    /// The namespace of the Lease and the objects.
    pub ns: Ns,
    _turn: Turn,
}

/// A replica.
pub struct Replica {
    pub name: String,
    pub proxy: Proxy,
    pub collector: Collector,
}

impl Stage {
    pub async fn set() -> Result<Self> {
        let turn = Turn::take().await?;
        let plane = turn.plane();
        let cluster = Cluster::new(plane.client().await?);
        let ns = cluster.namespace().await?;
        Ok(Self { plane, cluster, ns, _turn: turn })
    }

    /// Starts a replica, and waits until it is ready, which a standby is, too.
    pub async fn replica(&self, name: &str) -> Result<Replica> {
        let replica = Replica::start(self.plane, name, self.ns.name()).await?;
        replica.collector.ready().await?;
        Ok(replica)
    }
}

impl Replica {
    /// Starts a replica with its Lease in this namespace. It writes slowly, so that it can be
    /// interrupted in the middle of its work.
    pub async fn start(plane: &ControlPlane, name: &str, namespace: &str) -> Result<Self> {
        let slow = Options::config("[client]\nqps = 40\nburst = 1\n");
        Self::start_with(plane, name, namespace, slow).await
    }

    /// Starts a replica with these options, beside those of every replica.
    pub async fn start_with(
        plane: &ControlPlane,
        name: &str,
        namespace: &str,
        mut options: Options,
    ) -> Result<Self> {
        let proxy = Proxy::start(plane).await?;
        options.config = Some(format!(
            "[leader]\nenabled = true\nnamespace = \"{namespace}\"\nidentity = \"{name}\"\n\
             lease_duration = \"5s\"\nrenew_deadline = \"3s\"\nretry_period = \"400ms\"\n\
             [watch]\nmin_backoff = \"50ms\"\nmax_backoff = \"200ms\"\n\
             [log]\nfilter = \"info,kube_gc_client::write_gate=debug\"\n{}",
            options.config.unwrap_or_default()
        ));
        let collector = Collector::start_with(proxy.kubeconfig(), options).await?;
        Ok(Self { name: name.to_owned(), proxy, collector })
    }

    /// The line of `/readyz?verbose` about leadership. The page reports that it is ready.
    pub async fn leadership(&self) -> Result<String> {
        let page = self.collector.get("/readyz?verbose").await?;
        let line = page.body.lines().find(|line| line.contains("leadership")).unwrap_or_default();
        ensure!(page.status == 200, "{} is not ready: {}", self.name, page.body);
        Ok(line.to_owned())
    }

    /// Waits until its page says this about leadership.
    async fn reports(&self, expected: &str) -> Result<()> {
        let what = format!("{} to report {expected}", self.name);
        poll(&what, async || Ok(self.leadership().await.is_ok_and(|line| line.starts_with(expected)))).await
    }

    /// Waits until it reports that it leads.
    pub async fn leads(&self) -> Result<()> {
        self.reports("[+]leadership: leader ok").await
    }

    /// Waits until it reports that it is a standby of this leader.
    pub async fn stands_by(&self, leader: &str) -> Result<()> {
        self.reports(&format!("[+]leadership: standby of {leader}_")).await
    }

    /// All writes that it has sent so far.
    pub fn writes(&self) -> Result<Vec<Write>> {
        let lines = self.collector.logged("write is sent");
        lines.iter().map(|line| Write::read(&self.name, &serde_json::from_str::<Value>(line)?)).collect()
    }

    /// Waits until it has sent this many more writes than at that time.
    pub async fn has_written(&self, more: usize, before: usize) -> Result<()> {
        poll(&format!("{} to write {more} times", self.name), async || {
            Ok(self.writes()?.len() >= before + more)
        })
        .await
    }
}
