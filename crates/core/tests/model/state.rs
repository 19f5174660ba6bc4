//! A state of the whole model, what can happen in it, and what follows.

use std::rc::Rc;

use kube_gc_core::mailbox::Completion;
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::PropagationPolicy::{self, Background, Foreground, Orphan};

use super::cast::{self, LIVES, Life, SLOTS, Slot, TYPES};
use super::collector::{Collector, Pool, Reason, Watch};
use super::scenes::{Op, Scene};
use super::server::{Answer, Request, Server, Violation, finalizers};
use super::sketch::Version;
use super::task::{Next, Task, Worker};
use super::worker::Desk;

/// One thing that can happen. The first number of a collector's is which one, the next which type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    // Users.
    Delete(Slot, PropagationPolicy),
    /// With the references of the first life of the name, or with those to what exists now.
    Create(Slot, bool),
    Touch(Slot),
    Drop(Slot, u8),
    Refer(Slot, Slot),
    Block(Slot, u8),
    Unhold(Slot),
    /// The finalizer `orphan`, on an object that is not deleted.
    Protect(Slot),
    /// The uid is assigned; the object is in admission.
    Conceive(Slot),
    // How an admission ends.
    Bear(Slot),
    Miscarry(Slot),
    // The collector.
    Deliver(u8, u8),
    List(u8, u8, u8),
    ListEnd(u8, u8),
    Check(u8, u8),
    Acknowledge(u8),
    Rebuild(u8),
    /// A partition hears from the other.
    Link(u8),
    Take(u8, Pool, Life),
    Work(u8, Pool, Life),
    /// The first delay of a mailbox is over.
    Due(u8, Pool),
    /// A second passes.
    Tick,
    /// A request that nobody waits for any more takes effect.
    Late(u8),
    // Faults.
    Expire(u8, u8),
    Repeat(u8, u8),
    Break(u8, u8),
    Lose(u8, Pool, Life),
    Crash,
    Handover,
    Restore(bool),
}

impl Choice {
    pub const fn is_user(self) -> bool {
        use Choice::{Block, Conceive, Create, Delete, Drop, Protect, Refer, Touch, Unhold};
        let a_change = matches!(self, Touch(_) | Drop(..) | Refer(..) | Block(..) | Unhold(_) | Protect(_));
        a_change || matches!(self, Delete(..) | Create(..) | Conceive(_))
    }
    pub const fn is_fault(self) -> bool {
        use Choice::{Break, Crash, Expire, Handover, Lose, Repeat, Restore};
        matches!(self, Expire(..) | Repeat(..) | Break(..) | Lose(..) | Crash | Handover | Restore(_))
    }
    /// Whether it happens sooner or later if nobody interferes.
    pub const fn is_due(self) -> bool {
        !self.is_user() && !self.is_fault() && !matches!(self, Self::Late(_))
    }
}

/// What is not the collector's own.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub server: Server,
    pub clock: u32,
    pub late: Vec<Request>,
    /// What has happened, if somebody wants to read it.
    pub story: Option<Vec<String>>,
}

impl World {
    pub fn say(&mut self, what: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(what());
        }
    }

    pub fn effect(&mut self, request: &Request) -> Result<Answer, Violation> {
        let answer = self.server.effect(request);
        self.say(|| match &answer {
            Ok(Answer::Gone) => format!("{request} → 404"),
            Ok(Answer::Conflict) => format!("{request} → 409"),
            Ok(Answer::Removed(_)) => format!("{request} → 200, removed"),
            Ok(Answer::Changed(it) | Answer::Unneeded(it)) => {
                format!("{request} → 200, version {}", it.version.0)
            }
            Err(_) => format!("{request} takes effect"),
        });
        answer
    }
}

#[derive(Clone, Debug)]
pub struct State {
    pub world: World,
    pub collectors: Vec<Collector>,
    pub users: u8,
    pub faults: u8,
}

