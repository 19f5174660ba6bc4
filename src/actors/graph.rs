//! The Graph actor: owns one partition, on its own thread.

mod debug;
mod questions;

use std::ops::Range;
use std::sync::Arc;
use std::task::Waker;

use actix::{
    Actor, ActorFutureExt, Addr, ArbiterHandle, AsyncContext, Context, Handler, Recipient, ResponseFuture,
    WrapFuture,
};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::actors::absent_owner_cache::AbsentOwnerCache;
use crate::actors::messages::{
    AnswerQuestion, Disturbed, Enqueue, Fence, FromPeer, Rederive, Reset, TakeIn, TakeInChanges, UseCatalog,
};
use crate::actors::outbox::{Outbox, Sequence};
use crate::actors::question_queue::{QuestionQueue, QuestionSender};
use crate::actors::supervision::{Fatal, die};
use crate::api::EventRecorder;
use crate::api::RestoreFence;
use kube_gc_core::graph::{Effects, Intake, Partition, PartitionId, WatchEvent};

/// Links in one message to another partition.
const LINKS_PER_MESSAGE: usize = 512;
/// Keys in one message to a pool.
const KEYS_PER_MESSAGE: usize = 4096;

/// Where a partition's effects go.
#[derive(Debug, Clone)]
pub struct EffectSinks {
    /// The delete pool.
    pub delete: Recipient<Enqueue>,
    /// The orphan pool.
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
    /// Ranges of keys for the delete pool that follow from the deletion of an owner, and when its
    /// event arrived.
    bereaved: Vec<(Range<usize>, Instant)>,
    sinks: EffectSinks,
    outbox: Outbox,
    peers: Vec<Addr<GraphActor>>,
    through: Vec<(Sequence, oneshot::Sender<()>)>,
    /// The origin of the partition's clock.
    began: Instant,
    /// Questions of people.
    questions: QuestionQueue,
}

/// Where a partition takes messages, and questions of people.
#[derive(Clone, Debug)]
pub struct GraphAddress {
    /// Takes messages.
    pub messages: Addr<GraphActor>,
    /// Takes questions. Each needs an [`AnswerQuestion`] to follow it.
    pub questions: QuestionSender,
}

impl GraphActor {
    /// An actor for a partition. [`Introduce`] tells it the addresses of its peers.
    #[must_use]
    pub fn new(id: PartitionId, partition: Partition, sinks: EffectSinks) -> Self {
        Self {
            id,
            partition,
            effects: Effects::default(),
            bereaved: Vec::new(),
            sinks,
            outbox: Outbox::default(),
            peers: Vec::new(),
            through: Vec::new(),
            began: Instant::now(),
            questions: QuestionQueue::default(),
        }
    }

    /// Starts on this thread.
    pub fn start_here(self) -> GraphAddress {
        let questions = self.questions.sender();
        GraphAddress { messages: self.start(), questions }
    }

    /// Starts on another thread.
    pub fn start_on(self, thread: &ArbiterHandle) -> GraphAddress {
        let questions = self.questions.sender();
        GraphAddress { messages: Self::start_in_arbiter(thread, |_| self), questions }
    }

    /// Changes the partition and forwards the effects.
    fn update<R>(
        &mut self,
        ctx: &mut Context<Self>,
        change: impl FnOnce(&mut Partition, &mut Effects) -> R,
    ) -> R {
        let result = change(&mut self.partition, &mut self.effects);
        self.forward(ctx);
        result
    }

    /// Forwards effects. Keys are sent without waiting for room: a pool holds each key once, so
    /// there are never more of them than nodes.
    fn forward(&mut self, ctx: &mut Context<Self>) {
        self.wake_followers();
        let Effects { delete, cascaded, orphan, absent, present, revived, restored, peers, reports } =
            &mut self.effects;
        // This comes first, because writes continue until the fence knows.
        if let (Some(proof), Some(restore_fence)) = (restored.take(), &self.sinks.restore_fence) {
            restore_fence.report_restore(proof);
        }
        // Effects that did not come from a watch event have no moment to count from.
        cascaded.clear();
        let since = std::mem::take(&mut self.bereaved);
        for (keys, since, pool) in
            [(delete, since, &self.sinks.delete), (orphan, Vec::new(), &self.sinks.orphan)]
        {
            let all = Enqueue { keys: std::mem::take(keys), bereaved: since };
            for message in all.parts(KEYS_PER_MESSAGE) {
                pool.do_send(message);
            }
        }
        for identity in absent.drain(..) {
            self.sinks.absent_owners.absent.remember(&identity);
        }
        for identity in present.drain(..) {
            // The entry for an orphaned owner stays: a watch may show the owner again, and late
            // dependents must be spared when it is deleted after that.
            self.sinks.absent_owners.absent.forget(&identity);
        }
        for identity in revived.drain(..) {
            self.sinks.absent_owners.orphaned.forget(&identity);
        }
        for (to, message) in peers.drain(..) {
            self.outbox.put(to, message);
        }
        for report in reports.drain(..) {
            self.sinks.event_recorder.report(report);
        }
        self.pump(ctx);
    }

    /// Wakes who follows what has changed.
    fn wake_followers(&mut self) {
        self.partition.outdated().for_each(Waker::wake_by_ref);
    }

