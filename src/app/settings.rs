//! Translates the configuration into the settings of the API client.

use kube_gc_client::{ApiSettings, Clock, Encoding, WatchSettings, WriteGate};
use kube_gc_config::{self as config, Settings};

/// The settings of the API client.
pub fn api(settings: &Settings) -> ApiSettings {
    ApiSettings {
        request_timeout: settings.client.request_timeout,
        page_size: settings.watch.page_size,
        encoding: match settings.client.encoding {
            config::Encoding::Protobuf => Encoding::Protobuf,
            config::Encoding::Json => Encoding::Json,
        },
        compressed_lists: settings.client.compression,
        streaming_lists: settings.watch.streaming_lists,
        watch_protocol: settings.client.watch_protocol,
        qps: settings.client.qps,
        burst: settings.client.burst,
        watch: WatchSettings {
            least_backoff: settings.watch.min_backoff,
            greatest_backoff: settings.watch.max_backoff,
            ..WatchSettings::default()
        },
        ..ApiSettings::default()
    }
}

/// The write gate that these settings require.
pub fn gate(settings: &Settings) -> WriteGate {
    match (settings.dry_run, settings.leader.enabled) {
        (true, _) => WriteGate::dry_run(),
        (false, true) => WriteGate::leased(Clock::Boot),
        (false, false) => WriteGate::open(),
    }
}