impl State {
    /// Everything exists, and the collectors have seen it and done what follows.
    ///
    /// # Errors
    /// A write breaks a rule.
    pub fn new(scene: &Scene) -> Result<Self, Violation> {
        let mut server = Server { version: Version(10), ..Server::default() };
        for slot in scene.slots() {
            server.next[usize::from(slot)] = 1;
            if scene.parts[usize::from(slot)].exists {
                server.create(scene, Life { slot, number: 0 }, false);
            }
        }
        server.backup = Some(Rc::new(server.clone()));
        let collectors =
            (0..=u8::from(scene.standby)).map(|place| Collector::new(place == 0, scene.kinds())).collect();
        let mut state = Self { world: World { server, ..World::default() }, collectors, users: 0, faults: 0 };
        state.settle(scene)?;
        (state.users, state.faults) = (scene.users, scene.faults);
        Ok(state)
    }

    /// Does what is due, in a fair order, until nothing is, or only what has been tried in vain.
    ///
    /// # Errors
    /// A write breaks a rule.
    pub fn settle(&mut self, scene: &Scene) -> Result<(), Violation> {
        let mut seen = Vec::new();
        while let Some(next) = self.choices(scene).into_iter().find(|choice| choice.is_due()) {
            // All that is more urgent has been done.
            if matches!(next, Choice::Due(..)) {
                let digest = super::sketch::digest(self);
                if seen.contains(&digest) {
                    break;
                }
                seen.push(digest);
            }
            self.apply(scene, next)?;
        }
        Ok(())
    }

    /// All that can happen now. What is due comes first, the most urgent before all.
    pub fn choices(&self, scene: &Scene) -> Vec<Choice> {
        let (mut all, mut delays) = (Vec::new(), Vec::new());
        for slot in scene.slots().filter(|slot| self.world.server.conceived[usize::from(*slot)].is_some()) {
            all.extend([Choice::Bear(slot), Choice::Miscarry(slot)]);
        }
        for (number, collector) in self.collectors.iter().enumerate() {
            self.steps(number as u8, collector, &mut all, &mut delays);
        }
        let is_young =
            |collector: &Collector| collector.confirmed.values().any(|it| it.asked.0 == self.world.clock);
        all.extend(self.collectors.iter().any(is_young).then_some(Choice::Tick));
        all.append(&mut delays);
        all.extend((0..self.world.late.len() as u8).map(Choice::Late));
        if self.users > 0 {
            scene.slots().for_each(|slot| self.operations(scene, slot, &mut all));
        }
        if self.faults > 0 {
            self.disruptions(scene, &mut all);
        }
        all
    }

    fn steps(&self, number: u8, collector: &Collector, all: &mut Vec<Choice>, delays: &mut Vec<Choice>) {
        let server = &self.world.server;
        if collector.fence.restored {
            return all.push(Choice::Rebuild(number));
        }
        all.extend(collector.fence.is_news().then_some(Choice::Acknowledge(number)));
        for (kind, watch) in collector.watches.iter().enumerate() {
            let of = kind as u8;
            all.extend(collector.next_event(kind, server).is_some().then_some(Choice::Deliver(number, of)));
            match watch {
                Watch::Unlisted { least } => {
                    let places = collector.listable(kind, *least, server);
                    all.extend(places.map(|place| Choice::List(number, of, place as u8)));
                }
                Watch::Listing { .. } => all.push(Choice::ListEnd(number, of)),
                Watch::Watching { broken: true, .. } | Watch::Lost => all.push(Choice::Check(number, of)),
                Watch::Watching { broken: false, .. } => {}
            }
        }
        all.extend((!collector.outbox.is_empty()).then_some(Choice::Link(number)));
        // `GraphHandle::fence`.
        let is_free = |worker: &&Rc<Worker>| collector.outbox.is_empty() || !worker.task.waits_for_links();
        all.extend(
            collector
                .workers
                .iter()
                .filter(is_free)
                .map(|worker| Choice::Work(number, worker.pool, worker.life)),
        );
        for pool in [Pool::Delete, Pool::Orphan].into_iter().filter(|_| collector.open && collector.leads) {
            let places = collector.places(pool);
            let ready = places.iter().filter(|(_, place)| *place == 0);
            all.extend(ready.map(|&(life, _)| Choice::Take(number, pool, life)));
            delays.extend(places.iter().any(|(_, place)| *place >= 8).then_some(Choice::Due(number, pool)));
        }
    }

