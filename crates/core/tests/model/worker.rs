//! The delete pool's worker. Each step is what happens between two moments at which a worker waits, so that
//! everything else can happen in between. Where its logic is in the core, it is called. The glue is mirrored,
//! and each function names the one of `crates/controller` or `crates/client` that it mirrors.

use std::rc::Rc;
use std::time::Duration;

use kube_gc_core::graph::{
    ExpectedChange, ForegroundProgress, OwnerState, ReferenceSnapshot, Snapshot, Verification,
};
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::DeletionState;
use kube_gc_core::verdict::{
    AfterConflict, Basis, Confirmation, Decision, Dependents, Precheck, ReferenceClass, after_conflict,
    after_patch, decide, from_live, named, precheck,
};

use super::cast::{self, Life, Owner, version};
use super::collector::{Collector, Confirmed, Pool, Reason, Watch};
use super::server::{Answer, Object, Request, Violation, Write};
use super::sketch::{Item, Second, Seen, Skip, Version};
use super::state::World;
use super::task::{
    Classified, DONE, Finalizer, Goal, Known, Next, Task, Then, Verdict, Worker, changed, retry,
};

/// Where the steps of one worker happen.
pub struct Desk<'a> {
    pub collector: &'a mut Collector,
    pub world: &'a mut World,
    pub under: u64,
}

