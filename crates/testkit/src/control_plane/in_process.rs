//! The embedded server, on a loopback address.

use std::net::SocketAddr;
use std::path::Path;
use std::process;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result};
use futures::FutureExt as _;
use kube_gc_apiserver::object::Key;
use kube_gc_apiserver::resources::ResourceName;
use kube_gc_apiserver::store::{Cause, Snapshot};
use kube_gc_apiserver::{ApiServer, Release, Scheme, Serving, Settings};
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Builder;

use super::info::Info;
use crate::object::Obj;
use crate::{DEADLINE, POLL, lock};

/// A running embedded server.
#[derive(Debug)]
pub struct InProcess {
    server: ApiServer,
    address: SocketAddr,
    // `None` while the server is shut down.
    serving: Mutex<Option<Serving>>,
    backup: Mutex<Option<Snapshot>>,
    _dir: TempDir,
}

impl InProcess {
    /// A server that emulates a release.
    pub(super) fn start(release: Release) -> Result<(Self, Info)> {
        let settings = Settings {
            release,
            epoch: std::time::SystemTime::now(),
            // As on a bare API server, the client that deletes a namespace also finalizes it.
            namespace_controller: false,
            ..Settings::default()
        };
        let server = ApiServer::new(settings);
        let serving = serve(&server, SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let dir = directory()?;
        let kubeconfig = dir.path().join("kubeconfig");
        std::fs::write(&kubeconfig, serving.kubeconfig())?;
        let info = Info {
            kubeconfig,
            url: serving.url(),
            etcd: String::new(),
            dir: dir.path().to_owned(),
            bin: dir.path().to_owned(),
            apiserver_pid: None,
            etcd_pid: None,
            version: "embedded".to_owned(),
        };
        let embedded = Self {
            server,
            address: serving.address(),
            serving: Mutex::new(Some(serving)),
            backup: Mutex::default(),
            _dir: dir,
        };
        Ok((embedded, info))
    }

    /// The server.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Creates a token for a service account, which limits it to its roles. Requests without a
    /// token, or with another one, are not limited.
    pub fn token_of(&self, account: &Obj) -> String {
        let namespace = account.namespace.as_deref().unwrap_or_default();
        let token = format!("token-{}", account.uid);
        self.server.restrict(&token, &format!("system:serviceaccount:{namespace}:{}", account.name));
        token
    }

    /// Closes all connections and accepts no more.
    pub(super) fn shut(&self) {
        let Some(serving) = lock(&self.serving).take() else { return };
        // The caller may be within a runtime, where nothing may wait for another one.
        let stop = || Builder::new_current_thread().build().unwrap().block_on(serving.stop());
        thread::spawn(stop).join().unwrap();
    }

    /// Listens again on the same address. It may be in use by an outgoing connection of another
    /// process, which has to end first.
    pub(super) fn open(&self) -> Result<()> {
        let deadline = Instant::now() + DEADLINE;
        let serving = loop {
            match serve(&self.server, self.address) {
                Err(_) if Instant::now() < deadline => thread::sleep(POLL),
                serving => break serving?,
            }
        };
        *lock(&self.serving) = Some(serving);
        Ok(())
    }

    pub(super) fn compact(&self) {
        self.server.with(|server| server.store.compact(u64::MAX));
    }

    pub(super) fn back_up(&self) {
        *lock(&self.backup) = Some(self.server.snapshot());
    }

    pub(super) fn restore(&self, raised_by: Option<u64>) -> Result<()> {
        let backup = lock(&self.backup);
        self.server.restore(backup.as_ref().context("there is no backup")?, raised_by);
        Ok(())
    }

    pub(super) fn copy_with_uid(&self, object: &Obj, name: &str, uid: &str) -> Result<()> {
        let resource = ResourceName::new(&object.resource.group, &object.resource.plural);
        let key = |name: &str| Key::new(object.namespace.as_deref(), name);
        self.server.with(|server| {
            let stored = server.store.get(&resource, &key(&object.name));
            let mut copy = stored.with_context(|| format!("{object} is not stored"))?.to_value();
            copy["metadata"]["name"] = json!(name);
            copy["metadata"]["uid"] = json!(uid);
            server.store.write(&resource, &key(name), copy, &Cause::server("test"));
            Ok(())
        })
    }
}

/// A directory of this process. Control planes that a whole binary shares are never dropped, so the
/// directories of processes that have ended are removed here.
fn directory() -> Result<TempDir> {
    const PREFIX: &str = "kube-gc-embedded-";
    for entry in std::fs::read_dir(std::env::temp_dir())?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        let has_ended = |pid: &str| !Path::new("/proc").join(pid).exists();
        if Path::new("/proc/self").exists() && owner.is_some_and(has_ended) {
            // Another test may have removed it.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    Ok(tempfile::Builder::new().prefix(&format!("{PREFIX}{}-", process::id())).tempdir()?)
}

/// Serves an address, which waits for nothing.
fn serve(server: &ApiServer, address: SocketAddr) -> Result<Serving> {
    let serving = server.serve(address, Scheme::Http).now_or_never().context("it waits")?;
    serving.with_context(|| format!("cannot serve {address}"))
}
