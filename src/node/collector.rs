//! One node: its runtime, its pods, its files.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use kube_gc_cri::{Client, Endpoint, Settings};
use kube_gc_node::{Ledger, Rules, Timestamp};

use super::disk::{self, Disk};
use super::files::Logs;
use super::{NodeError, NodeOptions, PodSource};

/// Looks at one node and carries out plans on it.
#[derive(Debug)]
pub struct NodeCollector {
    pub(super) client: Client,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) pods: PodSource,
    pub(super) logs: Logs,
    pub(super) rules: Rules,
    /// When images were first seen and last used.
    pub(super) ledger: Ledger,
    /// The images that each container mounts as volumes, which never change.
    pub(super) volumes: HashMap<String, Vec<String>>,
    /// What each dead container has in its own layer, which no longer changes; nothing if the runtime does
    /// not tell.
    pub(super) layers: HashMap<String, Option<u64>>,
    /// The image of sandboxes, by the last status of the runtime; nothing before the first one.
    pub(super) sandbox_image: Option<Option<String>>,
}

impl NodeCollector {
    /// Connects to the container runtime. `settings` are those of its client.
    ///
    /// # Errors
    /// It cannot be used.
    pub async fn connect(
        options: &NodeOptions,
        settings: Settings,
        pods: PodSource,
        ledger: Ledger,
    ) -> Result<Self, NodeError> {
        let NodeOptions { rules, endpoint, in_pod, .. } = options;
        let client = connect(endpoint, settings).await?;
        let disk = disk::of_runtime(&client).await;
        Ok(Self {
            client,
            disk,
            pods,
            logs: Logs::new(rules.roots.clone(), *in_pod),
            rules: rules.clone(),
            ledger,
            volumes: HashMap::new(),
            layers: HashMap::new(),
            sandbox_image: None,
        })
    }

    /// The same with another file system.
    #[cfg(any(test, feature = "demo", feature = "internals"))]
    #[must_use]
    pub fn with_disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = disk;
        self
    }

    /// The settings of the rules.
    #[must_use]
    pub const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// From now on by these rules.
    pub fn set_rules(&mut self, rules: &Rules) {
        self.rules = rules.clone();
    }

    /// When images were first seen and last used.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The runtime, as it calls itself: name and version.
    #[must_use]
    pub fn runtime(&self) -> String {
        let runtime = self.client.runtime();
        let word = kube_gc_core::text::word;
        format!("{} {}", word(&runtime.runtime_name), word(&runtime.runtime_version))
    }
}

async fn connect(endpoint: &Endpoint, settings: Settings) -> Result<Client, NodeError> {
    Ok(Client::connect(endpoint, settings).await?)
}

/// The time of day.
#[must_use]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_nanos(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
