//! Plans of random graphs against a naive collector, which works on one object after the other in
//! a random order. `tests/insight/proof` does the same with the real one.

use super::*;
use kube_gc_core::graph::testing::world::*;
use kube_gc_core::graph::{ForegroundProgress, Generation, ObjectSnapshot, OwnerView, ReferenceSnapshot};
use kube_gc_core::object::PropagationPolicy::{Background, Foreground, Orphan};
use kube_gc_core::object::{DeletionState, Finalizers, OwnerReference};
use kube_gc_core::verdict::{Decision, ReferenceClass, decide};

const POLICIES: [PropagationPolicy; 3] = [Background, Foreground, Orphan];
const GRAPHS: u64 = 1000;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
    fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    /// `None` for an owner whose kind is not served.
    owner: Option<usize>,
    blocking: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Item {
    exists: bool,
    deleted: bool,
    finalizers: Finalizers,
    held: bool,
    links: Vec<Link>,
}

impl Item {
    fn state(&self) -> DeletionState {
        DeletionState::derive(self.deleted, self.finalizers)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Model(Vec<Item>);

impl Model {
    fn draw(random: &mut Random) -> Self {
        let count = 2 + random.below(5);
        let mut items = Vec::new();
        for place in 0..count {
            let mut links = Vec::new();
            for _ in 0..[0, 1, 1, 1, 2, 2, 3][random.below(7)] {
                let owner =
                    if place == 0 || random.percent(15) { random.below(count) } else { random.below(place) };
                let owner = (!random.percent(5)).then_some(owner);
                links.push(Link { owner, blocking: random.percent(55) });
            }
            let orphan = random.percent(8);
            let finalizers = Finalizers { foreground: !orphan && random.percent(6), orphan };
            let held = random.percent(18);
            items.push(Item { exists: true, deleted: false, finalizers, held, links });
        }
        let mut model = Self(items);
        for place in 0..count {
            if model.0[place].held && random.percent(15) {
                model.delete(place, POLICIES[random.below(3)]);
            }
        }
        model
    }

    fn delete(&mut self, place: usize, policy: PropagationPolicy) {
        let item = &mut self.0[place];
        item.deleted = true;
        item.finalizers = Finalizers { foreground: policy == Foreground, orphan: policy == Orphan };
        self.finish(place);
    }

    fn finish(&mut self, place: usize) {
        let item = &mut self.0[place];
        if item.deleted && !item.held && item.finalizers == Finalizers::default() {
            item.exists = false;
        }
    }

    fn dependents(&self, owner: usize) -> impl Iterator<Item = (usize, &Link)> {
        let all = self.0.iter().enumerate().filter(move |(place, item)| item.exists && *place != owner);
        all.flat_map(|(place, item)| item.links.iter().map(move |link| (place, link)))
            .filter(move |(_, link)| link.owner == Some(owner))
    }

    /// Whether blocking references lead from an object back to it, by objects that wait.
    fn is_in_cycle(&self, start: usize) -> bool {
        let waits = |place: usize| self.0[place].state() == DeletionState::DeletingDependents;
        let (mut seen, mut open) = (vec![false; self.0.len()], vec![start]);
        while let Some(place) = open.pop() {
            for (next, link) in self.dependents(place) {
                if link.blocking && waits(next) {
                    if next == start {
                        return true;
                    }
                    if !std::mem::replace(&mut seen[next], true) {
                        open.push(next);
                    }
                }
            }
        }
        false
    }

    /// One step of work on one object.
    fn work(&mut self, place: usize, random: &mut Random) {
        if !self.0[place].exists {
            return;
        }
        match self.0[place].state() {
            DeletionState::Terminating => {}
            DeletionState::Orphaning => {
                let left: Vec<usize> = self.dependents(place).map(|(dependent, _)| dependent).collect();
                if left.is_empty() {
                    self.0[place].finalizers.orphan = false;
                    self.finish(place);
                } else {
                    let released = left[random.below(left.len())];
                    self.0[released].links.retain(|link| link.owner != Some(place));
                }
            }
            DeletionState::DeletingDependents => {
                let blocking: Vec<usize> = self
                    .dependents(place)
                    .filter(|(_, link)| link.blocking)
                    .map(|(place, _)| place)
                    .collect();
                if blocking.is_empty() {
                    self.0[place].finalizers.foreground = false;
                    self.finish(place);
                } else if self.is_in_cycle(place)
                    && blocking
                        .iter()
                        .all(|&other| self.0[other].state() == DeletionState::DeletingDependents)
                {
                    self.0[place].links.iter_mut().for_each(|link| link.blocking = false);
                }
            }
            DeletionState::Live => self.judge(place),
        }
    }

    fn judge(&mut self, place: usize) {
        let item = &self.0[place];
        let class = |link: &Link| match link.owner.map(|owner| &self.0[owner]) {
            None => ReferenceClass::Unresolved,
            Some(owner) if !owner.exists => ReferenceClass::Absent,
            Some(owner) if owner.state() == DeletionState::DeletingDependents => ReferenceClass::Waiting,
            Some(_) => ReferenceClass::Solid,
        };
        let classes: Vec<ReferenceClass> = item.links.iter().map(class).collect();
        let reference = |link: &Link| ReferenceSnapshot {
            reference: OwnerReference { block_owner_deletion: link.blocking, ..config("x").reference() },
            owner: OwnerView::Unresolved,
        };
        let deletes_dependents =
            |dependent: usize| self.0[dependent].state() == DeletionState::DeletingDependents;
        let snapshot = ObjectSnapshot {
            identity: config("x").identity(),
            resource_version: None,
            generation: Generation(0),
            deletion: item.state(),
            finalizers: item.finalizers,
            references: item.links.iter().map(reference).collect(),
            has_dependents: self.dependents(place).next().is_some(),
            has_dependent_deleting_dependents: self
                .dependents(place)
                .any(|(dependent, _)| deletes_dependents(dependent)),
            foreground: ForegroundProgress::Unblocked,
        };
        match decide(&snapshot, &classes) {
            Decision::Keep(_) | Decision::Park(_) | Decision::Report { .. } => {}
            Decision::RemoveReferences { remove, .. } => {
                let mut index = 0;
                self.0[place].links.retain(|_| {
                    index += 1;
                    !remove.contains(&(index - 1))
                });
            }
            Decision::Delete { policy, stop_blocking_first } => {
                if stop_blocking_first {
                    self.0[place].links.iter_mut().for_each(|link| link.blocking = false);
                }
                self.delete(place, policy);
            }
        }
    }

    /// Works until nothing changes any more.
    fn rest(&mut self, random: &mut Random) {
        loop {
            let before = self.clone();
            for _ in 0..4 * self.0.len() {
                let place = random.below(self.0.len());
                self.work(place, random);
            }
            if *self == before {
                (0..self.0.len()).for_each(|place| self.work(place, random));
                if *self == before {
                    return;
                }
            }
        }
    }

    fn release(&mut self) {
        for place in 0..self.0.len() {
            self.0[place].held = false;
            self.finish(place);
        }
    }

    fn object(&self, place: usize) -> Obj {
        let item = &self.0[place];
        let mut object = config(&format!("o{place}"));
        for link in &item.links {
            let reference = match link.owner {
                Some(owner) => config(&format!("o{owner}")).reference(),
                None => OwnerReference { kind: "Nonsense".into(), ..config("x").reference() },
            };
            object = object.with(OwnerReference { block_owner_deletion: link.blocking, ..reference });
        }
        object.facts.finalizers = item.finalizers;
        object.facts.held_by_others = item.held;
        object.facts.being_deleted = item.deleted;
        object
    }

    fn plan(&self, root: usize, policy: PropagationPolicy) -> Plan {
        let objects: Vec<Obj> =
            (0..self.0.len()).filter(|&place| self.0[place].exists).map(|place| self.object(place)).collect();
        let mut cluster = Cluster::of(&objects.iter().collect::<Vec<_>>());
        for object in objects.iter().filter(|object| object.facts.held_by_others) {
            cluster = cluster.read(object, &["example.com/hold"]);
        }
        cluster.plan(&self.object(root), policy)
    }
}

/// Fails unless an object is as planned.
fn check(plan: &Plan, place: usize, before: &Model, now: &Model, is_released: bool) -> Result<(), String> {
    let had_deleted = before.0.iter().any(|item| item.exists && item.deleted);
    let name = format!("o{place}");
    let planned = plan.objects.iter().find(|object| object.name.name == name);
    let (was, is) = (&before.0[place], &now.0[place]);
    let wrong = |what: &str| {
        let effect = planned.map(|planned| (planned.effect, planned.after.as_ref().map(|after| &after.name)));
        Err(format!("{name} is planned to be {effect:?}, and {what} (released: {is_released})"))
    };
    let Some(object) = planned else {
        let same = is.exists && is.deleted == was.deleted && is.links == was.links;
        return if same || (is_released && had_deleted) { Ok(()) } else { wrong("changes") };
    };
    // What it waits for may wait itself, and in the end for an object that blocks.
    let planned_as = |name: &ObjectName| plan.objects.iter().find(|other| other.name == *name);
    let after = |object: &&PlannedObject| object.after.as_ref().and_then(planned_as);
    let mut chain = std::iter::successors(Some(object), after).take(plan.objects.len() + 1);
    let is_blocked = chain.any(|waited_for| waited_for.effect == Effect::Blocks);
    match object.effect {
        Effect::Unknown => Ok(()),
        Effect::Held if !is_released && !is.exists => wrong("is gone"),
        Effect::Held if !is_released => Ok(()),
        Effect::Deleted | Effect::Held if !is.exists => Ok(()),
        Effect::Deleted if !is_released && object.after.is_some() => Ok(()),
        Effect::Deleted | Effect::Held if is_blocked => Ok(()),
        Effect::Deleted | Effect::Held => wrong("is still there"),
        Effect::Orphaned | Effect::Kept | Effect::Blocks => {
            if !is.exists {
                return if is_released && had_deleted { Ok(()) } else { wrong("is gone") };
            }
            for owner in 0..before.0.len() {
                let count = |item: &Item| item.links.iter().filter(|link| link.owner == Some(owner)).count();
                let named = |names: &[ObjectName]| {
                    names.iter().filter(|other| other.name == format!("o{owner}")).count()
                };
                let may_wait = !is_released && now.0[owner].exists;
                let most = count(was) - if may_wait { 0 } else { named(&object.loses) };
                let least = if had_deleted { 0 } else { count(was) };
                let least = least.saturating_sub(named(&object.loses) + named(&object.may_lose));
                if !(least..=most).contains(&count(is)) {
                    return wrong(&format!(
                        "has {} references to o{owner}, not {least} to {most}",
                        count(is)
                    ));
                }
            }
            if is.deleted == was.deleted { Ok(()) } else { wrong("is deleted") }
        }
    }
}

#[test]
fn plans_of_random_graphs_come_true_in_a_naive_collector() {
    let (mut all, mut unknown) = (0, 0);
    for seed in 0..GRAPHS {
        let random = &mut Random(seed.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        let mut before = Model::draw(random);
        before.rest(random);
        for root in (0..before.0.len()).filter(|&root| before.0[root].exists) {
            for policy in POLICIES {
                let plan = before.plan(root, policy);
                all += plan.objects.len();
                unknown += plan.objects.iter().filter(|object| object.effect == Effect::Unknown).count();
                for order in 0..2 {
                    let mut now = before.clone();
                    now.delete(root, policy);
                    now.rest(random);
                    let idle = now.clone();
                    now.release();
                    now.rest(random);
                    for place in (0..before.0.len()).filter(|&place| before.0[place].exists) {
                        for (state, is_released) in [(&idle, false), (&now, true)] {
                            let checked = check(&plan, place, &before, state, is_released);
                            assert_eq!(
                                checked,
                                Ok(()),
                                "seed {seed}, root o{root}, {policy}, order {order}: {before:?} {state:?}"
                            );
                        }
                    }
                }
            }
        }
    }
    assert!(unknown * 20 < all, "too much is unknown: {unknown} of {all}");
}
