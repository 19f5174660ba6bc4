//! The place of a measurement: a control plane, and the programs that run on it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use kube_gc_testkit::cluster::{create_all, is_status, poll};
use kube_gc_testkit::{Cluster, ControlPlane, Info, Ns, Obj, Policy};
use serde_json::json;

use crate::client::Client;
use crate::contestants::{Contestant, Peer};
use crate::process::{Process, at_rest};
use crate::{kube_gc, proc};

/// A little more than the CPU time that idle servers use in 150 ms.
const SERVERS_AT_REST: Duration = Duration::from_millis(30);
/// The time limit for the servers to come to rest.
const DEADLINE: Duration = Duration::from_secs(120);

/// The service account of the cluster's own garbage collector if kube-controller-manager runs
/// with `--use-service-account-credentials`, as with kubeadm. The API server creates its role and
/// its FlowSchema.
const ACCOUNT_NAMESPACE: &str = "kube-system";
const ACCOUNT: &str = "generic-garbage-collector";
/// The lifetime of a token, which exceeds the measurements on one control plane.
const TOKEN_SECONDS: u32 = 24 * 3600;

/// The programs.
#[derive(Clone, Debug)]
pub struct Programs {
    /// kube-gc.
    pub kube_gc: PathBuf,
    /// The peer, unless it takes no part.
    pub peer: Option<Peer>,
}

/// A control plane on which only the row starts programs.
pub struct Stage {
    plane: ControlPlane,
    programs: Programs,
    /// The credentials of all contestants: the cluster's own garbage collector.
    kubeconfig: PathBuf,
    /// The client that creates objects.
    pub cluster: Cluster,
    /// The client of the observer.
    pub client: Client,
    /// Dependents of one cascade. The other sizes are in proportion to it.
    pub objects: usize,
}

impl Stage {
    /// Starts a control plane.
    pub async fn start(programs: &Programs, objects: usize) -> Result<Self> {
        let plane = ControlPlane::start_with(&[])?;
        let cluster = Cluster::new(plane.client().await?);
        let client = Client::of(plane.kubeconfig()).await?;
        let kubeconfig = kubeconfig(plane.info(), &cluster).await?;
        let programs = programs.clone();
        Ok(Self { plane, programs, kubeconfig, cluster, client, objects })
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
        // On request, Go collects garbage before it answers with the heap profile, here as text.
        self.cluster
            .client()
            .request_text(http::Request::get("/debug/pprof/heap?gc=1&debug=1").body(Vec::new())?)
            .await?;
        Ok(())
    }

    /// A client of the limit's own.
    pub async fn another_client(&self) -> Result<Client> {
        Client::of(&self.kubeconfig).await
    }

    /// Starts a collector; `None` for the limit.
    pub fn start_collector(&self, contestant: Contestant) -> Result<Option<Process>> {
        let kubeconfig = &self.kubeconfig;
        let mut command = match (contestant, &self.programs.peer) {
            (Contestant::Limit, _) => return Ok(None),
            (Contestant::Peer, Some(peer)) => peer.command(kubeconfig)?,
            (Contestant::Peer, None) => bail!("there is no peer"),
            (Contestant::KubeGc, _) => kube_gc::command(&self.programs.kube_gc, kubeconfig),
        };
        Process::start(&mut command).map(Some)
    }

    /// Starts a collector, and waits until it knows all objects and is at rest.
    pub async fn collector_at_rest(&self, contestant: Contestant, ns: &Ns) -> Result<Option<Process>> {
        let Some(process) = self.start_collector(contestant)? else { return Ok(None) };
        process.logged(|line| contestant.is_synced(line)).await?;
        self.settle(&process, ns).await?;
        Ok(Some(process))
    }

    /// Waits until a collector has processed everything so far and is at rest.
    ///
    /// A small cascade in the same namespace comes last. When it is complete, the collector has
    /// seen everything before it, because a watch delivers events in order.
    pub async fn settle(&self, collector: &Process, ns: &Ns) -> Result<()> {
        let (owner, dependents) = make_family(ns, "sentinel", 1).await?;
        self.cluster.delete(&owner, Policy::Background).await?;
        self.cluster.gone(&dependents[0]).await?;
        collector.quiet().await
    }
}

/// Creates an owner, and ConfigMaps that block it.
pub async fn make_family(ns: &Ns, name: &str, size: usize) -> Result<(Obj, Vec<Obj>)> {
    let object = |name: String| ns.configmap(name).field("data", json!({ "key": "value" }));
    let owner = object(name.to_owned()).create().await?;
    let dependents =
        (0..size).map(|number| object(format!("{name}-{number:06}")).owned_by(&owner).blocking());
    let dependents = create_all(dependents).await?;
    Ok((owner, dependents))
}

/// The kubeconfig of the contestants on a control plane where `cluster` may do everything.
async fn kubeconfig(plane: &Info, cluster: &Cluster) -> Result<PathBuf> {
    let accounts = format!("/api/v1/namespaces/{ACCOUNT_NAMESPACE}/serviceaccounts");
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}});
    cluster.send("POST", &accounts, None, Some(&account)).await?;
    let token = cluster.token(ACCOUNT_NAMESPACE, ACCOUNT, TOKEN_SECONDS, None).await?;
    let path = plane.dir.join("contestants.kubeconfig");
    let server = json!({ "server": plane.url, "certificate-authority": plane.dir.join("ca.crt") });
    let kubeconfig = kube_gc_testkit::kubeconfig(&server, &json!({ "token": token }));
    std::fs::write(&path, kubeconfig.to_string())?;
    let theirs = Client::of(&path).await?;
    poll("the role that the server creates at startup", async || {
        match theirs.get("/api/v1/configmaps?limit=1").await {
            Err(error) if is_status(&error, 403) => Ok(false),
            answer => answer.map(|_| true),
        }
    })
    .await?;
    Ok(path)
}