    fn operations(&self, scene: &Scene, slot: Slot, all: &mut Vec<Choice>) {
        let (server, place) = (&self.world.server, usize::from(slot));
        let mut add = |op, choice| all.extend(scene.may(op).then_some(choice));
        let Some(object) = &server.objects[place] else {
            if server.conceived[place].is_none() && server.next[place] < LIVES {
                add(Op::Create, Choice::Create(slot, false));
                add(Op::Create, Choice::Create(slot, true));
                add(Op::Conceive, Choice::Conceive(slot));
            }
            return;
        };
        for policy in [Background, Foreground, Orphan] {
            if !object.deleting || object.finalizers != finalizers(policy) {
                add(Op::Delete(policy), Choice::Delete(slot, policy));
            }
        }
        for index in 0..object.refs.len() as u8 {
            add(Op::Drop, Choice::Drop(slot, index));
            add(Op::Block, Choice::Block(slot, index));
        }
        for to in scene.slots().filter(|_| object.refs.len() < SLOTS) {
            let is_new = |life| object.refs.iter().all(|it| it.owner.life != life);
            if server.life_of(to).is_some_and(is_new) {
                add(Op::Refer, Choice::Refer(slot, to));
            }
        }
        add(Op::Touch, Choice::Touch(slot));
        if !object.deleting && !object.finalizers.orphan {
            add(Op::Protect, Choice::Protect(slot));
        }
        all.extend(object.held.then_some(Choice::Unhold(slot)));
    }

    fn disruptions(&self, scene: &Scene, all: &mut Vec<Choice>) {
        let mut add = |op, choice| all.extend(scene.may(op).then_some(choice));
        for (number, collector) in self.collectors.iter().enumerate() {
            let number = number as u8;
            for (kind, watch) in collector.watches.iter().take(collector.kinds).enumerate() {
                let Watch::Watching { place, broken: false } = *watch else { continue };
                add(Op::Expire, Choice::Expire(number, kind as u8));
                add(Op::Break, Choice::Break(number, kind as u8));
                if place > 0 {
                    add(Op::Repeat, Choice::Repeat(number, kind as u8));
                }
            }
            for worker in &collector.workers {
                if matches!(worker.task, Task::Sent { .. } | Task::Answered { .. }) {
                    add(Op::Lose, Choice::Lose(number, worker.pool, worker.life));
                }
            }
        }
        add(Op::Crash, Choice::Crash);
        add(Op::Restore, Choice::Restore(false));
        add(Op::Restore, Choice::Restore(true));
        all.extend((self.collectors.len() > 1).then_some(Choice::Handover));
    }

