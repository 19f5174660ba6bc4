//! A shared installation of the manifests. The first scenario applies it, and so does the next one
//! after a test with its own installation.

use anyhow::{Context as _, Result, ensure};

use super::super::collector::{Collector, Options};
use super::super::control_plane::ControlPlane;
use super::applied;
use super::installation::Installation;
use super::pod::Pod;

/// The overlay of most scenarios.
const OVERLAY: &str = "plain";

/// The shared installation, in the turn of a scenario.
pub struct Standing {
    installation: Installation<'static>,
    config: String,
}

impl Standing {
    /// Applies it if necessary. The caller must have the turn on the shared control plane.
    pub async fn on(plane: &'static ControlPlane) -> Result<Self> {
        let installation = Installation::found(plane).await?;
        let config = match applied::configuration() {
            Some(config) => config,
            None => {
                installation.install(OVERLAY).await?;
                let config = installation.configuration().await?;
                applied::record(&config);
                config
            }
        };
        Ok(Self { installation, config })
    }

    /// The installation, for a caller that changes it. The next scenario applies it again.
    pub fn to_change(&self) -> &Installation<'static> {
        applied::forget();
        &self.installation
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
