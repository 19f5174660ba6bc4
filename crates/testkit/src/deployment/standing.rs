//! A shared installation of the manifests. The first scenario applies it, and so does the next one
//! after a test with its own installation.

use std::sync::{Mutex, MutexGuard};

use anyhow::{Context as _, Result, ensure};

use super::super::collector::{Collector, Options};
use super::super::control_plane::ControlPlane;
use super::installation::Installation;
use super::pod::Pod;
use crate::lock;

/// The overlay of most scenarios.
const OVERLAY: &str = "plain";
/// The configuration of the shared installation, if that is the one applied.
static APPLIED: Mutex<Option<String>> = Mutex::new(None);

pub(super) fn applied() -> MutexGuard<'static, Option<String>> {
    lock(&APPLIED)
}

/// The shared installation, in the turn of a scenario.
pub struct Standing {
    installation: Installation<'static>,
    config: String,
}

impl Standing {
    /// Applies it if necessary. The caller must have the turn on the shared control plane.
    pub async fn on(plane: &'static ControlPlane) -> Result<Self> {
        let installation = Installation::found(plane).await?;
        let known = applied().clone();
        let config = match known {
            Some(config) => config,
            None => {
                installation.install(OVERLAY).await?;
                installation.configuration().await?
            }
        };
        *applied() = Some(config.clone());
        Ok(Self { installation, config })
    }

    /// Starts the collector in a new pod. The given configuration is appended to the one in the
    /// ConfigMap. If the two conflict, the collector does not start.
    pub async fn start(&self, options: Options) -> Result<Collector> {
        // All fields, so that none is forgotten.
        let Options { config, args, env, looks_on } = options;
        ensure!(!looks_on, "the manifests run the collector without a dry run");
        let config = format!("{}\n{}", self.config, config.unwrap_or_default());
        self.installation.configure(&config).await.context("cannot edit the ConfigMap")?;
        Pod::of(&self.installation).await?.start_with(&args, &env).await
    }
}