    /// Sends the next batch of the outbox, if none is in flight.
    fn pump(&mut self, ctx: &mut Context<Self>) {
        if self.peers.is_empty() {
            return;
        }
        let Some((PartitionId(to), messages)) = self.outbox.take(LINKS_PER_MESSAGE) else {
            return;
        };
        let Some(peer) = self.peers.get(usize::from(to)) else {
            return die(&Fatal::Graph {
                detail: format!("partition {:?} names a peer {to} that does not exist", self.id),
            });
        };
        let delivery = peer.send(FromPeer(messages)).into_actor(self).map(|result, actor, ctx| {
            if result.is_err() {
                // The peer has ended, and the supervisor of its thread ends the process.
                return;
            }
            actor.outbox.delivered();
            actor.pump(ctx);
            let outbox = &actor.outbox;
            for (_, done) in actor.through.extract_if(.., |(mark, _)| outbox.is_through(*mark)) {
                // The one who asked may have given up.
                let _ = done.send(());
            }
        });
        ctx.spawn(delivery);
    }

    /// Resolves when the peers have applied everything that is in the outbox now.
    fn when_delivered(&mut self) -> ResponseFuture<()> {
        let mark = self.outbox.mark();
        if self.outbox.is_through(mark) {
            return Box::pin(std::future::ready(()));
        }
        let (done, delivered) = oneshot::channel();
        self.through.push((mark, done));
        Box::pin(async {
            // An error means that this actor, and with it the process, is ending.
            let _ = delivered.await;
        })
    }
}

impl Actor for GraphActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        // Room for one message of every monitor and worker: each waits for the answer before it
        // sends another.
        ctx.set_mailbox_capacity(1024);
    }
}

impl Drop for GraphActor {
    fn drop(&mut self) {
        if std::thread::panicking() {
            die(&Fatal::Graph { detail: format!("partition {} panicked", self.id.0) });
        }
    }
}

/// Gives a partition the addresses of all partitions, in the order of their ids.
#[derive(Debug, actix::Message)]
#[rtype(result = "()")]
pub struct Introduce(pub Vec<Addr<GraphActor>>);

impl Handler<Introduce> for GraphActor {
    type Result = ();

    fn handle(&mut self, Introduce(peers): Introduce, ctx: &mut Self::Context) {
        self.peers = peers;
        self.pump(ctx);
    }
}

impl Handler<TakeIn> for GraphActor {
    type Result = ();

    fn handle(&mut self, TakeIn(intakes): TakeIn, ctx: &mut Self::Context) {
        self.update(ctx, |partition, effects| {
            for intake in intakes {
                partition.intake(intake, effects);
            }
        });
    }
}

impl Handler<TakeInChanges> for GraphActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, message: TakeInChanges, ctx: &mut Self::Context) -> Self::Result {
        let TakeInChanges { resource, epoch, arrivals } = message;
        let mut list_ended = false;
        for arrival in arrivals {
            let at = arrival.at();
            let (changes, _applying) = arrival.begin(self.id);
            list_ended |= changes.iter().any(|change| matches!(change, WatchEvent::InitDone { .. }));
            let resource = Arc::clone(&resource);
            self.partition.intake(Intake::Events { resource, epoch, events: changes }, &mut self.effects);
            self.bereaved.extend(self.effects.cascaded.drain(..).map(|keys| (keys, at)));
        }
        self.forward(ctx);
        self.questions.answer_one(&mut self.partition);
        if list_ended { self.when_delivered() } else { Box::pin(std::future::ready(())) }
    }
}

impl Handler<AnswerQuestion> for GraphActor {
    type Result = ();

    fn handle(&mut self, AnswerQuestion: AnswerQuestion, _: &mut Context<Self>) {
        self.questions.answer_one(&mut self.partition);
    }
}

impl Handler<FromPeer> for GraphActor {
    type Result = ();

    fn handle(&mut self, FromPeer(messages): FromPeer, ctx: &mut Self::Context) {
        self.update(ctx, |partition, effects| {
            for message in messages {
                partition.receive(message, effects);
            }
        });
    }
}

impl Handler<Fence> for GraphActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, Fence: Fence, _: &mut Self::Context) -> Self::Result {
        self.when_delivered()
    }
}

impl Handler<UseCatalog> for GraphActor {
    type Result = ();

    fn handle(&mut self, UseCatalog(catalog): UseCatalog, ctx: &mut Self::Context) {
        self.update(ctx, |partition, effects| partition.set_catalog(catalog, effects));
    }
}

impl Handler<Rederive> for GraphActor {
    type Result = ();

    fn handle(&mut self, Rederive: Rederive, ctx: &mut Self::Context) {
        self.update(ctx, |partition, effects| partition.rederive(effects));
    }
}

impl Handler<Reset> for GraphActor {
    type Result = ();

    fn handle(&mut self, Reset: Reset, _: &mut Self::Context) {
        self.partition.reset();
        self.outbox.clear();
        self.wake_followers();
    }
}

impl Handler<Disturbed> for GraphActor {
    type Result = ();

    fn handle(&mut self, Disturbed(disturbance): Disturbed, ctx: &mut Self::Context) {
        self.update(ctx, |partition, effects| partition.disturbed(disturbance, effects));
    }
}
