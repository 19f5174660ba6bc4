//! `[node]`: what `kube-gc node` removes, and where it looks.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::text;

/// `[node]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSettings {
    /// The socket of the container runtime; empty means the only one that is found.
    pub runtime_endpoint: String,
    /// The name of this node; empty means the hostname in lower case.
    pub name: String,
    /// Who knows the pods of this node.
    pub pods: PodKnowledge,
    /// The file with the ages of images.
    pub state: PathBuf,
    /// What may be removed beside a kubelet.
    pub beside_kubelet: BesideKubelet,
    /// How long ago a dead container must have been created.
    #[serde(with = "text::duration")]
    pub min_age: Duration,
    /// How many dead containers of one name in a pod stay; -1 means all.
    pub max_per_container: i64,
    /// How many dead containers stay in all; -1 means all.
    pub max_total: i64,
    /// The usage of the image file system in percent from which on images go.
    pub high: u8,
    /// The usage in percent down to which images go.
    pub low: u8,
    /// How often dead containers, sandboxes and logs are collected.
    #[serde(with = "text::duration")]
    pub period: Duration,
    /// Images.
    pub images: NodeImageSettings,
    /// Pressure on the image file system.
    pub pressure: NodePressureSettings,
    /// Where the logs of pods are.
    pub roots: NodeRootSettings,
}

/// Who knows the pods of this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PodKnowledge {
    /// The API server.
    #[default]
    Api,
    /// Nobody: no pod is ever known to be gone.
    None,
}

/// What may be removed beside a kubelet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BesideKubelet {
    /// Nothing: a dry run.
    #[default]
    Nothing,
    /// Only images.
    Images,
    /// Everything but the newest dead instance of each container.
    All,
}

/// `[node.images]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeImageSettings {
    /// How long an image stays after it was first seen.
    #[serde(with = "text::duration")]
    pub min_age: Duration,
    /// How long an unused image stays; zero means as long as there is space.
    #[serde(with = "text::duration")]
    pub max_age: Duration,
    /// Names of images that stay; `*` stands for any text.
    pub keep: Vec<String>,
    /// Whether images stay that no registry has under a digest.
    pub keep_local: bool,
    /// How often images are collected.
    #[serde(with = "text::duration")]
    pub period: Duration,
}

/// `[node.pressure]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodePressureSettings {
    /// Whether pressure counts at all.
    pub enabled: bool,
    /// The free percentage of the bytes below which there is pressure.
    pub bytes: u8,
    /// The free percentage of the inodes below which there is pressure.
    pub inodes: u8,
}

/// `[node.roots]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeRootSettings {
    /// The directory of the pods' logs.
    pub pods: String,
    /// The directory of the symlinks to the containers' logs.
    pub containers: String,
}

/// Whether files beneath this directory may go: never those beneath `/` or `/var`.
pub(super) fn is_root(path: &str) -> bool {
    let parts = path.strip_prefix('/').unwrap_or_default();
    path.len() <= 1024
        && parts.split('/').count() >= 2
        && parts.split('/').all(|part| !matches!(part, "" | "." | "..") && !part.contains('\0'))
}

/// Whether this can be a pattern of `images.keep`. In an environment variable, commas separate them.
pub(super) fn is_pattern(pattern: &str) -> bool {
    (1..=512).contains(&pattern.len())
        && !pattern.chars().any(|letter| letter.is_whitespace() || letter == ',')
}

/// Whether this can be the socket of a runtime, or is empty.
pub(super) fn is_endpoint(endpoint: &str) -> bool {
    let path =
        endpoint.strip_prefix("unix://").or_else(|| endpoint.strip_prefix("unix:")).unwrap_or(endpoint);
    endpoint.is_empty() || (path.starts_with('/') && path.len() <= 107 && !path.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wrong directory would make files of the host count as logs of pods.
    #[test]
    fn a_root_lies_at_least_two_directories_deep_and_leads_nowhere_else() {
        for root in ["/var/log", "/var/log/pods"] {
            assert!(is_root(root), "{root}");
        }
        for root in ["", "/", "/var", "var/log", "/var/", "/var//log", "/var/../etc", "/var/./log", "/var/\0"]
        {
            assert!(!is_root(root), "{root:?}");
        }
    }
}
