//! A collector on an embedded server, and objects to look at.

use anyhow::{Context as _, Result};
use kube_gc_apiserver::Release;

use crate::gate::Gate;
use kube_gc_testkit::{Cluster, Collector, ControlPlane, Ns, Obj, Options};

/// A server, a collector, and the way to its page.
pub struct Stage {
    /// The server.
    pub plane: ControlPlane,
    /// A client of it.
    pub cluster: Cluster,
    /// A namespace.
    pub namespace: Ns,
    /// The collector.
    pub collector: Collector,
    /// The way of the browser to the collector.
    pub gate: Gate,
}

impl Stage {
    /// Starts everything.
    pub async fn start() -> Result<Self> {
        Self::start_with(Options::default()).await
    }

    /// The same, with options of the collector.
    pub async fn start_with(options: Options) -> Result<Self> {
        let plane = ControlPlane::start_embedded(Release::V1_36)?;
        let cluster = Cluster::new(plane.client().await?);
        let namespace = cluster.namespace().await?;
        let collector = Collector::start_with(plane.kubeconfig(), options).await?;
        collector.ready().await?;
        let gate = Gate::open(collector.debug_address()).await?;
        Ok(Self { plane, cluster, namespace, collector, gate })
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
        self.collector.stop().await.context("the collector")
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
