//! The Graph actor: owns one partition.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use actix::{Actor, Addr, ArbiterHandle, Context, Handler, Recipient};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::actors::absent_owner_cache::AbsentOwnerCache;
use crate::actors::graph_queue::{Arrived, Waiting};
use crate::actors::pool::Enqueue;
use crate::actors::supervision::die;
use kube_gc_client::{AbsenceProof, EventRecorder, RestoreFence};
use kube_gc_core::graph::{Effects, Epoch, OwnerState, Partition, PartitionId, Stats};
use kube_gc_core::object::{Key, ResourceType};

/// Links in one message.
const LINKS_PER_MESSAGE: usize = 512;
/// Keys in one message to a pool.
const KEYS_PER_MESSAGE: usize = 4096;

/// Where a partition's effects go.
#[derive(Debug, Clone)]
pub struct EffectSinks {
    pub delete: Recipient<Enqueue>,
    pub orphan: Recipient<Enqueue>,
    /// Owners that were proved absent, and owners whose dependents were orphaned.
    pub absent_owners: Arc<AbsentOwnerCache>,
    /// Records events and log lines for people.
    pub event_recorder: EventRecorder,
    /// Receives proofs that the store was restored; `None` if no restore can be proved.
    pub restore_fence: Option<RestoreFence>,
}

/// Owns one [`Partition`] exclusively and forwards the effects of each message.
///
/// A panic in here leaves a half-updated graph, which is worse than a restart. Therefore it ends
/// the process.
#[derive(Debug)]
pub struct GraphActor {
    id: PartitionId,
    partition: Partition,
    effects: Effects,
    /// Keys for the delete pool whose owner was deleted, and when that event arrived.
    cascaded: Vec<(Key, Option<Instant>)>,
    sinks: EffectSinks,
    /// Partition 0, which takes the links. Messages of one actor to another arrive in their order.
    cluster: Option<Addr<GraphActor>>,
    /// Links that it has not applied yet.
    links: Arc<AtomicUsize>,
}

/// What a partition does to answer a question, or to obey an order.
type Answering = dyn FnOnce(&mut GraphActor) + Send;

messages!(Question => ());

/// A question to a partition, or an order, with the way back of its answer.
pub(super) struct Question(Box<Answering>);

impl Question {
    pub(super) fn new(ask: impl FnOnce(&mut GraphActor) + Send + 'static) -> Self {
        Self(Box::new(ask))
    }
}

/// Changes from a monitor.
#[derive(Debug)]
pub struct TakeInChanges {
    pub resource: Arc<ResourceType>,
    pub epoch: Epoch,
    pub changes: Vec<Arrived>,
    /// Counts them until they are applied.
    pub waiting: Waiting,
}

/// The size of a partition.
#[derive(Clone, Copy, Debug)]
pub struct PartitionStatus {
    pub stats: Stats,
    /// Links that partition 0 has not applied yet.
    pub unapplied_links: usize,
}

impl GraphActor {
    /// Starts it on this thread, or on another one. The [`GraphHandle`](super::graph_handle::GraphHandle)
    /// tells it where partition 0 is.
    pub fn start(
        id: PartitionId,
        partition: Partition,
        sinks: EffectSinks,
        thread: Option<&ArbiterHandle>,
    ) -> Addr<Self> {
        let actor = Self {
            id,
            partition,
            effects: Effects::default(),
            cascaded: Vec::new(),
            sinks,
            cluster: None,
            links: Arc::default(),
        };
        match thread {
            Some(thread) => Self::start_in_arbiter(thread, |_| actor),
            None => Actor::start(actor),
        }
    }

    /// The partition, and where the effects of a change go.
    pub(super) fn partition(&mut self) -> (&mut Partition, &mut Effects) {
        (&mut self.partition, &mut self.effects)
    }

    pub(super) fn status(&self) -> PartitionStatus {
        PartitionStatus { stats: self.partition.stats(), unapplied_links: self.links.load(Ordering::SeqCst) }
    }

