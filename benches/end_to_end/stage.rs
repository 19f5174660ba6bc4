//! Where a row is measured: a control plane, and the programs that can be started on it.

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

/// What the servers take in 150 ms when nobody asks anything of them, and some more.
const SERVERS_AT_REST: Duration = Duration::from_millis(30);
/// How long they may take to come to rest.
const DEADLINE: Duration = Duration::from_secs(120);

/// The programs, and who they are to the API server.
#[derive(Clone, Debug)]
pub struct Programs {
    /// All of them, and the limit.
    pub identity: Identity,
    /// kube-gc.
    pub kube_gc: PathBuf,
    /// The peer, unless it is left out.
    pub peer: Option<Peer>,
}

/// A control plane, with nobody on it who was not started by the row.
pub struct Stage {
    plane: ControlPlane,
    programs: Programs,
    credentials: Credentials,
    /// The observer's connections, which also make the objects.
    pub client: Client,
    /// How large things are.
    pub scale: Scale,
    sentinels: Cell<u32>,
}

impl Stage {
    /// With a control plane of its own.
    pub async fn start(programs: &Programs, scale: Scale) -> Result<Self> {
        let plane = ControlPlane::start_with(None, &[])?;
        let client = Client::new(plane.info(), None)?;
        let credentials = Credentials::of(programs.identity, plane.info(), &client).await?;
        let programs = programs.clone();
        Ok(Self { plane, programs, credentials, client, scale, sentinels: Cell::new(0) })
    }

    /// The API server's release.
    pub fn version(&self) -> &str {
        &self.plane.info().version
    }

    /// The servers' processes.
    pub fn servers(&self) -> Vec<u32> {
        let info = self.plane.info();
        [info.apiserver_pid, info.etcd_pid].into_iter().flatten().collect()
    }

    /// The certificate of the authority that signed the API server's own, as PEM.
    pub fn certificates(&self) -> Result<Vec<u8>> {
        let file = self.plane.info().dir.join("ca.crt");
        std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))
    }

    /// The time on a processor that the servers have taken so far.
    pub fn servers_cpu(&self) -> Result<Duration> {
        self.servers().into_iter().map(proc::cpu).sum()
    }

    /// Waits until the servers have nothing left to do: neither of their start nor of what was
    /// asked of them.
    pub async fn servers_at_rest(&self) -> Result<()> {
        let rest = at_rest(|| self.servers_cpu(), SERVERS_AT_REST, DEADLINE).await;
        rest.context("the servers do not come to rest")
    }

    /// Has the API server collect its garbage, so that nobody's turn contains the removal of
    /// what was left by those before; of what a contestant leaves itself, it does.
    ///
    /// # Errors
    ///
    /// The API server does not let itself be profiled.
    pub async fn collect_garbage(&self) -> Result<()> {
        // Go collects before it tells what is on the heap, if it is asked to; it answers then.
        self.client.send(Call::get("/debug/pprof/heap?gc=1")).await?.success()?;
        Ok(())
    }

    /// Connections of the limit's own.
    pub fn another_client(&self) -> Result<Client> {
        Client::new(self.plane.info(), self.credentials.token.as_deref())
    }

    /// Starts a collector; `None` for the limit, which is none.
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

    /// Starts a collector and waits until it knows all that there is, and is at rest.
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

    /// Starts two replicas of kube-gc, the leader first, and waits until both know all that there
    /// is, and the second is at rest.
    pub async fn replicas_at_rest(&self, namespace: &str) -> Result<(Process, Process)> {
        // The role of the cluster's own collector may change a Lease, and not create one.
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

    /// Waits until a collector has dealt with all that has happened so far, and is at rest.
    ///
    /// A small cascade in the same namespace comes last: when that is over, everything of the
    /// type before it has been seen, for a watch tells things in their order.
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

/// How a collector's log says that it knows all objects.
pub fn is_synced(contestant: Contestant) -> fn(&str) -> bool {
    match contestant {
        Contestant::Limit => |_| true,
        Contestant::Peer => peer::is_synced,
        Contestant::KubeGc => kube_gc::is_synced,
    }
}
