//! Empties terminating namespaces and finalizes them, where no kube-controller-manager does
//! (`finish_namespaces`, rules 11.1 to 11.12). It ends when another controller does the same.
//!
//! `turn` works on one namespace for a short time, `content` lists and deletes.
//! [`kube_gc_core::namespaces`] decides what follows from what they find.

mod content;
mod turn;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep, sleep_until};

use crate::actors::lifecycle::Phase;
use crate::actors::registry::Registry;
use crate::actors::supervision::task;
use crate::worker::WorkContext;
use crate::worker::after;
use kube_gc_client::{Api, ApiError, ErrorClass};
use kube_gc_core::mailbox::Backoff;
use kube_gc_core::namespaces::{Agenda, Ended, LeaderRecord, NextTurn, Rival, TurnOf};
use kube_gc_core::object::Namespace;
use kube_gc_core::text::bounded;
use kube_gc_observe::telemetry::record;

use self::turn::{Stop, Turns};

/// How many namespaces have a turn at the same time.
const AT_ONCE: usize = 4;
/// The pauses of a namespace that waits for somebody else.
const BACKOFF: Backoff = Backoff { min: Duration::from_millis(100), max: Duration::from_secs(15) };
/// Nothing is known of what it waits for.
const HELD: Ended = Ended::Held { awaited: 0 };
/// How soon to look again whether this replica may write.
const CLOSED: Duration = Duration::from_secs(1);

/// Finishes namespaces until the collector ends, or another controller does it. To be run as a task.
/// Nothing is done before the start-up phase is over. A namespace is finalized when looks have shown
/// nothing for the `quiet` time. Also removes the protection of claims and volumes, if that `unprotects`.
pub async fn finish(context: WorkContext, phase: watch::Receiver<Phase>, quiet: Duration, unprotects: bool) {
    let registry = context.registry.clone();
    let mut finisher = Finisher::new(context, phase, quiet);
    if unprotects {
        finisher.agenda.add_storage();
    }
    let rival = finisher.run().await;
    registry.terminating().abandon();
    record::namespaces_stopped(true);
    record::namespaces_terminating(0);
    tracing::error!(
        %rival,
        "another controller finalizes namespaces, so kube-gc no longer does; stop one of the two and restart kube-gc"
    );
}

/// What finishing namespaces needs, and no other work of a collector.
const RIGHTS: [[&str; 3]; 2] = [["deletecollection", "*", "*"], ["update", "", "namespaces/finalize"]];

/// Says which rights are missing, until they are granted, and again when the server refuses a write. To be
/// run as a task.
pub async fn check_rights(api: Api, registry: Registry) {
    loop {
        // A standby cannot ask, and need not.
        if let Ok(missing) = api.missing_rights(&RIGHTS).await {
            let missing = (!missing.is_empty()).then(|| missing.join(", "));
            let why = missing.map(|missing| {
                format!("the credentials lack rights to finish namespaces: {missing}; see docs/finish-namespaces.md")
            });
            let known = registry.hindrance().send_replace(why.clone());
            match why {
                None => {
                    registry.refused().notified().await;
                    continue;
                }
                Some(why) if known.as_ref() != Some(&why) => tracing::warn!("{why}"),
                Some(_) => {}
            }
        }
        sleep(BACKOFF.max).await;
    }
}

struct Finisher {
    context: WorkContext,
    phase: watch::Receiver<Phase>,
    agenda: Agenda,
    origin: Instant,
    turns: Arc<Turns>,
}

impl Finisher {
    fn new(context: WorkContext, phase: watch::Receiver<Phase>, quiet: Duration) -> Self {
        let turns = Arc::new(Turns::new(context.clone(), Rivals::new(context.api.clone())));
        let agenda = Agenda::new(AT_ONCE, BACKOFF, quiet);
        Self { context, phase, agenda, origin: Instant::now(), turns }
    }

