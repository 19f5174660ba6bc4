//! A collector on an embedded server, and objects to look at.

use std::time::SystemTime;

use anyhow::{Context as _, Result};
use kube::Client;
use kube_gc_apiserver::{ApiServer, Scheme, Serving, Settings};
use tempfile::TempDir;

use crate::gate::Gate;
use kube_gc_testkit::{Cluster, Collector, Ns, Obj, Options, config_of};

/// A server, a collector, and the way to its page.
pub struct Stage {
    /// The server.
    pub server: ApiServer,
    /// A client of it.
    pub cluster: Cluster,
    /// A namespace.
    pub namespace: Ns,
    /// The collector.
    pub collector: Collector,
    /// The way of the browser to the collector.
    pub gate: Gate,
    serving: Serving,
    _directory: TempDir,
}

impl Stage {
    /// Starts everything.
    pub async fn start() -> Result<Self> {
        Self::start_with(Options::default()).await
    }

    /// The same, with options of the collector.
    pub async fn start_with(options: Options) -> Result<Self> {
        let server = ApiServer::new(Settings { epoch: SystemTime::now(), ..Settings::default() });
        let serving = server.serve(([127, 0, 0, 1], 0).into(), Scheme::Http).await?;
        let directory = TempDir::new()?;
        let kubeconfig = directory.path().join("kubeconfig");
        std::fs::write(&kubeconfig, serving.kubeconfig())?;
        let cluster = Cluster::new(Client::try_from(config_of(&kubeconfig).await?)?);
        let namespace = cluster.namespace().await?;
        let collector = Collector::start_with(&kubeconfig, options).await?;
        collector.ready().await?;
        let gate = Gate::open(collector.debug_address()).await?;
        Ok(Self { server, cluster, namespace, collector, gate, serving, _directory: directory })
    }

    /// The address of the page.
    pub fn url(&self) -> String {
        format!("{}/", self.gate.url())
    }

    /// The address of an object's page.
    pub fn page_of(&self, object: &Obj) -> String {
        format!("{}?{}", self.url(), query_of(object))
    }

    /// A ConfigMap `shop` that owns `parts` ConfigMaps and a Secret `key` that does not block.
    pub async fn shop(&self, parts: usize) -> Result<Shop> {
        let root = self.namespace.configmap("shop").create().await?;
        let key = self.namespace.secret("key").owned_by(&root).create().await?;
        let mut created = Vec::new();
        for part in 0..parts {
            let name = format!("part-{part:03}");
            created.push(self.namespace.configmap(name).owned_by(&root).blocking().create().await?);
        }
        Ok(Shop { root, key, parts: created })
    }

    /// Ends everything. Dropping it would print the log of the collector.
    pub async fn end(self) -> Result<()> {
        let Self { collector, serving, .. } = self;
        collector.stop().await.context("the collector")?;
        serving.stop().await;
        Ok(())
    }
}

/// The query string of an object's page.
pub fn query_of(object: &Obj) -> String {
    let resource = match object.resource.group.as_str() {
        "" => object.resource.plural.clone(),
        group => format!("{}.{group}", object.resource.plural),
    };
    format!("uid={}&resource={resource}", object.uid)
}

/// Objects to look at.
pub struct Shop {
    /// The owner.
    pub root: Obj,
    /// A dependent that does not block.
    pub key: Obj,
    /// Dependents that block.
    pub parts: Vec<Obj>,
}
