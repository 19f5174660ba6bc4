//! Translates the configuration into the settings of the API client and of the actors.

use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use super::controller::ControllerSettings;
use kube_gc_client::{ApiSettings, Encoding, RequestObserver, Verb, WatchProtocol, WatchSettings};
use kube_gc_config::{self as config, Settings};
use kube_gc_controller::actors::{DiscoverySettings, Placement};
use kube_gc_controller::worker::{DecisionLines, DecisionObserver, ORPHAN_PAGE};
use kube_gc_core::brake::Limits;
use kube_gc_core::mailbox::Backoff;
use kube_gc_core::object::{GroupResource, HashSeed};
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

/// The settings of the actors.
pub fn controller(
    settings: &Settings,
    placement: Placement,
    decisions: Vec<Arc<dyn DecisionObserver>>,
) -> ControllerSettings {
    let partitions = settings.graph.partition_count(config::available_cores());
    let partitions = u16::try_from(partitions).ok().and_then(NonZeroU16::new);
    ControllerSettings {
        delete_workers: settings.workers.delete,
        orphan_workers: settings.workers.orphan,
        releases: settings.workers.release,
        orphan_page: ORPHAN_PAGE,
        partitions: partitions.unwrap_or(NonZeroU16::MIN),
        placement,
        absent_owners: settings.graph.absent_owner_capacity,
        birth_grace: settings.graph.birth_grace,
        backoff: Backoff { min: settings.retry.min, max: settings.retry.max },
        discovery: DiscoverySettings {
            interval: settings.discovery.interval,
            ignored: settings.discovery.ignored.clone(),
        },
        sync_timeout: settings.startup.sync_timeout,
        decisions,
        decision_lines: match settings.log.decisions {
            config::DecisionLines::Auto => DecisionLines::Auto,
            config::DecisionLines::All => DecisionLines::All,
            config::DecisionLines::Summaries => DecisionLines::Summaries,
            config::DecisionLines::None => DecisionLines::None,
        },
        finish_namespaces: settings.finish_namespaces.then_some(settings.namespaces.quiet),
        orphan_wait: settings.discovery.orphan_wait,
        compare_after: settings.comparison.grace,
        warn_after: (!settings.dry_run && !settings.events.stuck_after.is_zero())
            .then_some(settings.events.stuck_after),
        // A dry run deletes nothing.
        brake: if settings.dry_run { Limits::default() } else { settings.brake.limits() },
        // The standard library takes its keys from the system's random numbers.
        hash_seed: HashSeed::new(RandomState::new().hash_one(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if the seed is a constant: an author of references could compute the hashes of the
    /// graph and of the queues.
    #[test]
    fn each_process_hashes_with_a_seed_of_its_own() {
        let seed = || controller(&Settings::default(), Placement::CallersThread, Vec::new()).hash_seed;
        let seeds = [seed(), seed(), std::thread::spawn(seed).join().unwrap()];
        let hashes = seeds.map(|seed| seed.keyed(1).hash_one("uid"));
        assert!(seeds[0] != seeds[1] && seeds[1] != seeds[2] && seeds[0] != seeds[2]);
        assert!(hashes[0] != hashes[1] && hashes[1] != hashes[2] && hashes[0] != hashes[2]);
    }
}