    /// Returns when there is another controller.
    async fn run(mut self) -> Rival {
        let mut running = FuturesUnordered::new();
        loop {
            self.take_up();
            let may_work = self.may_work();
            while may_work && let Some(turn) = self.agenda.next(self.origin.elapsed()) {
                running.push(self.turn(turn));
            }
            // A turn out of the backoff is work, too.
            let terminating = self.context.registry.terminating();
            let busy = self.agenda.busy().map(|(of, uid)| (of.clone(), uid.clone()));
            terminating.work_on(busy.collect());
            let due = self.agenda.next_due().map(|due| self.origin + due);
            let due = if may_work { due } else { due.map(|due| due.max(Instant::now() + CLOSED)) };
            // With all turns taken, the end of one comes first.
            let due = due.filter(|_| running.len() < AT_ONCE);
            tokio::select! {
                () = terminating.news() => {}
                Some((turn, ended)) = running.next() => {
                    if let Some(rival) = self.ended(&turn, ended) {
                        return rival;
                    }
                }
                () = async { sleep_until(due.unwrap_or_else(Instant::now)).await }, if due.is_some() => {}
            }
        }
    }

    fn turn(&self, turn: NextTurn) -> impl Future<Output = (NextTurn, Result<Ended, Stop>)> + use<> {
        self.context.registry.terminating().turn_begins(&turn.of);
        let namespace = turn.of.namespace().and_then(Namespace::parse);
        let is_braked = self.context.brake.holds(namespace.as_ref()).is_some();
        let (turns, next, context) = (Arc::clone(&self.turns), turn.clone(), self.context.clone());
        async move {
            if is_braked {
                return (turn, Ok(HELD));
            }
            let ended = task(async move {
                match (next.of, next.uid) {
                    (TurnOf::Namespace(name), Some(uid)) => turns.turn(&name, &uid, next.is_quiet).await,
                    _ => unprotect(&context, &turns.rivals).await,
                }
            });
            let ended = ended.await;
            (turn, ended.unwrap_or_else(|error| Err(Stop::Broken(bounded(&error)))))
        }
    }

    fn take_up(&mut self) {
        let terminating = self.context.registry.terminating();
        let now = self.origin.elapsed();
        let (seen, emptied) = terminating.take();
        for (name, uid) in seen {
            self.agenda.seen(&name, &uid, now);
        }
        emptied.iter().for_each(|of| self.agenda.hasten(of, now));
        record::namespaces_terminating(self.agenda.len());
    }

    fn may_work(&self) -> bool {
        let gate = self.context.api.gate();
        let is_braked = self.context.brake.holds(None).is_some();
        *self.phase.borrow() == Phase::Collecting
            && !is_braked
            && (gate.is_dry_run() || gate.permit().is_ok())
    }

    fn ended(&mut self, turn: &NextTurn, ended: Result<Ended, Stop>) -> Option<Rival> {
        let (of, namespace) = (&turn.of, turn.of.namespace());
        let ended = match ended {
            Ok(ended) => ended,
            Err(Stop::Rival(rival)) => return Some(rival),
            Err(Stop::Api(error)) => {
                record::namespace_turn("failed");
                tracing::debug!(namespace, %error, "a terminating namespace is looked at again later");
                if error.code == Some(403) {
                    self.context.registry.refused().notify_one();
                }
                // Without a right, it waits for somebody else.
                if error.class == ErrorClass::Denied { HELD } else { Ended::Failed }
            }
            Err(Stop::Broken(error)) => {
                record::namespace_turn("failed");
                tracing::error!(namespace, error, "work on a terminating namespace failed unexpectedly");
                Ended::Failed
            }
        };
        let now = self.origin.elapsed();
        self.agenda.ended(turn, ended, now);
        if self.context.registry.terminating().turn_ended(of, ended) {
            self.agenda.hasten(of, now);
        }
        None
    }
}

/// Takes the protection off claims and volumes that are being deleted and not used
/// (`remove_protection_finalizers`, rules 11.13 and 11.14). All of them together have turns as a
/// namespace has.
async fn unprotect(context: &WorkContext, rivals: &Rivals) -> Result<Ended, Stop> {
    let WorkContext { api, brake, graph, .. } = context.now();
    let storage = if rivals.are_alone().await? { api.held_storage().await? } else { Vec::new() };
    let mut errors = Vec::new();
    for object in storage.iter().filter(|object| brake.holds(object.namespace.as_ref()).is_none()) {
        match api.unprotect(object).await {
            Ok(Some((before, now))) => {
                graph.expect(&object.key(), after(Some(&before), now.resource_version));
            }
            Ok(None) => {}
            // One that fails does not delay the others.
            Err(error) => errors.push(error),
        }
    }
    if let Some(error) = errors.first() {
        let failed = errors.len();
        tracing::warn!(%error, failed, "claims or volumes keep their protection for now; kube-gc tries again");
        if errors.iter().any(|error| error.class != ErrorClass::Denied) {
            return Ok(Ended::Failed);
        }
    }
    // The next change of a claim, a volume or a pod.
    Ok(Ended::Held { awaited: 1 })
}

