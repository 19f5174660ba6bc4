//! The process: start and end, the log, and the two listeners.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Settings, text};

/// `[startup]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartupSettings {
    /// How long the workers wait for types that do not sync.
    #[serde(with = "text::duration")]
    pub sync_timeout: Duration,
}

/// `[shutdown]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShutdownSettings {
    /// How long requests in flight may take to finish.
    #[serde(with = "text::duration")]
    pub grace: Duration,
}

/// `[debug]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DebugSettings {
    /// The capacity of the decision log.
    pub decisions: usize,
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

/// `[http]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpSettings {
    /// The address for health and metrics.
    pub listen: SocketAddr,
    /// The address for the debug pages.
    pub debug_listen: SocketAddr,
    /// The names by which the listeners may be asked, besides IP addresses and `localhost`.
    pub hosts: Vec<String>,
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
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Health => "health",
            Self::Debug => "debug",
        }
    }
}

/// The listeners that a setting applies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Listeners {
    /// Neither.
    #[default]
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
    #[must_use]
    pub const fn include(self, listener: Listener) -> bool {
        match self {
            Self::None => false,
            Self::Health => matches!(listener, Listener::Health),
            Self::Debug => matches!(listener, Listener::Debug),
            Self::Both => true,
        }
    }
}

/// `[tls]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSettings {
    /// The listeners that use TLS.
    pub listeners: Listeners,
    /// The file with the certificate chain; empty means none.
    pub certificate: PathBuf,
    /// The file with the private key; empty means none.
    pub key: PathBuf,
}

/// `[access]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessSettings {
    /// The listeners that authenticate and authorize requests through the API server.
    pub listeners: Listeners,
}

/// Warnings about pages and tokens that a network can read.
pub(super) fn exposure_warnings(settings: &Settings) -> Vec<String> {
    let Settings { http, tls, access, .. } = settings;
    let mut warnings = Vec::new();
    if !http.debug_listen.ip().is_loopback() && !access.listeners.include(Listener::Debug) {
        warnings.push(format!(
            "everyone who can reach {} can read the debug pages, which show the names of all owners and \
             dependents; set `access.listeners` to require authorization",
            http.debug_listen
        ));
    }
    for (listener, address) in [(Listener::Health, http.listen), (Listener::Debug, http.debug_listen)] {
        let in_the_clear = access.listeners.include(listener) && !tls.listeners.include(listener);
        if in_the_clear && !address.ip().is_loopback() {
            warnings.push(format!(
                "tokens are sent to {address} without encryption, and anyone who can read that network can use them; \
                 set `tls.listeners` to require TLS"
            ));
        }
    }
    if tls.listeners == Listeners::None && !tls.certificate.as_os_str().is_empty() {
        warnings.push("`tls.certificate` has no effect, because `tls.listeners` is \"none\"".to_owned());
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(tls: Listeners, access: Listeners) -> Settings {
        let mut settings = Settings::default();
        settings.tls.listeners = tls;
        settings.access.listeners = access;
        settings.http.listen = "0.0.0.0:8080".parse().unwrap();
        settings
    }

    #[test]
    fn tokens_in_the_clear_are_warned_about_on_a_network_alone() {
        for (tls, access, expected) in [
            (Listeners::None, Listeners::Both, true),
            (Listeners::Debug, Listeners::Health, true),
            (Listeners::Health, Listeners::Both, false),
            (Listeners::None, Listeners::Debug, false),
        ] {
            let warned = exposure_warnings(&settings(tls, access));
            assert_eq!(warned.len(), usize::from(expected), "{tls:?} {access:?}: {warned:?}");
            assert!(
                warned
                    .iter()
                    .all(|text| text.starts_with("tokens are sent to 0.0.0.0:8080 without encryption"))
            );
        }
    }

    #[test]
    fn open_debug_pages_are_warned_about_unless_somebody_is_asked() {
        let mut settings = settings(Listeners::Debug, Listeners::None);
        settings.http.debug_listen = "0.0.0.0:8081".parse().unwrap();
        assert!(
            exposure_warnings(&settings)[0]
                .starts_with("everyone who can reach 0.0.0.0:8081 can read the debug pages")
        );
        settings.access.listeners = Listeners::Debug;
        assert_eq!(exposure_warnings(&settings), [""; 0]);
    }

    #[test]
    fn a_certificate_that_nobody_shows_is_warned_about() {
        let mut settings = settings(Listeners::None, Listeners::None);
        settings.tls.certificate = "/tls.crt".into();
        assert_eq!(
            exposure_warnings(&settings),
            ["`tls.certificate` has no effect, because `tls.listeners` is \"none\""]
        );
    }
}
