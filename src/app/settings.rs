//! Translates the configuration into the settings of the API client.

use std::sync::Arc;
use std::time::Duration;

use kube_gc_client::{ApiSettings, Encoding, RequestObserver, Verb, WatchProtocol, WatchSettings};
use kube_gc_config::{self as config, Settings};
use kube_gc_core::object::GroupResource;
use kube_gc_observe::telemetry::record;

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
        watch_protocol: match settings.client.watch_protocol {
            config::WatchProtocol::Http2 => WatchProtocol::Http2,
            config::WatchProtocol::Http1 => WatchProtocol::Http1,
        },
        qps: settings.client.qps,
        burst: settings.client.burst,
        watch: WatchSettings {
            least_backoff: settings.watch.min_backoff,
            greatest_backoff: settings.watch.max_backoff,
            ..WatchSettings::default()
        },
        observer: Arc::new(RequestMetrics),
        ..ApiSettings::default()
    }
}

/// Counts each request in the metrics.
#[derive(Clone, Copy, Debug)]
struct RequestMetrics;

impl RequestObserver for RequestMetrics {
    fn request(&self, verb: Verb, resource: &GroupResource, code: Option<u16>, duration: Duration) {
        match code {
            Some(code) => record::request(verb.name(), resource, &code.to_string(), duration),
            None => record::request(verb.name(), resource, "error", duration),
        }
    }
}
