//! The API server of scenarios: a real control plane or the embedded server, with the same
//! interface.
//!
//! The [environment] decides which of them it is.

mod in_process;
mod info;
mod script;
pub(crate) mod turns;

use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::{Result, bail};
use kube::Client;
use kube_gc_apiserver::Release;
use tokio::task::spawn_blocking;

use self::in_process::InProcess;
use self::script::Script;
use super::etcd;
use super::object::Obj;
use crate::environment::{self, Environment};
use crate::{Shared, config_of, lock, shared};

pub use self::info::{Info, Server};
pub use self::turns::Turn;

/// A running control plane. It ends when this is dropped, and also when this process ends, however
/// that happens.
#[derive(Debug)]
pub struct ControlPlane {
    kind: Kind,
    info: Info,
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
enum Kind {
    Real(Arc<Mutex<Script>>),
    Embedded(Arc<InProcess>),
}

impl ControlPlane {
    /// Starts a control plane in a temporary directory.
    ///
    /// The first start of a real one on a machine may build the API server, which takes minutes.
    /// Later starts take about five seconds.
    pub fn start() -> Result<Self> {
        match environment::current() {
            Environment::Embedded(release) => Self::start_embedded(release),
            Environment::Real | Environment::Deployed => Self::start_with(&[]),
        }
    }

    /// Starts an embedded server of a release.
    pub fn start_embedded(release: Release) -> Result<Self> {
        let (server, info) = InProcess::start(release)?;
        Ok(Self { kind: Kind::Embedded(Arc::new(server)), info, turn: tokio::sync::Mutex::new(()) })
    }

    /// Starts a real control plane with further flags for kube-apiserver.
    pub fn start_with(apiserver_flags: &[&str]) -> Result<Self> {
        let (script, info) = Script::start(apiserver_flags)?;
        Ok(Self { kind: Kind::Real(Arc::new(Mutex::new(script))), info, turn: tokio::sync::Mutex::new(()) })
    }

    /// The control plane that all tests of a binary without scenarios share, started by the first
    /// test. Tests use it in turn, see [`exclusive`](Self::exclusive). Scenarios have [`Turn`]s.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: Shared<ControlPlane> = Shared::new();
        shared(&SHARED, Self::start)
    }

    /// Waits for exclusive use, until the guard is dropped, even by a panic.
    pub async fn exclusive(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// A client of a user in `system:masters`. It belongs to the current runtime, and so to one
    /// test.
    pub async fn client(&self) -> Result<Client> {
        Ok(Client::try_from(config_of(self.kubeconfig()).await?)?)
    }

    /// The kubeconfig of a user in `system:masters`.
    pub fn kubeconfig(&self) -> &Path {
        &self.info.kubeconfig
    }

    /// The URL of etcd.
    pub fn etcd(&self) -> &str {
        &self.info.etcd
    }

    /// All properties. The pids are those of the start.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// The embedded server, if this is one.
    pub fn embedded(&self) -> Option<&InProcess> {
        match &self.kind {
            Kind::Real(_) => None,
            Kind::Embedded(server) => Some(server),
        }
    }

    /// Kills a server with SIGKILL. The embedded server has no separate store: it stops listening
    /// and keeps its data.
    pub fn kill(&self, server: Server) -> Result<Info> {
        match &self.kind {
            Kind::Real(script) => lock(script).command("kill", server),
            Kind::Embedded(embedded) => {
                if server == Server::KubeApiserver {
                    embedded.shut();
                }
                Ok(self.info.clone())
            }
        }
    }

    /// Starts a server that was killed, with the same address and data, and returns when it is
    /// ready. That takes seconds, in which a proxy on this thread continues to answer that the
    /// server is unreachable.
    pub async fn restart(&self, server: Server) -> Result<Info> {
        match &self.kind {
            Kind::Real(script) => {
                let script = Arc::clone(script);
                spawn_blocking(move || lock(&script).command("start", server)).await?
            }
            Kind::Embedded(embedded) => {
                if server == Server::KubeApiserver {
                    let embedded = Arc::clone(embedded);
                    spawn_blocking(move || embedded.open()).await??;
                }
                Ok(self.info.clone())
            }
        }
    }

    /// Compacts the history, and clears the watch caches of the API server, so that no watch can
    /// resume from an earlier version.
    pub async fn compact(&self) -> Result<()> {
        if let Kind::Embedded(embedded) = &self.kind {
            embedded.compact();
            return Ok(());
        }
        etcd::compact(self).await?;
        self.kill(Server::KubeApiserver)?;
        self.restart(Server::KubeApiserver).await?;
        Ok(())
    }

    /// Copies the store. The API server is down during that time.
    pub async fn back_up(&self) -> Result<()> {
        if let Kind::Embedded(embedded) = &self.kind {
            embedded.back_up();
            return Ok(());
        }
        self.kill(Server::KubeApiserver)?;
        self.kill(Server::Etcd)?;
        copy(&self.info.dir.join("etcd"), &self.info.dir.join("etcd.backup"))?;
        self.restart(Server::Etcd).await?;
        self.restart(Server::KubeApiserver).await?;
        Ok(())
    }

    /// Replaces the store by the copy. The API server is down during that time.
    pub async fn restore(&self) -> Result<()> {
        self.go_back(false).await
    }

    /// Replaces the store by the copy and raises its version above all versions that were assigned,
    /// as `etcdutl snapshot restore --bump-revision --mark-compacted` does, so that no earlier
    /// watch can resume. The API server is down during that time.
    pub async fn restore_raised(&self) -> Result<()> {
        self.go_back(true).await
    }

    async fn go_back(&self, raised: bool) -> Result<()> {
        match &self.kind {
            Kind::Real(_) => {
                let last = etcd::revision(self).await?;
                self.kill(Server::KubeApiserver)?;
                self.kill(Server::Etcd)?;
                let data = self.info.dir.join("etcd");
                std::fs::remove_dir_all(&data)?;
                copy(&self.info.dir.join("etcd.backup"), &data)?;
                self.restart(Server::Etcd).await?;
                if raised {
                    etcd::raise(self, last + 100).await?;
                    etcd::compact(self).await?;
                }
            }
            Kind::Embedded(embedded) => {
                embedded.shut();
                embedded.restore(raised.then_some(1_000))?;
            }
        }
        self.restart(Server::KubeApiserver).await?;
        Ok(())
    }

    /// Copies a custom resource in the store, with another name and uid, which may be one that no
    /// API server would assign.
    pub async fn copy_with_uid(&self, object: &Obj, name: &str, uid: &str) -> Result<()> {
        match &self.kind {
            Kind::Real(_) => etcd::copy_with_uid(self, object, name, uid).await,
            Kind::Embedded(embedded) => embedded.copy_with_uid(object, name, uid),
        }
    }

    /// Stops it and waits until it has ended, as dropping it does.
    pub fn stop(self) {}

    /// Stops a control plane that is never dropped.
    pub(crate) fn end(&self) {
        match &self.kind {
            Kind::Real(script) => {
                lock(script).end();
            }
            Kind::Embedded(embedded) => embedded.shut(),
        }
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let status = std::process::Command::new("cp").arg("-a").args([from, to]).status()?;
    if !status.success() {
        bail!("cannot copy {} to {}", from.display(), to.display());
    }
    Ok(())
}
