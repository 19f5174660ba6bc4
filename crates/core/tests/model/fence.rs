//! What the collector does after watches broke: nothing is written until the version of the store is known, and
//! what was proved before is void.

use kube_gc_core::mailbox::Completion;
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::Disturbance;

use super::cast::{TYPES, version};
use super::collector::{Collector, Reason, Watch};
use super::server::{Request, Server};
use super::sketch::Version;
use super::task::Task;

/// `client::RestoreFence`.
#[derive(Clone, Debug, Default, Hash)]
pub struct Fence {
    pub latest: u64,
    pub acknowledged: u64,
    pub raised: [bool; TYPES],
    pub found: Option<Version>,
    /// A restore was proved, and everything is to be forgotten.
    pub restored: bool,
    /// What the partition was told last.
    told: (u64, Option<Version>),
}

impl Fence {
    fn now(&self) -> (u64, Option<Version>) {
        (self.latest, self.found.filter(|_| self.raised == [false; TYPES]))
    }
    pub fn disturbance(&self) -> Disturbance {
        let (number, found) = self.now();
        Disturbance { number, found: found.map(version) }
    }
    pub fn is_news(&self) -> bool {
        self.now() != self.told
    }
    /// Whether a write that was decided under this number may be sent.
    pub fn admits(&self, under: u64) -> bool {
        self.raised == [false; TYPES] && under == self.latest && !self.restored
    }
}

impl Collector {
    /// Watches broke before their time. Returns the writes that were given up.
    pub fn disturb(&mut self, kinds: &[usize]) -> Vec<Request> {
        self.fence.latest += 1;
        self.fence.found = None;
        for &kind in kinds {
            self.fence.raised[kind] = true;
            if let Watch::Watching { broken, .. } = &mut self.watches[kind] {
                *broken = true;
            }
        }
        self.give_up(false)
    }

    /// No answer to a write under way comes any more. Returns those that may still take effect. `all`: no
    /// worker goes on.
    pub fn give_up(&mut self, all: bool) -> Vec<Request> {
        let mut late = Vec::new();
        for worker in self.workers.clone() {
            match &worker.task {
                Task::Sent { request, .. } => late.push(request.clone()),
                Task::Answered { .. } => {}
                _ if all => {}
                _ => continue,
            }
            let given_up = Completion::retry(Reason::Conflict, "given up");
            self.finish(worker.pool, worker.life, given_up);
        }
        late
    }

    /// The store is about to be restored: what watches have read may still arrive.
    pub fn lose(&mut self, server: &Server) {
        let kinds = 0..self.kinds;
        self.disturb(&kinds.clone().collect::<Vec<_>>());
        for kind in kinds {
            if let Watch::Watching { place, .. } = self.watches[kind] {
                self.read[kind].extend(server.journals[kind].events.iter().skip(place).cloned());
                let read = self.read[kind].back().map(|event| event.object.version);
                self.high_water[kind] = self.high_water[kind].max(read.unwrap_or_default());
            }
            self.watches[kind] = Watch::Lost;
        }
    }

    /// `Machine::checked` and `RestoreFence::lift`: the version of the store, after a watch broke.
    pub fn check(&mut self, kind: usize, server: &Server) {
        if Some(&server.version) < self.high_water.iter().max() {
            return self.report_restore();
        }
        self.lift(kind, server.version);
        match &mut self.watches[kind] {
            Watch::Watching { broken, .. } => *broken = false,
            // The store does not have the version from which to watch: 410.
            lost => *lost = Watch::Unlisted { least: 0 },
        }
    }

    pub fn lift(&mut self, kind: usize, found: Version) {
        if std::mem::take(&mut self.fence.raised[kind]) {
            self.fence.found = self.fence.found.max(Some(found));
        }
    }

    pub fn report_restore(&mut self) {
        self.fence.restored = true;
        self.fence.latest += 1;
    }

    /// `Lifecycle::follow_disturbances`.
    pub fn acknowledge(&mut self) {
        let disturbance = self.fence.disturbance();
        let number = disturbance.number;
        self.ask_all(|graph, effects| graph.disturbed(disturbance.clone(), effects));
        if number > self.fence.acknowledged {
            if !mutation::is(Mutation::KeepAbsences) {
                self.absent.clear();
            }
            self.fence.acknowledged = number;
        }
        self.fence.told = self.fence.now();
    }

    /// `lifecycle::forget_everything`.
    pub fn rebuild(&mut self) -> Vec<Request> {
        let late = self.give_up(true);
        let (latest, graph, pools) = (self.fence.latest, self.graph.clone(), self.pools.clone());
        // Everything seen from now on happened since.
        let fence = Fence { latest, found: Some(Version(1)), ..Fence::default() };
        *self = Self { graph, pools, fence, ..Self::new(self.leads, self.kinds) };
        self.ask_all(|graph, _| graph.reset());
        self.start_monitors();
        late
    }
}