/// How long a look counts. kube-controller-manager renews its Lease every 2 s.
const COUNTS_FOR: Duration = Duration::from_secs(3);
/// How long a Lease that somebody holds must stay the same, whatever time it says.
const SAME_FOR: Duration = Duration::from_secs(6);

/// Looks for another controller that finalizes namespaces, perhaps after an earlier look.
///
/// # Errors
/// Whether there is one is not known.
pub async fn find_rival(
    api: &Api,
    before: Option<&LeaderRecord>,
) -> Result<(Option<Rival>, Option<LeaderRecord>), ApiError> {
    let lease = api.controller_manager_lease().await?;
    let now = api.settings().clock.now();
    let leader = lease.as_ref().and_then(|lease| lease.rival(before, now));
    let rival = match leader {
        Some(leader) => Some(leader),
        // The label that kubeadm and others set.
        None => {
            let pods = api.pods_labelled("kube-system", "component=kube-controller-manager").await?;
            pods.into_iter().next().map(|pod| Rival::Pod { name: pod.name })
        }
    };
    Ok((rival, lease))
}

/// Looks again and again.
#[derive(Debug)]
struct Rivals {
    api: Api,
    began: Instant,
    /// When this collector has started, by the clock of the API server or nearly so. Writes before
    /// this time do not count.
    since: SystemTime,
    last: Mutex<Option<(Instant, Option<LeaderRecord>)>>,
}

impl Rivals {
    fn new(api: Api) -> Self {
        let since = api.settings().clock.now();
        Self { api, began: Instant::now(), since, last: Mutex::default() }
    }

    /// Looks, unless that was done a moment ago. False if somebody holds the Lease, who may renew it.
    async fn are_alone(&self) -> Result<bool, Stop> {
        let mut last = self.last.lock().await;
        if last.as_ref().is_none_or(|(at, _)| at.elapsed() >= COUNTS_FOR) {
            let before = last.as_ref().and_then(|(_, lease)| lease.as_ref());
            let (rival, lease) = find_rival(&self.api, before).await?;
            if let Some(rival) = rival {
                return Err(Stop::Rival(rival));
            }
            *last = Some((Instant::now(), lease));
        }
        let lease = last.as_ref().and_then(|(_, lease)| lease.as_ref());
        let is_held = lease.is_some_and(|lease| !lease.holder.is_empty());
        Ok(!is_held || self.began.elapsed() >= SAME_FOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::absent_owner_cache::AbsentOwnerCache;
    use crate::actors::tests::{bare_context, graph_on, in_system};
    use kube_gc_client::testing::{Reply, Server};
    use kube_gc_core::object::Uid;

    /// Fails if the rights are reviewed from time to time, after any failure, or not again.
    #[test]
    fn rights_are_reviewed_again_only_after_a_403() {
        in_system(async {
            let server = Server::answering(|_| Reply::code(201, r#"{"status":{"allowed":true}}"#));
            let absent_owners = Arc::new(AbsentOwnerCache::new(1));
            let context = bare_context(server.api(), graph_on(None, &absent_owners).await, absent_owners);
            let _reviewing = task(check_rights(server.api(), context.registry.clone()));
            let (_phase, phase) = watch::channel(Phase::Collecting);
            let mut finisher = Finisher::new(context, phase, Duration::ZERO);
            finisher.agenda.seen("ns", &Uid::parse("u").unwrap(), Duration::ZERO);
            let turn = finisher.agenda.next(Duration::ZERO).unwrap();
            for (code, reviews) in [(None, 1), (Some(500), 1), (Some(401), 1), (Some(403), 2), (Some(403), 3)]
            {
                let (class, action, target) = (ErrorClass::Denied, "DELETE", String::new());
                let error = ApiError { class, action, target, message: String::new(), code };
                assert!(finisher.ended(&turn, Err(Stop::Api(error))).is_none());
                sleep(BACKOFF.max * 2).await;
                assert_eq!(server.seen().len(), reviews * RIGHTS.len(), "{code:?}");
            }
        });
    }
}
