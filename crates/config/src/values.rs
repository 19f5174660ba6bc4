//! The types of settings, how they are written, and checks of texts.

use serde::{Deserialize, Serialize};
use tracing::level_filters::LevelFilter;

/// The threads that the partitions of the graph run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum GraphThreads {
    /// `Own` on a machine with more than two cores, `Shared` otherwise.
    Auto,
    /// One thread for each partition.
    Own,
    /// The thread that runs the actors and the requests about single objects.
    Shared,
}

/// The encoding of lists and watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Encoding {
    /// Protobuf, or JSON for resource types without protobuf.
    Protobuf,
    /// JSON.
    Json,
}

/// The HTTP version of watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum WatchProtocol {
    /// HTTP/2, if the API server offers it.
    Http2,
    /// HTTP/1.1.
    Http1,
}

/// The format of a line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Which of the decisions that succeed have a line of their own in the log. All others always
/// have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum DecisionLines {
    /// Every decision, up to 20 a second; above that, summaries per owner and second.
    Auto,
    /// Every decision.
    All,
    /// No decision; summaries per owner and second instead.
    Summaries,
    /// No decision, and no summaries.
    None,
}

/// One of the two listeners of `[http]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Listener {
    /// Health and metrics: `http.listen`.
    Health,
    /// The debug pages: `http.debug_listen`.
    Debug,
}

impl Listener {
    /// The name in settings, logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Health => "health",
            Self::Debug => "debug",
        }
    }
}

/// The listeners that a setting applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Listeners {
    /// Neither.
    None,
    /// Health and metrics.
    Health,
    /// The debug pages.
    Debug,
    /// Both.
    Both,
}

impl Listeners {
    /// Whether the setting applies to this listener.
    pub const fn include(self, listener: Listener) -> bool {
        matches!(
            (self, listener),
            (Self::Both, _) | (Self::Health, Listener::Health) | (Self::Debug, Listener::Debug)
        )
    }
}

/// Who knows the pods of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PodKnowledge {
    /// The API server.
    Api,
    /// Nobody: no pod is ever known to be gone.
    None,
}

/// What may be removed beside a kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum BesideKubelet {
    /// Nothing: a dry run.
    Nothing,
    /// Only images.
    Images,
    /// Everything but the newest dead instance of each container.
    All,
}

/// Durations as people write them: `30s`, `5ms`, `1m 30s`.
pub(super) mod duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(*value))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        humantime::parse_duration(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Resource types as kubectl writes them: `configmaps`, `deployments.apps`.
pub(super) mod group_resources {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use kube_gc_core::object::GroupResource;

    pub fn serialize<S: Serializer>(value: &[GroupResource], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(value)
    }

    /// Rejects text that cannot be a resource type: ignoring such a type would silently
    /// have no effect.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<GroupResource>, D::Error> {
        let fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let read = |text: &String| {
            let is_type = text.split('.').all(|label| !label.is_empty() && label.bytes().all(fine));
            let wrong = || D::Error::custom(format_args!("{text:?} is not a resource type"));
            is_type.then(|| GroupResource::parse(text)).ok_or_else(wrong)
        };
        Vec::<String>::deserialize(deserializer)?.iter().map(read).collect()
    }
}

pub(super) fn is_host(name: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    name.len() <= 253 && name.split('.').all(|label| !label.is_empty() && label.bytes().all(fine))
}

/// Whether a log filter is likely to be what its author meant.
///
/// `tracing_subscriber` takes any word that is not a level for the name of a module, and then
/// logs only that module: "loud" and "verbose" would silence the log. So a module must have a
/// level or belong to this program. "kube-gc=debug" would silence it, too: no module has such a
/// name. So the filter must say something about this program, if only by a level for all.
pub(super) fn is_log_filter(text: &str) -> bool {
    let is_level = |directive: &str| !directive.is_empty() && directive.parse::<LevelFilter>().is_ok();
    let is_ours = |directive: &str| directive.starts_with("kube_gc");
    let has_sense = |directive: &str| match directive.split_once('=') {
        Some((module, level)) => {
            (is_ours(module) || !module.contains('-')) && level.parse::<LevelFilter>().is_ok()
        }
        None => is_level(directive) || is_ours(directive),
    };
    let mut directives = text.split(',').map(str::trim);
    directives.clone().all(has_sense)
        && directives.any(|directive| is_level(directive) || is_ours(directive))
        // Spans and fields, of which this program has none.
        && !text.contains('[')
}

/// Whether this is a valid name of a namespace: a DNS label.
pub(super) fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Whether this is a valid name of an object: a DNS subdomain.
pub(super) fn is_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
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
