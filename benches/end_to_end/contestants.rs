//! The contestants.
//!
//! - The limit: a client that knows all objects in advance, and has as many requests in flight as the others
//!   have workers.
//! - The peer: kube-controller-manager with nothing but its garbage collector, without a rate limit of its own.
//! - kube-gc, as it is released.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use kube_gc_testkit::{Obj, Policy};
use serde::Serialize;
use serde_json::json;

use crate::client::{self, Call, Client};
use crate::kube_gc;

/// The contestants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contestant {
    /// A bare client that knows everything in advance.
    Limit,
    /// The garbage collector of kube-controller-manager.
    Peer,
    /// kube-gc.
    KubeGc,
}

impl Contestant {
    /// All contestants.
    pub const ALL: [Self; 3] = [Self::Limit, Self::Peer, Self::KubeGc];

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Peer => "peer",
            Self::KubeGc => "kube-gc",
        }
    }

    /// Whether a log line says that this collector knows all objects.
    pub fn is_synced(self, line: &str) -> bool {
        match self {
            Self::Limit => true,
            Self::Peer => peer_is_synced(line),
            Self::KubeGc => kube_gc::is_synced(line),
        }
    }
}

/// How many requests are in flight at a time.
pub const WORKERS: usize = 20;

/// All requests that follow the deletion of an owner, prepared in advance.
#[derive(Debug)]
pub struct Cascade {
    dependents: Vec<Call>,
    farewell: Option<Call>,
}

impl Cascade {
    /// The requests for an owner that will be deleted with this policy, with the preconditions that a
    /// careful collector sends.
    pub fn prepare(owner: &Obj, dependents: &[Obj], policy: Policy) -> Result<Self> {
        let delete = |object: &Obj| {
            let preconditions = json!({ "uid": object.uid, "resourceVersion": object.resource_version });
            client::deletion(object, Policy::Background, &preconditions)
        };
        let release = |object: &Obj| {
            let body = json!({ "metadata": {
                "uid": object.uid, "resourceVersion": object.resource_version,
                "ownerReferences": [{ "$patch": "delete", "uid": owner.uid }],
            } });
            client::call(Method::PATCH, object, "application/strategic-merge-patch+json", &body)
        };
        let farewell = || {
            let body = json!({ "metadata": { "uid": owner.uid, "finalizers": null } });
            client::call(Method::PATCH, owner, "application/merge-patch+json", &body)
        };
        Ok(Self {
            dependents: match policy {
                Policy::Orphan => dependents.iter().map(release).collect::<Result<_>>()?,
                Policy::Background | Policy::Foreground => {
                    dependents.iter().map(delete).collect::<Result<_>>()?
                }
            },
            farewell: (policy != Policy::Background).then(farewell).transpose()?,
        })
    }

    /// Sends the requests, after the owner was deleted.
    pub async fn run(self, client: &Client) -> Result<()> {
        stream::iter(self.dependents)
            .map(async |call| client.send(call).await)
            .buffer_unordered(WORKERS)
            .try_for_each(async |_| Ok(()))
            .await?;
        if let Some(call) = self.farewell {
            client.send(call).await?;
        }
        Ok(())
    }
}

/// The program and its release.
#[derive(Clone, Debug)]
pub struct Peer {
    program: PathBuf,
    /// Its version, for example `1.20.2`.
    pub version: String,
}

impl Peer {
    /// The program at a path.
    pub fn at(program: PathBuf) -> Result<Self> {
        let output = Command::new(&program).arg("--version").output();
        let output = output.with_context(|| format!("cannot run {}", program.display()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let version = said.trim().strip_prefix("Kubernetes v");
        let version = version.with_context(|| format!("{} is none: {said}", program.display()))?;
        Ok(Self { program, version: version.to_owned() })
    }

    /// The command.
    pub fn command(&self, kubeconfig: &Path) -> Result<Command> {
        let minor = self.version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
        let minor = minor.with_context(|| format!("not a version: {}", self.version))?;
        ensure!(self.version.starts_with("1."), "nothing is known of {}", self.version);
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(kubeconfig).args([
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=100000",
            "--kube-api-burst=100000",
            "--concurrent-gc-syncs=20",
        ]);
        // The flag is deprecated since 1.23 and was removed later; the controller was renamed in
        // 1.28.
        if minor < 23 {
            command.arg("--port=0");
        }
        let name = if minor < 28 { "garbagecollector" } else { "garbage-collector-controller" };
        command.arg(format!("--controllers={name}"));
        Ok(command)
    }
}

/// Whether a log line says that all objects are known.
fn peer_is_synced(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    line.contains("all resource monitors have synced") && !line.contains("not all")
}
