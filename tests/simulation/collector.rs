//! The collector of a run: the real one, in the thread of the run.

use std::time::Duration;

use kube_gc::internals::app::{Controller, Setup};
use kube_gc::internals::introspect::{CollectorStatus, IdleQuery, IdleReport};
use kube_gc_client::{Api, ApiSettings, WallClock, WatchSettings};
use kube_gc_config::{DecisionLines, Settings};
use kube_gc_controller::actors::Placement;
use kube_gc_core::object::{GroupResource, HashSeed};
use kube_gc_observe::telemetry::Exporter;
use tokio::time::Instant;

use super::random::Random;
use super::transport::Transport;
use super::world::World;

/// The timeout of a request.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// A running collector.
#[derive(Debug)]
pub struct Collector {
    controller: Controller,
}

impl Collector {
    /// Starts a collector in the current `LocalSet`.
    pub fn start(world: &World, seed: u64, exporter: &Exporter) -> std::io::Result<Self> {
        let life = world.network.next_life();
        let (network, judge) = (world.network.clone(), world.judge.clone());
        let transport = Transport::new(world.server.clone(), network, judge, world.lease.clone(), life);
        let plan = &world.plan;
        let settings = ApiSettings {
            request_timeout: REQUEST_TIMEOUT,
            page_size: plan.page,
            qps: plan.qps,
            burst: 1,
            watch: WatchSettings {
                shortest: plan.watches / 2,
                longest: plan.watches,
                ..ApiSettings::default().watch
            },
            seed: Random::new(seed).split("collector", life).next(),
            clock: WallClock::Since(world.server.now(), Instant::now()),
            ..ApiSettings::default()
        };
        let (gate, clock) = world.lease.gate();
        tokio::task::spawn_local(world.lease.clone().keep(gate.clone(), clock));
        let api = Api::from_clients(transport.client(), settings, gate);
        let mut settings = Settings::default();
        settings.workers.delete = plan.workers;
        settings.workers.orphan = plan.workers;
        settings.workers.release = 4 * plan.workers;
        settings.graph.partitions = plan.partitions;
        settings.graph.absent_owner_capacity = plan.remembered;
        settings.graph.birth_grace = Duration::from_secs(2);
        settings.retry.min = Duration::from_millis(5);
        settings.retry.max = plan.longest_retry;
        settings.discovery.interval = plan.discovery;
        settings.discovery.ignored =
            world.ignored.iter().map(|name| GroupResource::parse(&name.to_string())).collect();
        settings.discovery.orphan_wait = Duration::from_secs(600);
        settings.startup.sync_timeout = Duration::from_secs(30);
        settings.events.stuck_after = Duration::ZERO;
        settings.log.decisions = DecisionLines::All;
        let setup = Setup {
            placement: Placement::default(),
            decisions: Vec::new(),
            orphan_page: plan.orphan_page,
            hash_seed: HashSeed::new(Random::new(seed).split("hashes", life).next()),
        };
        Ok(Self { controller: Controller::start(api, &settings, setup, exporter.clone())? })
    }

    /// The status that the debug pages show.
    pub fn status(&self) -> &CollectorStatus {
        self.controller.status()
    }

    /// Whether the collector has work left. Objects that wait for a change in the cluster do not
    /// count.
    pub async fn idleness(&self) -> IdleReport {
        self.status().idleness(&IdleQuery { parked_ok: true, ..IdleQuery::default() }).await
    }
}
