//! Empties terminating namespaces and finalizes them, where no kube-controller-manager does
//! (`finish_namespaces`, rules 11.1 to 11.12). It ends when another controller does the same.
//!
//! `turn` works on one namespace for a short time, `content` lists and deletes.
//! [`kube_gc_core::namespaces`] decides what follows from what they find.

mod content;
mod turn;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{Mutex, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::actors::lifecycle::Phase;
use crate::actors::registry::Registry;
use crate::api::{Api, ApiError};
use crate::telemetry::record;
use crate::worker::brake::Brake;
use kube_gc_core::mailbox::Backoff;
use kube_gc_core::namespaces::{Agenda, Ended, LeaderRecord, NextTurn, Rival};
use kube_gc_core::object::Namespace;
use kube_gc_core::text::bounded;

use self::turn::{Stop, Turns};

/// How many namespaces have a turn at the same time.
const AT_ONCE: usize = 4;
/// The pauses of a namespace that waits for somebody else.
const BACKOFF: Backoff = Backoff { min: Duration::from_millis(100), max: Duration::from_secs(15) };
/// How soon to look again whether this replica may write.
const CLOSED: Duration = Duration::from_secs(1);

/// What finishing namespaces needs.
#[derive(Clone, Debug)]
pub struct FinishContext {
    /// The API server.
    pub api: Api,
    /// Knows which namespaces are terminating.
    pub registry: Registry,
    /// While it is engaged, nothing is deleted.
    pub brake: Brake,
    /// Nothing is done before the start-up phase is over.
    pub phase: watch::Receiver<Phase>,
    /// For how long looks must have shown nothing before a namespace is finalized.
    pub quiet: Duration,
}

/// Finishes namespaces until the collector ends, or another controller does it. To be run as a task.
pub async fn finish(context: FinishContext, ending: CancellationToken) {
    let registry = context.registry.clone();
    let Some(rival) = ending.run_until_cancelled(Finisher::new(context).run()).await else { return };
    registry.terminating().abandon();
    record::namespaces_stopped(true);
    record::namespaces_terminating(0);
    tracing::error!(
        %rival,
        "another controller finalizes namespaces, so kube-gc no longer does; stop one of the two and restart kube-gc"
    );
}

struct Finisher {
    context: FinishContext,
    agenda: Agenda,
    origin: Instant,
    turns: Arc<Turns>,
    running: JoinSet<Result<Ended, Stop>>,
    whose: HashMap<Id, NextTurn>,
}

impl Finisher {
    fn new(context: FinishContext) -> Self {
        let turns = Arc::new(Turns::new(context.api.clone(), Rivals::new(context.api.clone())));
        Self {
            agenda: Agenda::new(AT_ONCE, BACKOFF, context.quiet),
            context,
            origin: Instant::now(),
            turns,
            running: JoinSet::new(),
            whose: HashMap::new(),
        }
    }

    /// Returns when there is another controller.
    async fn run(mut self) -> Rival {
        loop {
            self.take_up();
            let may_work = self.may_work();
            while may_work && let Some(turn) = self.agenda.next(self.origin.elapsed()) {
                let (turns, next) = (Arc::clone(&self.turns), turn.clone());
                let inside = Namespace::parse(&turn.name);
                let is_braked = self.context.brake.holds(inside.as_ref()).is_some();
                let task = self.running.spawn(async move {
                    if is_braked { Ok(Ended::Held) } else { Box::pin(turns.turn(&next)).await }
                });
                self.whose.insert(task.id(), turn);
            }
            let due = self.agenda.next_due().map(|due| self.origin + due);
            let due = if may_work { due } else { due.map(|due| due.max(Instant::now() + CLOSED)) };
            tokio::select! {
                () = self.context.registry.terminating().news() => {}
                Some(ended) = self.running.join_next_with_id() => {
                    if let Some(rival) = self.ended(ended) {
                        return rival;
                    }
                }
                () = async { sleep_until(due.unwrap_or_else(Instant::now)).await }, if self.may_start(due) => {}
            }
        }
    }

    /// Whether a time is worth waiting for: with all turns taken, the end of one comes first.
    fn may_start(&self, due: Option<Instant>) -> bool {
        due.is_some() && self.running.len() < AT_ONCE
    }

