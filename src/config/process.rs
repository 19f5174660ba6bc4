//! `[namespaces]`, `[startup]`, `[shutdown]`, `[debug]` and `[log]`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::text;

/// `[namespaces]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceSettings {
    /// For how long looks must have shown nothing before a namespace is finalized.
    #[serde(with = "text::duration")]
    pub quiet: Duration,
}

impl Default for NamespaceSettings {
    fn default() -> Self {
        // As long as kube-controller-manager waits.
        Self { quiet: Duration::from_secs(5) }
    }
}

/// `[startup]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartupSettings {
    /// How long the workers wait for types that do not sync.
    #[serde(with = "text::duration")]
    pub sync_timeout: Duration,
}

impl Default for StartupSettings {
    fn default() -> Self {
        Self { sync_timeout: Duration::from_secs(30) }
    }
}

/// `[shutdown]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShutdownSettings {
    /// How long requests in flight may take to finish.
    #[serde(with = "text::duration")]
    pub grace: Duration,
}

impl Default for ShutdownSettings {
    fn default() -> Self {
        Self { grace: Duration::from_secs(20) }
    }
}

/// `[debug]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DebugSettings {
    /// The capacity of the decision log.
    pub decisions: usize,
}

impl Default for DebugSettings {
    fn default() -> Self {
        Self { decisions: 1000 }
    }
}

/// `[log]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSettings {
    /// The format of a line.
    pub format: LogFormat,
    /// The lines to log, in the syntax of `RUST_LOG`.
    pub filter: String,
    /// Which decisions have a line of their own.
    pub decisions: DecisionLines,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { format: LogFormat::Text, filter: "info".to_owned(), decisions: DecisionLines::Auto }
    }
}

/// The format of a line of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Which of the decisions that succeed have a line of their own in the log. All others always
/// have one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum DecisionLines {
    /// Every decision, up to 20 a second; above that, summaries per owner and second.
    #[default]
    Auto,
    /// Every decision.
    All,
    /// No decision; summaries per owner and second instead.
    Summaries,
    /// No decision, and no summaries.
    None,
}
