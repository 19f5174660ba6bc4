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
use serde::Serialize;
use serde_json::json;

use crate::http::{Call, Client};
use crate::kube_gc;
use crate::objects::{Family, Mode, Object};

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

/// The DELETE of a dependent, with the preconditions that a careful collector sends.
fn deletion(object: &Object) -> Call {
    let body = json!({
        "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": Mode::Background.policy(),
        "preconditions": {"uid": object.uid, "resourceVersion": object.version},
    });
    Call::with(Method::DELETE, object.path(), &body)
}

/// The PATCH that removes the reference to its owner from a dependent.
fn release(object: &Object, owner: &Object) -> Call {
    let body = json!({"metadata": {
        "uid": object.uid, "resourceVersion": object.version,
        "ownerReferences": [{"$patch": "delete", "uid": owner.uid}],
    }});
    let call = Call::with(Method::PATCH, object.path(), &body);
    Call { content_type: "application/strategic-merge-patch+json", ..call }
}

/// The PATCH that removes the finalizer of a waiting owner.
fn farewell(owner: &Object) -> Call {
    let body = json!({"metadata": {"uid": owner.uid, "finalizers": null}});
    let call = Call::with(Method::PATCH, owner.path(), &body);
    Call { content_type: "application/merge-patch+json", ..call }
}

/// All requests that follow the deletion of an owner, prepared in advance.
#[derive(Debug)]
pub struct Cascade {
    dependents: Vec<Call>,
    farewell: Option<Call>,
}

impl Cascade {
    /// The requests for an owner that will be deleted with this policy.
    pub fn prepare(Family { owner, dependents }: &Family, mode: Mode) -> Self {
        let dependents = dependents.iter();
        match mode {
            Mode::Background => Self { dependents: dependents.map(deletion).collect(), farewell: None },
            Mode::Foreground => {
                Self { dependents: dependents.map(deletion).collect(), farewell: Some(farewell(owner)) }
            }
            Mode::Orphan => Self {
                dependents: dependents.map(|object| release(object, owner)).collect(),
                farewell: Some(farewell(owner)),
            },
        }
    }

    /// Sends the requests, after the owner was deleted.
    pub async fn run(self, client: &Client) -> Result<()> {
        stream::iter(self.dependents)
            .map(async |call| client.send(call).await?.success())
            .buffer_unordered(WORKERS)
            .try_for_each(async |_| Ok(()))
            .await?;
        if let Some(call) = self.farewell {
            client.send(call).await?.success()?;
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
