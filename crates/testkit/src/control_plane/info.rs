//! What a control plane reports about itself.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// The properties of a control plane, as reported by `serve.sh`.
#[derive(Clone, Debug, Deserialize)]
pub struct Info {
    /// The kubeconfig of a user in `system:masters`.
    pub kubeconfig: PathBuf,
    /// The API server.
    pub url: String,
    /// etcd; empty without one.
    pub etcd: String,
    /// Data, keys and logs of the servers.
    pub dir: PathBuf,
    /// The directory of the binaries.
    pub bin: PathBuf,
    /// `None` while it is down.
    pub apiserver_pid: Option<u32>,
    /// `None` while it is down.
    pub etcd_pid: Option<u32>,
    /// The API server's `gitVersion`.
    pub version: String,
}

impl Info {
    /// The token of the user of the kubeconfig.
    ///
    /// # Errors
    /// The file of tokens cannot be read.
    pub fn token(&self) -> Result<String> {
        let path = self.dir.join("tokens.csv");
        let tokens =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let (token, _) = tokens.split_once(',').with_context(|| format!("no token in {}", path.display()))?;
        Ok(token.to_owned())
    }
}

/// A server of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// etcd.
    Etcd,
    /// The API server.
    KubeApiserver,
}

impl Server {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
        }
    }
}
