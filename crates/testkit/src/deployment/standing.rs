//! An installation that scenarios find: the first applies it, and whoever comes after a test
//! with an installation of its own.

use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result, ensure};

use super::super::collector::{Collector, Options};
use super::super::control_plane::ControlPlane;
use super::installation::Installation;
use super::pod::Pod;

/// What most have.
const OVERLAY: &str = "plain";

/// The configuration that it has come with, unless something else was applied since.
static APPLIED: Mutex<Option<String>> = Mutex::new(None);

/// It, in the turn of the scenario that uses it.
pub struct Standing {
    installation: Installation<'static>,
    config: String,
}

impl Standing {
    /// Applies it, if need be. It has to be somebody's turn on the plane, which is the one
    /// that all share.
    pub async fn on(plane: &'static ControlPlane) -> Result<Self> {
        let installation = Installation::found(plane).await?;
        let applied = lock().clone();
        let config = match applied {
            Some(config) => config,
            None => {
                installation.install(OVERLAY).await?;
                let config = installation.configuration().await?;
                *lock() = Some(config.clone());
                config
            }
        };
        Ok(Self { installation, config })
    }

    /// The installation, for somebody who changes it: whoever comes next applies it anew.
    pub fn to_change(&self) -> &Installation<'static> {
        forget();
        &self.installation
    }

    /// Starts the collector in a new pod. A configuration goes to the end of the one in the
    /// ConfigMap; if the two do not go together, the collector does not start.
    pub async fn start(&self, options: Options) -> Result<Collector> {
        // All of them: none is to be forgotten.
        let Options { config, args, env, looks_on } = options;
        ensure!(!looks_on, "the manifests run it to collect");
        let config = format!("{}\n{}", self.config, config.unwrap_or_default());
        self.installation.configure(&config).await.context("cannot edit the ConfigMap")?;
        Pod::of(&self.installation).await?.start_with(&args, &env).await
    }
}

/// From now on what is applied is another one.
pub(super) fn forget() {
    *lock() = None;
}

fn lock() -> MutexGuard<'static, Option<String>> {
    // A panic of another test says nothing about what the lock guards.
    APPLIED.lock().unwrap_or_else(PoisonError::into_inner)
}