    /// Forwards effects. Keys are sent without waiting for room: a pool holds each key once, so
    /// there are never more of them than nodes.
    pub(super) fn forward(&mut self) {
        // This comes first, because writes continue until the fence knows.
        if let (Some(proof), Some(restore_fence)) = (self.effects.restored.take(), &self.sinks.restore_fence)
        {
            restore_fence.report_restore(proof);
        }
        // Effects that did not come from a watch event have no moment to count from.
        let mut keys = std::mem::take(&mut self.cascaded);
        keys.extend(self.effects.take_delete().map(|key| (key, None)));
        enqueue(&self.sinks.delete, keys);
        let Effects { orphan, absent, present, revived, links, reports, .. } = &mut self.effects;
        enqueue(&self.sinks.orphan, orphan.drain(..).map(|key| (key, None)).collect());
        for identity in absent.drain(..) {
            if let Some(proof) = AbsenceProof::of_graph(&OwnerState::Absent) {
                self.sinks.absent_owners.absent.remember(&identity, proof);
            }
        }
        for identity in present.drain(..) {
            // The entry for an orphaned owner stays: a watch may show the owner again, and late
            // dependents must be spared when it is deleted after that.
            self.sinks.absent_owners.absent.forget(&identity);
        }
        for identity in revived.drain(..) {
            self.sinks.absent_owners.orphaned.forget(&identity);
        }
        for report in reports.drain(..) {
            self.sinks.event_recorder.report(report);
        }
        for batch in chunks(std::mem::take(links), LINKS_PER_MESSAGE) {
            let links = Arc::clone(&self.links);
            links.fetch_add(batch.len(), Ordering::SeqCst);
            self.tell_cluster(move |cluster| {
                for link in &batch {
                    cluster.partition.receive(link, &mut cluster.effects);
                }
                cluster.forward();
                links.fetch_sub(batch.len(), Ordering::SeqCst);
            });
        }
    }

    fn tell_cluster(&self, tell: impl FnOnce(&mut Self) + Send + 'static) {
        if let Some(cluster) = &self.cluster {
            cluster.do_send(Question::new(tell));
        }
    }

    /// Learns the address of partition 0.
    pub(super) fn meet(&mut self, cluster: Addr<Self>) {
        self.cluster = Some(cluster);
    }

    /// Applies changes from a monitor. Answers when the graph has them, which throttles a fast
    /// watch, and when partition 0 has applied the links that follow from them.
    pub(super) fn take_in(&mut self, changes: TakeInChanges, done: oneshot::Sender<()>) {
        let TakeInChanges { resource, epoch, changes, waiting } = changes;
        let applying = waiting.begin(self.id, &changes);
        let mut changes = changes.into_iter().peekable();
        while let Some((at, first)) = changes.next() {
            let mut events = vec![first];
            while let Some((_, change)) = changes.next_if(|(also, _)| *also == at) {
                events.push(change);
            }
            self.partition.apply_events(&resource, epoch, &events, &mut self.effects);
            self.cascaded.extend(self.effects.cascaded.drain(..).map(|key| (key, Some(at))));
        }
        drop(applying);
        let has_links = !self.effects.links.is_empty();
        self.forward();
        if has_links { self.when_delivered(done) } else { answer(done, ()) }
    }

    /// Answers when partition 0 has applied every link so far.
    pub(super) fn when_delivered(&self, done: oneshot::Sender<()>) {
        self.tell_cluster(|_| answer(done, ()));
    }
}

pub(super) fn answer<A>(to: oneshot::Sender<A>, found: A) {
    // Who asked may have given up.
    let _ = to.send(found);
}

fn enqueue(pool: &Recipient<Enqueue>, keys: Vec<(Key, Option<Instant>)>) {
    chunks(keys, KEYS_PER_MESSAGE).for_each(|keys| pool.do_send(Enqueue(keys)));
}

fn chunks<T>(mut all: Vec<T>, most: usize) -> impl Iterator<Item = Vec<T>> {
    std::iter::from_fn(move || {
        let rest = all.split_off(all.len().min(most));
        Some(std::mem::replace(&mut all, rest)).filter(|chunk| !chunk.is_empty())
    })
}

impl Actor for GraphActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        // Room for one message of every monitor, worker and page: each waits for the answer before it
        // sends another, so that no answer waits for long.
        ctx.set_mailbox_capacity(1024);
    }
}

impl Drop for GraphActor {
    fn drop(&mut self) {
        if std::thread::panicking() {
            die(&format!("the graph can no longer be trusted: partition {} panicked", self.id.0));
        }
    }
}

impl Handler<Question> for GraphActor {
    type Result = ();

    fn handle(&mut self, Question(question): Question, _: &mut Self::Context) {
        question(self);
    }
}
