//! What every test here begins with.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tokio::sync::MutexGuard;

use crate::support::cluster::poll;
use crate::support::proxy::{Exchange, On, Proxy, Request, Verb};
use crate::support::{Cluster, Collector, ControlPlane, Ns, Obj, Options};

/// A fresh namespace of the shared control plane, and a proxy in front of it.
#[derive(Debug)]
pub struct Stage {
    pub cluster: Cluster,
    pub ns: Ns,
    pub proxy: Proxy,
    // Other tests wait for it.
    _turn: MutexGuard<'static, ()>,
}

impl Stage {
    pub async fn set() -> Result<Self> {
        let plane = ControlPlane::shared()?;
        let turn = plane.exclusive().await;
        let cluster = Cluster::new(plane.client().await?);
        let ns = cluster.namespace().await?;
        let proxy = Proxy::start(plane).await?;
        Ok(Self { cluster, ns, proxy, _turn: turn })
    }

    /// Starts the collector behind the proxy, and returns when it has seen all
    /// there is.
    pub async fn collector(&self) -> Result<Collector> {
        self.collector_with(Options::default()).await
    }

    pub async fn collector_with(&self, options: Options) -> Result<Collector> {
        let collector = Collector::start_with(self.proxy.kubeconfig(), options).await?;
        collector.ready().await?;
        self.cluster.settled(&collector).await?;
        Ok(collector)
    }

    /// The requests of one kind about an object's name.
    pub fn of(&self, verb: Verb, object: &Obj) -> Vec<Request> {
        requests(self.proxy.all(&On::object(verb, object)))
    }

    /// The only request of a kind about an object's name.
    pub fn only(&self, verb: Verb, object: &Obj) -> Result<Request> {
        let mut all = self.of(verb, object);
        ensure!(all.len() == 1, "{} times {verb:?} of {object}, not once: {all:#?}", all.len());
        all.pop().context("one")
    }

    /// Requests of one kind about this test's namespace.
    pub fn here(&self, verb: Verb) -> On {
        On::verb(verb).within(self.ns.name())
    }

    /// Waits until an object is gone.
    pub async fn gone(&self, object: &Obj) -> Result<()> {
        poll(&format!("{object} to go"), async || Ok(!self.cluster.exists_with_uid(object).await?)).await
    }

    /// Waits until the collector has seen an object as it was answered, whatever
    /// else it has to do.
    pub async fn seen(&self, collector: &Collector, object: &Obj) -> Result<()> {
        let path = format!("/debug/idle?seen={}%3D{}", object.resource_key(), object.resource_version);
        poll(&format!("{object} to be seen"), async || {
            let report = collector.get_debug(&path).await?.json()?;
            Ok(report["not_seen"].as_array().is_some_and(Vec::is_empty))
        })
        .await
    }

    /// Fails unless an object exists and has exactly these owners.
    pub async fn assert_owners(&self, object: &Obj, owners: &[&Obj]) -> Result<()> {
        let now = self.cluster.fresh(object).await?;
        let expected: Vec<&str> = owners.iter().map(|owner| owner.uid.as_str()).collect();
        ensure!(now.owner_uids() == expected, "{object} has other owners than {expected:?}: {}", now.raw);
        ensure!(!now.is_terminating(), "{object} is being deleted");
        Ok(())
    }
}

/// The requests alone.
pub fn requests(exchanges: Vec<Exchange>) -> Vec<Request> {
    exchanges.into_iter().map(|exchange| exchange.request).collect()
}

/// A reference to an object that there never was.
pub fn never() -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "never", "uid": "00000000-0000-4000-8000-000000000000" })
}
