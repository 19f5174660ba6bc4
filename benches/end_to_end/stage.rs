//! The place of a measurement: a control plane, and the programs that run on it.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use http::Method;
use serde_json::json;

use crate::arguments::Scale;
use crate::contestants::kube_gc;
use crate::contestants::peer::{self, Peer};
use crate::contestants::process::Process;
use crate::figure::Contestant;
use crate::http::{Call, Client};
use crate::identity::{Credentials, Identity};
use crate::objects::{Mode, make_family};
use crate::observe::Watch;
use crate::proc;
use crate::rest::at_rest;
use kube_gc_testkit::ControlPlane;

/// A little more than the CPU time that idle servers use in 150 ms.
const SERVERS_AT_REST: Duration = Duration::from_millis(30);
/// The time limit for the servers to come to rest.
const DEADLINE: Duration = Duration::from_secs(120);

/// The programs and their identity.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The identity of all of them, and of the limit.
    pub identity: Identity,
    /// kube-gc.
    pub kube_gc: PathBuf,
    /// The peer, unless it takes no part.
    pub peer: Option<Peer>,
}

/// A control plane on which only the row starts programs.
pub struct Stage {
    plane: ControlPlane,
    programs: Programs,
    credentials: Credentials,
    /// The client of the observer, which also creates the objects.
    pub client: Client,
    /// The size of the measurements.
    pub scale: Scale,
    sentinels: Cell<u32>,
}

impl Stage {
    /// Starts a control plane.
    pub async fn start(programs: &Programs, scale: Scale) -> Result<Self> {
        let plane = ControlPlane::start_with(None, &[])?;
        let client = Client::new(plane.info(), &plane.info().token()?)?;
        let credentials = Credentials::of(programs.identity, plane.info(), &client).await?;
        let programs = programs.clone();
        Ok(Self { plane, programs, credentials, client, scale, sentinels: Cell::new(0) })
    }

    /// The release of the API server.
    pub fn version(&self) -> &str {
        &self.plane.info().version
    }

    /// The process ids of the servers.
    pub fn servers(&self) -> Vec<u32> {
        let info = self.plane.info();
        [info.apiserver_pid, info.etcd_pid].into_iter().flatten().collect()
    }

    /// The certificate of the authority that signed the API server's certificate, as PEM.
    pub fn certificates(&self) -> Result<Vec<u8>> {
        let file = self.plane.info().dir.join("ca.crt");
        std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))
    }

    /// The CPU time of the servers so far.
    pub fn servers_cpu(&self) -> Result<Duration> {
        self.servers().into_iter().map(proc::cpu).sum()
    }

    /// Waits until the servers are at rest, after their start and after requests.
    pub async fn servers_at_rest(&self) -> Result<()> {
        let rest = at_rest(|| self.servers_cpu(), SERVERS_AT_REST, DEADLINE).await;
        rest.context("the servers do not come to rest")
    }

    /// Makes the API server collect its garbage, so that a turn does not contain the cost of
    /// garbage from earlier turns. The garbage of a contestant remains part of its turn.
    ///
    /// # Errors
    ///
    /// The API server does not allow profiling.
    pub async fn collect_garbage(&self) -> Result<()> {
        // On request, Go collects garbage before it answers with the heap profile.
        self.client.send(Call::get("/debug/pprof/heap?gc=1")).await?.success()?;
        Ok(())
    }

    /// A client of the limit's own.
    pub fn another_client(&self) -> Result<Client> {
        Client::new(self.plane.info(), &self.credentials.token)
    }

    /// Starts a collector; `None` for the limit.
    pub fn start_collector(&self, contestant: Contestant) -> Result<Option<Process>> {
        let kubeconfig = &self.credentials.kubeconfig;
        let command = match (contestant, &self.programs.peer) {
            (Contestant::Limit, _) => return Ok(None),
            (Contestant::Peer, Some(peer)) => peer.command(kubeconfig)?,
            (Contestant::Peer, None) => bail!("there is no peer"),
            (Contestant::KubeGc, _) => kube_gc::command(&self.programs.kube_gc, kubeconfig),
        };
        Process::start(&command).map(Some)
    }

    /// Starts a collector, and waits until it knows all objects and is at rest.
    pub async fn collector_at_rest(
        &self,
        contestant: Contestant,
        namespace: &str,
    ) -> Result<Option<Process>> {
        let Some(process) = self.start_collector(contestant)? else { return Ok(None) };
        process.logged(is_synced(contestant)).await?;
        self.settle(&process, namespace).await?;
        Ok(Some(process))
    }

    /// Starts two replicas of kube-gc, the leader first, and waits until both know all objects
    /// and the second one is at rest.
    pub async fn replicas_at_rest(&self, namespace: &str) -> Result<(Process, Process)> {
        // The role of the cluster's own collector may change a Lease, but not create one.
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "kube-gc"},
        });
        self.client.send(Call::with(Method::POST, path, &lease)).await?.success()?;
        let start = || {
            let kubeconfig = &self.credentials.kubeconfig;
            Process::start(&kube_gc::replica(&self.programs.kube_gc, kubeconfig, namespace))
        };
        let leader = start()?;
        leader.logged(kube_gc::leads).await?;
        leader.logged(kube_gc::is_synced).await?;
        let standby = start()?;
        standby.logged(kube_gc::is_synced).await?;
        self.settle(&standby, namespace).await?;
        Ok((leader, standby))
    }

    /// Waits until a collector has processed everything so far and is at rest.
    ///
    /// A small cascade in the same namespace comes last. When it is complete, the collector has
    /// seen everything before it, because a watch delivers events in order.
    pub async fn settle(&self, collector: &Process, namespace: &str) -> Result<()> {
        let number = self.sentinels.get();
        self.sentinels.set(number + 1);
        let family = make_family(&self.client, namespace, &format!("sentinel-{number}"), 1).await?;
        for dependent in &family.dependents {
            let mut watch = Watch::object(&self.client, dependent).await?;
            self.client.send(family.owner.deletion(Mode::Background)).await?.success()?;
            watch.deleted(&dependent.name).await?;
        }
        collector.quiet().await
    }
}

/// The log line of a collector that knows all objects.
pub fn is_synced(contestant: Contestant) -> fn(&str) -> bool {
    match contestant {
        Contestant::Limit => |_| true,
        Contestant::Peer => peer::is_synced,
        Contestant::KubeGc => kube_gc::is_synced,
    }
}