impl Desk<'_> {
    /// `GraphHandle::look`.
    pub fn snapshot(&mut self, of: Life) -> Snapshot {
        self.collector.ask(of, |graph, effects| graph.snapshot_and_queue(&cast::key(of), effects))
    }

    /// `DeleteWork::attempt` and `object`.
    fn begin(&mut self, of: Life) -> Next {
        let item = match self.snapshot(of) {
            Snapshot::Gone | Snapshot::AwaitsEvent => return DONE,
            Snapshot::Virtual { identity, generation } => {
                let (owner, generation) = (cast::owner(&identity), Skip(generation));
                return Next::Go(Task::Verify { owner, generation });
            }
            Snapshot::Object(item) => Rc::new(Item(*item)),
        };
        match precheck(&item) {
            Precheck::Nothing(_) | Precheck::WaitForDependents(_) => DONE,
            Precheck::RemoveForegroundFinalizer | Precheck::AskForUnreadReferences => {
                Next::Go(Task::Finish(item))
            }
            Precheck::BreakDeadlock => self.stop_blocking(item.life(), item.version(), None),
            Precheck::Classify => {
                let classify = |seen: &ReferenceSnapshot| match named(&seen.owner) {
                    Err(class) => Ok((class, None)),
                    Ok((identity, state)) => {
                        let owner = cast::owner(identity);
                        let state = state.cloned().map_or_else(|| self.owner_state(owner), Seen);
                        self.collector.known(owner, &state, self.world.now()).ok_or(state)
                    }
                };
                let classified = item.references.iter().map(classify).collect();
                self.classified(item, classified)
            }
        }
    }

    /// `WriteGate::permit` and `Api::check_restore_fence`, right before the transport.
    pub fn send(&mut self, life: Life, version: Option<Version>, what: Write, then: Then) -> Next {
        if !self.collector.leads || !self.collector.fence.admits(self.under) {
            return changed();
        }
        let request = Request { life, version, what };
        self.world.say(|| format!("the collector sends {request}"));
        Next::Go(Task::Sent { request, then })
    }

    /// `GraphHandle::expect`.
    fn expect(&mut self, of: Life, change: &ExpectedChange) {
        let under = self.under;
        self.collector.ask(of, |graph, _| {
            if under >= graph.disturbance() {
                graph.expect_event(&cast::key(of), change);
            }
        });
    }

    fn expect_version(&mut self, object: &Object) {
        self.expect(object.life, &ExpectedChange::Version(version(object.version)));
    }

    /// `LookUps::look_up_unless`: a GET by the kind and the name. `None`: too early to say, or a restore.
    fn get_after(&mut self, owner: Owner, seen: Version) -> Option<Option<Rc<Object>>> {
        let found = self.get(owner)?;
        // `RestoreFence::proves_restore`.
        let still = self.collector.high_water[owner.life.kind()];
        if found.as_ref().is_some_and(|it| it.version < seen) && seen <= still {
            self.collector.report_restore();
            return None;
        }
        Some(found)
    }

    fn get(&mut self, owner: Owner) -> Option<Option<Rc<Object>>> {
        let found = self.world.server.get(owner).cloned();
        self.world.say(|| match &found {
            Some(object) => format!("the collector GETs {owner:?}: version {}", object.version.0),
            None => format!("the collector GETs {owner:?}: it does not exist"),
        });
        let unborn = self.world.server.conceived.contains(&Some(owner.life));
        if found.is_none() && unborn && !mutation::is(Mutation::UnbornIsAbsent) {
            return None;
        }
        if found.is_none() {
            self.collector.remember(owner);
        }
        Some(found)
    }

    /// `Confirmations::confirm`.
    fn confirm(&mut self, owner: Owner, seen: Seen, found: &Object) -> Option<Confirmed> {
        let (now, under) = (self.world.now(), self.collector.fence.acknowledged);
        let confirmation = Skip(Confirmation::new(seen.0.clone(), &cast::facts(found), now)?);
        let asked = Second(self.world.clock);
        let confirmed = Confirmed { confirmation, seen, live: found.version, asked, under };
        self.collector.confirmed.insert(owner, confirmed.clone());
        Some(confirmed)
    }

    /// `DeleteWork::classify`: the next look-up, or the decision.
    fn classified(&mut self, item: Rc<Item>, classified: Vec<Known>) -> Next {
        match classified.iter().cloned().collect::<Result<Vec<_>, _>>() {
            Ok(classified) => self.decide(item, &classified),
            Err(_) => Next::Go(Task::LookUp { item, classified }),
        }
    }

    /// `DeleteWork::look_up_owner`.
    fn look_up(&mut self, item: Rc<Item>, mut classified: Vec<Known>) -> Next {
        let Some(index) = classified.iter().position(Result::is_err) else { return changed() };
        let Err(state) = classified[index].clone() else { return changed() };
        let owner = cast::named(&item.references[index].reference);
        let found = match self.collector.known(owner, &state, self.world.now()) {
            Some(known) => known,
            None => match self.get_after(owner, state.0.version().into()) {
                None => return retry(Reason::Failed),
                Some(None) => (self.collector.unless_orphaned(owner, ReferenceClass::Absent), None),
                Some(Some(object)) => (from_live(&cast::facts(&object)), self.confirm(owner, state, &object)),
            },
        };
        for (place, seen) in classified.iter_mut().zip(&item.references) {
            if place.is_err() && cast::named(&seen.reference) == owner {
                *place = Ok(found.clone());
            }
        }
        self.classified(item, classified)
    }

    /// `GraphHandle::owner_state`.
    fn owner_state(&self, owner: Owner) -> Seen {
        Seen(self.collector.graph[cast::home(owner.life)].owner_state(&cast::identity(owner)))
    }

    /// `DeleteWork::decide`, and the beginning of `try_delete` and `remove_references`.
    fn decide(&mut self, item: Rc<Item>, classified: &[Classified]) -> Next {
        let classes: Vec<_> = classified.iter().map(|(class, _)| *class).collect();
        let owner = |index: usize| cast::named(&item.references[index].reference);
        // `deletion::waiting_owners`.
        let waits = |(index, (_, confirmed)): (usize, &Classified)| Some((owner(index), confirmed.clone()?));
        let waiting = classified.iter().enumerate().filter_map(waits).collect();
        let decision = decide(&item, &classes);
        self.world.say(|| format!("the collector decides on {:?}: {decision:?}", item.life()));
        let (goal, version) = match decision {
            Decision::Keep(_) | Decision::Report { .. } => return DONE,
            Decision::Park(_) => return retry(Reason::Failed),
            Decision::RemoveReferences { remove, confirm_solid } => {
                let gone =
                    |it: &usize| matches!(classes[*it], ReferenceClass::Absent | ReferenceClass::Orphaned);
                let for_good = remove.iter().all(gone);
                let remove = remove.into_iter().map(owner).collect();
                let version = Some(item.version()).filter(|_| !mutation::is(Mutation::PatchWithoutVersion));
                (Goal::Remove { remove, solid: confirm_solid.map(owner), for_good }, version)
            }
            Decision::Delete { policy, stop_blocking_first } => {
                (Goal::Delete { policy, stop_blocking_first }, Some(item.version()))
            }
        };
        let stops = matches!(goal, Goal::Delete { stop_blocking_first: true, .. });
        let basis = Basis::of(&item);
        let basis = Skip(if stops { basis.without_blocking() } else { basis });
        let verdict = Verdict { item, basis, waiting, version, conflicts: 0, goal };
        if stops {
            return self.stop_blocking(verdict.item.life(), verdict.item.version(), Some(verdict));
        }
        self.go_on(verdict)
    }

    fn stop_blocking(&mut self, life: Life, version: Version, verdict: Option<Verdict>) -> Next {
        self.send(life, Some(version), Write::StopBlocking, Then::StoppedBlocking(verdict))
    }

    /// If no owner has to wait, nothing is looked at before the request but the gate.
    fn go_on(&mut self, verdict: Verdict) -> Next {
        let looks = match &verdict.goal {
            Goal::Delete { .. } => !verdict.waiting.is_empty(),
            Goal::Remove { solid, .. } => solid.is_some(),
        };
        if looks { Next::Go(Task::Look(verdict)) } else { self.carry_out(verdict, false) }
    }

    fn carry_out(&mut self, verdict: Verdict, solid_seen: bool) -> Next {
        // Those that have waited within the last second.
        let waited = |owner: &Owner| self.world.server.waited.contains(&owner.life);
        let excused = verdict.waiting.iter().map(|(owner, _)| *owner).filter(waited).collect();
        let what = match &verdict.goal {
            Goal::Delete { policy, .. } => Write::Delete { policy: *policy, excused },
            Goal::Remove { remove, .. } => Write::Unref { remove: remove.clone(), excused, solid_seen },
        };
        self.send(verdict.item.life(), verdict.version, what, Then::Decided(verdict))
    }

    /// `DeleteWork::grown_old`. `None`: an owner no longer waits.
    fn grown_old(&self, owners: &mut [(Owner, Confirmed)]) -> Option<Vec<(usize, Seen)>> {
        let (now, mut old) = (self.world.now(), Vec::new());
        for (index, (owner, confirmed)) in owners.iter_mut().enumerate() {
            let state = self.owner_state(*owner);
            match &state.0 {
                OwnerState::Observed { deletion: DeletionState::DeletingDependents, .. }
                | OwnerState::Unknown => {}
                OwnerState::Observed { .. } | OwnerState::Absent => return None,
            }
            if confirmed.confirmation.stands(&state.0, now) {
                continue;
            }
            match self.collector.confirmation(*owner, &state, now) {
                Some(by_another) => *confirmed = by_another,
                None => old.push((index, state)),
            }
        }
        Some(old)
    }

    /// `DeleteWork::last_look` and `remove_beside`: old confirmations are renewed, or the request is sent. A
    /// DELETE with the uid alone takes five conflicts and is not modelled.
    fn look(&mut self, mut verdict: Verdict) -> Next {
        let Some(old) = self.grown_old(&mut verdict.waiting) else { return changed() };
        let is_old = !old.is_empty();
        for (index, state) in old {
            let owner = verdict.waiting[index].0;
            let found = self.get_after(owner, state.0.version().into()).flatten();
            let Some(confirmed) = found.and_then(|it| self.confirm(owner, state, &it)) else {
                return changed();
            };
            verdict.waiting[index].1 = confirmed;
        }
        let solid = match &verdict.goal {
            _ if is_old => return Next::Go(Task::Look(verdict)),
            Goal::Delete { .. } => None,
            Goal::Remove { solid, .. } => *solid,
        };
        // `DeleteWork::confirm_solid`.
        let is_solid = |it: Rc<Object>| from_live(&cast::facts(&it)) == ReferenceClass::Solid;
        if solid.is_some_and(|solid| !self.get(solid).flatten().is_some_and(is_solid)) {
            return changed();
        }
        self.carry_out(verdict, solid.is_some())
    }

    /// `DeleteWork::after_conflict`, and the read of `remove_at_rest`.
    fn reread(&mut self, mut verdict: Verdict) -> Next {
        let live = self.get(verdict.item.life().into()).flatten().map(|object| cast::facts(&object));
        let is_delete = matches!(verdict.goal, Goal::Delete { .. });
        let dependents = match is_delete.then(|| self.snapshot(verdict.item.life())) {
            None => Dependents::of(&verdict.item),
            Some(Snapshot::Object(now)) => Dependents::of(&now),
            Some(Snapshot::Gone | Snapshot::Virtual { .. }) => Dependents::default(),
            Some(Snapshot::AwaitsEvent) => return changed(),
        };
        let sent = verdict.version.map(version);
        match after_conflict(&verdict.basis, sent.as_ref(), live.as_ref(), dependents, verdict.conflicts) {
            AfterConflict::DeleteWith(current) => {
                verdict.version = Some(Some(&current).into());
                self.go_on(verdict)
            }
            AfterConflict::Absent => self.gone(&verdict),
            AfterConflict::BeingDeleted if is_delete => DONE,
            AfterConflict::BeingDeleted
            | AfterConflict::Backoff
            | AfterConflict::Reevaluate
            | AfterConflict::DeleteWithUidAlone => changed(),
        }
    }

    /// `Deleted::AlreadyGone` is reported, `Patched::Gone` is not.
    fn gone(&mut self, Verdict { item, goal, .. }: &Verdict) -> Next {
        if matches!(goal, Goal::Delete { .. }) {
            self.collector.verified(self.under, item.life().into(), item.generation);
        }
        DONE
    }

    /// `DeleteWork::still_unblocked`.
    fn finish(&mut self, item: &Item) -> Next {
        let Snapshot::Object(now) = self.snapshot(item.life()) else { return DONE };
        if (now.deletion, now.foreground)
            != (DeletionState::DeletingDependents, ForegroundProgress::Unblocked)
        {
            return DONE;
        }
        // The graph contradicts itself if it was shown one that blocks.
        let (mut blocking, of) = (Vec::new(), Owner::from(item.life()));
        let blocks =
            |it: &Object| it.life != of.life && it.refs.iter().any(|it| it.blocking && it.owner == of);
        for (kind, watch) in self.collector.watches.iter().enumerate() {
            let Watch::Watching { place, .. } = *watch else { continue };
            let shown = self.world.server.journals[kind].at(place);
            let still = |it: &Life| self.world.server.object(*it).is_some_and(|it| blocks(it));
            blocking.extend(shown.iter().filter(|it| blocks(it)).map(|it| it.life).filter(still));
        }
        let (life, known) = (item.life(), item.version());
        Next::Go(Task::Unfinalize(Finalizer { life, known, orphan: false, blocking, in_doubt: false }))
    }

    /// `Api::remove_finalizer`: the read, and the patch of what it shows.
    fn unfinalize(&mut self, finalizer: Finalizer) -> Next {
        let Finalizer { life, known, orphan, in_doubt, .. } = finalizer;
        let Some(found) = self.get_after(life.into(), known) else { return retry(Reason::Failed) };
        let Some(live) = found else { return DONE };
        let has = if orphan { live.finalizers.orphan } else { live.finalizers.foreground };
        if !live.deleting || !has {
            return self.finalized(&Answer::Unneeded(live), finalizer);
        }
        let what = Write::Finalize { orphan, blocking: finalizer.blocking.clone() };
        let next = self.send(life, Some(live.version), what, Then::Finalized(finalizer));
        // `may_have_orphaned`: nothing was sent.
        if orphan && !in_doubt && matches!(next, Next::Done(_)) {
            self.collector.orphaned.remove(&life.into());
        }
        next
    }

    /// `worker::after_finalizer_removal`.
    fn finalized(&mut self, answer: &Answer, finalizer: Finalizer) -> Next {
        let Finalizer { life, known, orphan, in_doubt, .. } = finalizer;
        match answer {
            Answer::Conflict => return Next::Go(Task::Unfinalize(finalizer)),
            Answer::Unneeded(_) if orphan && !in_doubt => _ = self.collector.orphaned.remove(&life.into()),
            _ => {}
        }
        match answer {
            Answer::Removed(it) | Answer::Changed(it) | Answer::Unneeded(it) if it.version > known => {
                self.expect_version(it);
            }
            Answer::Removed(_) | Answer::Changed(_) => self.expect(life, &ExpectedChange::Removed),
            Answer::Gone | Answer::Unneeded(_) | Answer::Conflict => {}
        }
        DONE
    }

    /// The next step of a worker.
    ///
    /// # Errors
    /// A write breaks a rule.
    pub fn step(&mut self, Worker { pool, life, task, .. }: &Worker) -> Result<Next, Violation> {
        Ok(match task.clone() {
            Task::Begin if *pool == Pool::Orphan => self.begin_orphaning(*life),
            Task::Begin => self.begin(*life),
            // `DeleteWork::verify`.
            Task::Verify { owner, generation } => match self.get(owner) {
                None => retry(Reason::Failed),
                Some(Some(_)) => retry(Reason::NotObserved),
                Some(None) => Next::Go(Task::Report { owner, generation }),
            },
            Task::Report { owner, generation } => {
                match self.collector.verified(self.under, owner, *generation) {
                    Verification::Applied | Verification::Stale => DONE,
                    Verification::Retry => retry(Reason::NotObserved),
                }
            }
            Task::LookUp { item, classified } => self.look_up(item, classified),
            Task::Look(verdict) => self.look(verdict),
            Task::Reread(verdict) => self.reread(verdict),
            Task::Finish(item) => self.finish(&item),
            Task::Unfinalize(finalizer) => self.unfinalize(finalizer),
            Task::Orphan(orphaning) => self.orphan(orphaning),
            Task::Sent { request, then } => {
                Next::Go(Task::Answered { answer: self.world.effect(&request)?, then })
            }
            Task::Answered { answer, then } => self.answered(answer, then),
        })
    }

    fn answered(&mut self, answer: Answer, then: Then) -> Next {
        use Answer::{Changed, Conflict, Gone, Removed, Unneeded};
        match (then, answer) {
            (Then::Decided(it), Conflict) => match &it.goal {
                Goal::Remove { for_good: false, .. } => changed(),
                Goal::Remove { .. } if it.version.is_none() => changed(),
                _ => Next::Go(Task::Reread(Verdict { conflicts: it.conflicts + 1, ..it })),
            },
            (Then::Decided(it), Gone) => self.gone(&it),
            (Then::Decided(it), Removed(_)) => {
                self.expect(it.item.life(), &ExpectedChange::Removed);
                DONE
            }
            (
                Then::Decided(Verdict { goal: Goal::Remove { .. }, .. }) | Then::StoppedBlocking(None),
                Unneeded(_),
            ) => DONE,
            (Then::Decided(_) | Then::StoppedBlocking(None), Changed(it) | Unneeded(it)) => {
                self.expect_version(&it);
                DONE
            }
            (Then::StoppedBlocking(Some(verdict)), Changed(it) | Unneeded(it)) => {
                match after_patch(&verdict.basis, &cast::facts(&it)) {
                    Some(patched) => self.go_on(Verdict { version: Some(Some(&patched).into()), ..verdict }),
                    None => changed(),
                }
            }
            (Then::StoppedBlocking(None), Gone | Removed(_)) => DONE,
            (Then::StoppedBlocking(_), Conflict | Gone | Removed(_)) => changed(),
            (Then::Finalized(finalizer), answer) => self.finalized(&answer, finalizer),
            (Then::Released(orphaning), answer) => {
                if let Changed(it) = answer {
                    self.expect_version(&it);
                }
                self.release(orphaning)
            }
        }
    }
}

impl World {
    /// The clock of the confirmations.
    fn now(&self) -> Duration {
        Duration::from_secs(u64::from(self.clock))
    }
}