    fn take_up(&mut self) {
        let terminating = self.context.registry.terminating();
        let now = self.origin.elapsed();
        for (name, uid) in terminating.take() {
            self.agenda.seen(&name, &uid, now);
        }
        terminating.work_on(self.agenda.busy());
        record::namespaces_terminating(self.agenda.len());
    }

    fn may_work(&self) -> bool {
        let gate = self.context.api.gate();
        let is_braked = self.context.brake.state().borrow().engaged.is_some();
        *self.context.phase.borrow() == Phase::Collecting
            && !is_braked
            && (gate.is_dry_run() || gate.permit().is_ok())
    }

    fn ended(&mut self, ended: Result<(Id, Result<Ended, Stop>), JoinError>) -> Option<Rival> {
        let (id, ended) = match ended {
            Ok((id, ended)) => (id, ended),
            Err(error) => (error.id(), Err(Stop::Broken(bounded(&error)))),
        };
        let NextTurn { name, uid, .. } = self.whose.remove(&id)?;
        let ended = match ended {
            Ok(ended) => ended,
            Err(Stop::Rival(rival)) => return Some(rival),
            Err(Stop::Api(error)) => {
                record::namespace_turn("failed");
                tracing::debug!(namespace = &*name, %error, "a terminating namespace is looked at again later");
                Ended::Held
            }
            Err(Stop::Broken(error)) => {
                record::namespace_turn("failed");
                tracing::error!(
                    namespace = &*name,
                    error,
                    "work on a terminating namespace failed unexpectedly"
                );
                Ended::Held
            }
        };
        self.agenda.ended(&name, &uid, ended, self.origin.elapsed());
        None
    }
}

/// How long a look counts. kube-controller-manager renews its Lease every 2 s.
const COUNTS_FOR: Duration = Duration::from_secs(3);
/// How long a Lease that somebody holds must stay the same, whatever time it says.
const SAME_FOR: Duration = Duration::from_secs(6);

/// Looks once, without an earlier look.
///
/// # Errors
/// Whether there is another controller is not known.
pub async fn find_rival(api: &Api) -> Result<Option<Rival>, ApiError> {
    look(api, None).await.map(|(rival, _)| rival)
}

async fn look(
    api: &Api,
    before: Option<&LeaderRecord>,
) -> Result<(Option<Rival>, Option<LeaderRecord>), ApiError> {
    let lease = api.controller_manager_lease().await?;
    let now = api.settings().clock.now();
    let leader = lease.as_ref().and_then(|lease| lease.rival(before, now));
    let rival = match leader {
        Some(leader) => Some(leader),
        None => api.controller_manager_pod().await?.map(|name| Rival::Pod { name }),
    };
    Ok((rival, lease))
}

/// Looks again and again.
#[derive(Debug)]
struct Rivals {
    api: Api,
    began: Instant,
    /// When this collector has started, by the clock of the API server or nearly so.
    since: SystemTime,
    last: Mutex<Option<(Instant, Option<LeaderRecord>)>>,
}

/// What a look has shown.
#[derive(Debug, PartialEq, Eq)]
enum Looked {
    Alone,
    /// Somebody holds the Lease, and may renew it.
    NotYetKnown,
    Rival(Rival),
}

impl Rivals {
    fn new(api: Api) -> Self {
        let since = api.settings().clock.now();
        Self { api, began: Instant::now(), since, last: Mutex::default() }
    }

    /// Writes before this time do not count.
    const fn since(&self) -> SystemTime {
        self.since
    }

    /// Looks, unless that was done a moment ago.
    ///
    /// # Errors
    /// Whether there is another controller is not known.
    async fn look(&self) -> Result<Looked, ApiError> {
        let mut last = self.last.lock().await;
        if last.as_ref().is_none_or(|(at, _)| at.elapsed() >= COUNTS_FOR) {
            let before = last.as_ref().and_then(|(_, lease)| lease.as_ref());
            let (rival, lease) = look(&self.api, before).await?;
            if let Some(rival) = rival {
                return Ok(Looked::Rival(rival));
            }
            *last = Some((Instant::now(), lease));
        }
        let is_held = last
            .as_ref()
            .is_some_and(|(_, lease)| lease.as_ref().is_some_and(|lease| !lease.holder.is_empty()));
        Ok(if is_held && self.began.elapsed() < SAME_FOR { Looked::NotYetKnown } else { Looked::Alone })
    }
}
