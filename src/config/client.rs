//! `[client]`: requests to the API server.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::text;

/// `[client]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientSettings {
    /// Requests about single objects per second; 0 means no limit.
    pub qps: u32,
    /// How many of these requests may exceed `qps` at once; 0 means as many as `qps`.
    pub burst: u32,
    /// The encoding that lists and watches request.
    pub encoding: Encoding,
    /// Whether lists accept compressed responses.
    pub compression: bool,
    /// The HTTP version of watches.
    pub watch_protocol: WatchProtocol,
    /// The timeout of one request, from sending it to the end of its response. It does not
    /// apply to watches.
    #[serde(with = "text::duration")]
    pub request_timeout: Duration,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            qps: 0,
            burst: 0,
            encoding: Encoding::default(),
            compression: false,
            watch_protocol: WatchProtocol::default(),
            request_timeout: Duration::from_secs(30),
        }
    }
}

/// The encoding of lists and watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// Protobuf, or JSON for resource types without protobuf.
    #[default]
    Protobuf,
    /// JSON.
    Json,
}

/// The HTTP version of watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WatchProtocol {
    /// HTTP/2, if the API server offers it.
    #[default]
    Http2,
    /// HTTP/1.1.
    Http1,
}