    /// Lets one thing happen.
    ///
    /// # Errors
    /// A write breaks a rule.
    pub fn apply(&mut self, scene: &Scene, choice: Choice) -> Result<(), Violation> {
        self.users -= u8::from(choice.is_user());
        self.faults -= u8::from(choice.is_fault());
        let Self { world, collectors, .. } = self;
        if !matches!(choice, Choice::Deliver(..) | Choice::Work(..) | Choice::Late(_)) {
            world.say(|| choice.words());
        }
        let at = |number: u8| usize::from(number);
        match choice {
            Choice::Take(number, pool, life) => {
                let collector = &mut collectors[at(number)];
                collector.pop(pool, &cast::key(life));
                let under = collector.fence.acknowledged;
                self.work(number, &Worker { pool, life, under, task: Task::Begin })?;
            }
            Choice::Work(number, pool, life) => {
                let workers = &mut collectors[at(number)].workers;
                let worker = workers.extract_if(.., |it| (it.pool, it.life) == (pool, life)).next();
                worker.map_or(Ok(()), |worker| self.work(number, &worker))?;
            }
            Choice::Late(index) => {
                let request = world.late.remove(at(index));
                world.effect(&request)?;
            }
            Choice::Deliver(number, kind) => {
                let event = collectors[at(number)].next_event(at(kind), &world.server).cloned();
                let Some(event) = event else { return Ok(()) };
                world.say(|| format!("a watch shows {event}"));
                collectors[at(number)].deliver(at(kind), &event);
            }
            Choice::List(number, kind, place) => {
                collectors[at(number)].list(at(kind), &world.server, at(place));
            }
            Choice::ListEnd(number, kind) => collectors[at(number)].list_ended(at(kind)),
            Choice::Check(number, kind) => collectors[at(number)].check(at(kind), &world.server),
            Choice::Acknowledge(number) => collectors[at(number)].acknowledge(),
            Choice::Link(number) => collectors[at(number)].link(),
            Choice::Rebuild(number) => world.late.extend(collectors[at(number)].rebuild()),
            Choice::Due(number, pool) => collectors[at(number)].due(pool),
            Choice::Tick => {
                world.clock += 1;
                world.server.second();
                let forgotten = collectors.iter_mut().filter(|_| !mutation::is(Mutation::ConfirmForEver));
                forgotten.for_each(|collector| collector.confirmed.clear());
            }
            Choice::Expire(number, kind) => {
                let watch = &mut collectors[at(number)].watches[at(kind)];
                let Watch::Watching { place, .. } = *watch else { return Ok(()) };
                let place = if mutation::is(Mutation::ResumeAfterGap) {
                    world.server.journals[at(kind)].events.len()
                } else {
                    place
                };
                *watch = if mutation::is(Mutation::ResumeAfterGap) {
                    Watch::Watching { place, broken: false }
                } else {
                    Watch::Unlisted { least: place }
                };
            }
            Choice::Repeat(number, kind) => {
                if let Watch::Watching { place, .. } = &mut collectors[at(number)].watches[at(kind)] {
                    *place -= 1;
                }
            }
            Choice::Break(number, kind) => world.late.extend(collectors[at(number)].disturb(&[at(kind)])),
            Choice::Lose(number, pool, life) => {
                let lost = Completion::retry(Reason::Failed, "no answer");
                collectors[at(number)].finish(pool, life, lost);
            }
            Choice::Crash | Choice::Handover => {
                world.late.extend(collectors.remove(0).give_up(true));
                world.server.orphaned.clear();
                match collectors.first_mut() {
                    None => collectors.push(Collector::new(true, scene.kinds())),
                    Some(next) => {
                        next.leads = true;
                        if next.open {
                            next.rederive();
                        }
                    }
                }
            }
            Choice::Restore(raised) => {
                collectors.iter_mut().for_each(|collector| collector.lose(&world.server));
                world.late.clear();
                world.server.restore(raised);
            }
            _ => world.server.operate(scene, choice),
        }
        self.trim();
        Ok(())
    }

    fn work(&mut self, number: u8, worker: &Worker) -> Result<(), Violation> {
        let collector = &mut self.collectors[usize::from(number)];
        let next = Desk { collector, world: &mut self.world, under: worker.under }.step(worker)?;
        let collector = &mut self.collectors[usize::from(number)];
        match next {
            Next::Done(completion) => collector.finish(worker.pool, worker.life, completion),
            Next::Go(task) => {
                collector.workers.push(Rc::new(Worker { task, ..*worker }));
                collector.workers.sort_by_key(|worker| (worker.pool, worker.life));
            }
        }
        Ok(())
    }

    /// Forgets events that no watch and no list can show any more. As long as there may be a fault, one that
    /// was shown is kept, to be shown again.
    fn trim(&mut self) {
        for kind in 0..TYPES {
            let places =
                self.collectors.iter_mut().filter_map(|collector| match &mut collector.watches[kind] {
                    Watch::Unlisted { least: place }
                    | Watch::Listing { place, .. }
                    | Watch::Watching { place, .. } => Some(place),
                    Watch::Lost => None,
                });
            let places: Vec<&mut usize> = places.collect();
            let journal = &mut self.world.server.journals[kind];
            let shown = places.iter().map(|place| **place).min().unwrap_or_default();
            let is_kept = self.faults > 0 || mutation::is(Mutation::TrustOldList);
            let count = shown.saturating_sub(usize::from(is_kept)).min(journal.events.len());
            journal.trim(count);
            places.into_iter().for_each(|place| *place -= count);
        }
    }
}
