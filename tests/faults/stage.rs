//! The start of every test in this folder.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::conformance::stage::lives_with;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::proxy::{Exchange, Matcher, Proxy, Request, Verb};
use kube_gc_testkit::{Cluster, Collector, ControlPlane, Ns, Obj, Options, Turn};

/// A fresh namespace of the shared control plane, and a proxy in front of it.
pub struct Stage {
    /// The test's own control plane, which it may end.
    own: Option<ControlPlane>,
    pub cluster: Cluster,
    pub ns: Ns,
    pub proxy: Proxy,
    // Held until the end, because other tests wait for their turn.
    turn: Turn,
}

impl Stage {
    pub async fn set() -> Result<Self> {
        Self::on(None).await
    }

    /// The same with a control plane of its own.
    pub async fn alone() -> Result<Self> {
        Self::on(Some(ControlPlane::start()?)).await
    }

    /// The same on a given plane.
    pub async fn on(own: Option<ControlPlane>) -> Result<Self> {
        // Tests with a control plane of their own wait for a turn, too, because many working
        // control planes are slow.
        let turn = Turn::take().await?;
        let plane = own.as_ref().unwrap_or(turn.plane());
        let cluster = Cluster::new(plane.client().await?);
        let ns = cluster.namespace().await?;
        let proxy = Proxy::start(plane).await?;
        Ok(Self { own, cluster, ns, proxy, turn })
    }

    /// The control plane of this test alone.
    pub fn plane(&self) -> Result<&ControlPlane> {
        self.own.as_ref().context("the plane is everybody's")
    }

    /// The control plane, whoever else uses it.
    pub fn any_plane(&self) -> &ControlPlane {
        self.own.as_ref().unwrap_or(self.turn.plane())
    }

    /// Waits until the API server answers this client again.
    pub async fn answers(&self) -> Result<()> {
        poll("the API server to answer", async || {
            Ok(self.cluster.send("GET", "/api/v1/namespaces/default", None, None).await.is_ok())
        })
        .await
    }

    /// Fails unless each full list since a mark was necessary: one for each watch that was answered
    /// with 410.
    pub fn assert_lists_were_needed(&self, mark: usize) -> Result<()> {
        let mut left = BTreeMap::<String, isize>::new();
        for Exchange { request, status, expired, .. } in self.proxy.since(mark, &Matcher::default()) {
            // A failed list and a further page do not count.
            let is_list = request.verb == Verb::List
                && request.is_full_list()
                && !request.query.contains("continue=")
                && status == Some(200);
            *left.entry(request.resource).or_default() += isize::from(expired) - isize::from(is_list);
        }
        ensure!(left.values().all(|left| *left >= 0), "more lists than expired watches: {left:#?}");
        Ok(())
    }

    /// Starts the collector behind the proxy, and returns when it has seen everything.
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
        requests(self.proxy.all(&Matcher::object(verb, object)))
    }

    /// The only request of a kind about an object's name.
    pub fn only(&self, verb: Verb, object: &Obj) -> Result<Request> {
        let mut all = self.of(verb, object);
        ensure!(all.len() == 1, "{} times {verb:?} of {object}, not once: {all:#?}", all.len());
        all.pop().context("one")
    }

    /// Requests of one kind about this test's namespace.
    pub fn here(&self, verb: Verb) -> Matcher {
        Matcher::verb(verb).within(self.ns.name())
    }

    /// Waits until an object is gone.
    pub async fn gone(&self, object: &Obj) -> Result<()> {
        self.cluster.gone(object).await
    }

    /// Waits until the collector has seen an object at the version that the client got, whatever
    /// else it has to do.
    pub async fn seen(&self, collector: &Collector, object: &Obj) -> Result<()> {
        collector.sees(&object.resource_key(), &object.resource_version).await
    }

    /// Fails unless an object exists and has exactly these owners.
    pub async fn assert_owners(&self, object: &Obj, owners: &[&Obj]) -> Result<()> {
        lives_with(&self.cluster, object, owners).await
    }
}

/// The requests without their answers.
pub fn requests(exchanges: Vec<Exchange>) -> Vec<Request> {
    exchanges.into_iter().map(|exchange| exchange.request).collect()
}

/// A reference to an object that never existed.
pub fn never() -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "never", "uid": "00000000-0000-4000-8000-000000000000" })
}
