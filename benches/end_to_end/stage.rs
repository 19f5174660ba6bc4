//! The place of a measurement: a control plane, and the programs that run on it.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use http::StatusCode;
use kube_gc_testkit::{ControlPlane, Info};
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::contestants::{Contestant, Peer};
use crate::http::{Call, Client};
use crate::machine::at_rest;
use crate::objects::{Mode, make_family};
use crate::observe::Watch;
use crate::process::Process;
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
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

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
    /// The client of the observer, which also creates the objects.
    pub client: Client,
    /// Dependents of one cascade. The other sizes are in proportion to it.
    pub objects: usize,
    sentinels: Cell<u32>,
}

impl Stage {
    /// Starts a control plane.
    pub async fn start(programs: &Programs, objects: usize) -> Result<Self> {
        let plane = ControlPlane::start_with(&[])?;
        let client = Client::of(plane.kubeconfig()).await?;
        let kubeconfig = kubeconfig(plane.info(), &client).await?;
        let programs = programs.clone();
        Ok(Self { plane, programs, kubeconfig, client, objects, sentinels: Cell::new(0) })
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
        // On request, Go collects garbage before it answers with the heap profile.
        self.client.send(Call::get("/debug/pprof/heap?gc=1")).await?.success()?;
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
    pub async fn collector_at_rest(
        &self,
        contestant: Contestant,
        namespace: &str,
    ) -> Result<Option<Process>> {
        let Some(process) = self.start_collector(contestant)? else { return Ok(None) };
        process.logged(|line| contestant.is_synced(line)).await?;
        self.settle(&process, namespace).await?;
        Ok(Some(process))
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
            watch.deleted().await?;
        }
        collector.quiet().await
    }
}

/// The kubeconfig of the contestants on a control plane where `client` may do everything.
async fn kubeconfig(plane: &Info, client: &Client) -> Result<PathBuf> {
    let token = token(client).await.context("no token for the contestants")?;
    let path = plane.dir.join("contestants.kubeconfig");
    let server = json!({ "server": plane.url, "certificate-authority": plane.dir.join("ca.crt") });
    let kubeconfig = kube_gc_testkit::kubeconfig(&server, &json!({ "token": token }));
    std::fs::write(&path, kubeconfig.to_string())?;
    let theirs = Client::of(&path).await?;
    timeout(DEADLINE, until_allowed(&theirs)).await.with_context(|| format!("{ACCOUNT} is not let in"))??;
    Ok(path)
}

/// Creates the service account and requests a token for it.
async fn token(client: &Client) -> Result<String> {
    let accounts = format!("/api/v1/namespaces/{ACCOUNT_NAMESPACE}/serviceaccounts");
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}});
    client.post(&accounts, &account).await?;
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    });
    let answer = client.post(&format!("{accounts}/{ACCOUNT}/token"), &request).await?;
    answer["status"]["token"].as_str().map(str::to_owned).context("none in the answer")
}

/// Waits until the role that the server creates at startup takes effect.
async fn until_allowed(client: &Client) -> Result<()> {
    loop {
        let answer = client.send(Call::get("/api/v1/configmaps?limit=1")).await?;
        if answer.status != StatusCode::FORBIDDEN {
            answer.success()?;
            return Ok(());
        }
        sleep(PAUSE).await;
    }
}
