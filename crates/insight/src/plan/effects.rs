//! The effect on each object, by the collector's own verdict.
//!
//! The collector works on many objects at once, in any order. An object surely goes if it does in
//! every order, and may go if it does in some. The two differ only below objects that carry the
//! finalizer `orphan`, and where an owner could not be looked at.

use std::collections::BTreeMap;

use crate::finalizers::FinalizerReport;
use crate::judge::verdict;
use crate::knowledge::{Asker, Live};
use crate::name::ObjectName;
use crate::plan::answer::{self, Effect, Plan, PlannedObject, TypeEffects, Verdict, is_precious};
use crate::plan::walk::{Index, Met, Owner, Reference, Visited, Walk, as_definition, as_namespace, outside};
use kube_gc_core::object::{
    DeletionState, FOREGROUND_FINALIZER, GroupResource, Namespace, ORPHAN_FINALIZER, PropagationPolicy,
};
use kube_gc_core::text::listed;
use kube_gc_core::verdict::{Decision, ReferenceClass};

/// The finalizer of a definition, which the API server removes when its type has no objects.
const DEFINITION_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
/// The most claims, namespaces and definitions that are always listed.
const MOST_PRECIOUS: usize = 10_000;
/// The most owners that are named for each object.
const NAMED: usize = 64;
/// Why something happens to an object that the collector parks.
const UNDECIDED: &str = "the collector cannot decide about it: an owner cannot be resolved";

/// What the deletion of the roots does to each object that a walk has visited. Lists the claims,
/// namespaces and definitions that go, and at most `limit` others. An incomplete plan is returned if more
/// facts are needed.
pub fn plan(asker: &mut Asker<'_>, walk: &Walk, limit: usize) -> Plan {
    let mut plan = Plan {
        cascade: walk.query.policy.into(),
        truncated: walk.truncated,
        depends_on_unseen: walk.truncated || !asker.outside().is_empty(),
        ..Plan::default()
    };
    let mut names = walk.query.roots.iter().map(ObjectName::from);
    plan.object = names.next().unwrap_or_default();
    plan.others = names.collect();
    let all: Vec<_> = walk.query.roots.iter().map(|root| (root, asker.live(root))).collect();
    let is_found = |live: Option<&Live>| matches!(live, Some(Live::Found(_)));
    if let Some((root, live)) = all.into_iter().find(|(_, live)| !is_found(*live)) {
        let root = ObjectName::from(root);
        if matches!(live, Some(Live::Absent(_))) {
            plan.exists = Some(false);
            plan.verdict = format!("{root} does not exist.");
        } else {
            plan.verdict = format!("{root} could not be looked at.");
            plan.depends_on_unseen = true;
        }
        return plan;
    }
    plan.exists = Some(true);
    let Some(mut effects) = Effects::of(asker, walk) else { return plan };
    effects.find_who_is_held(asker);
    effects.find_who_stays();
    effects.find_who_waits();
    effects.write(asker, &mut plan, limit);
    plan
}

/// What happens to each object that was visited, by its place.
struct Effects<'a> {
    walk: &'a Walk,
    /// The dependents of each object, once for each reference, and whether it blocks.
    dependents: Vec<Vec<(Index, bool)>>,
    /// The objects in each namespace, and of each definition.
    contents: Vec<Vec<Index>>,
    /// What each reference of each object refers to.
    owners: Vec<Vec<Met>>,
    /// Goes in every order.
    sure: Vec<bool>,
    /// Goes in some order.
    may: Vec<bool>,
    /// How each object that may go is deleted.
    modes: Vec<Mode>,
    /// Finalizers of others hold it when it goes, or an API that does not answer.
    holds: Vec<bool>,
    /// Why a namespace never goes, if the server has an API that does not answer.
    hangs: Option<String>,
    /// The objects that stay and that something happens to.
    stays: BTreeMap<Index, Stay>,
    /// What each object waits for, besides its own finalizers.
    after: Vec<Option<Cause>>,
}

/// How an object may be deleted.
#[derive(Clone, Copy, Default)]
struct Mode {
    /// Perhaps in the foreground.
    foreground: bool,
    /// In the foreground, in any order of events.
    surely: bool,
}

/// An object that stays.
struct Stay {
    effect: Effect,
    loses: Vec<Index>,
    may_lose: Vec<Index>,
    why: Option<&'static str>,
}

/// What an object waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// An object that was visited.
    Visited(Index),
    /// One of the owners of this object that are being deleted already.
    OwnerOf(Index),
}

impl<'a> Effects<'a> {
    /// Decides which objects go. `None` if the question needs more facts.
    fn of(asker: &mut Asker<'_>, walk: &'a Walk) -> Option<Self> {
        let count = walk.visited.len();
        let (mut dependents, mut contents) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        let mut owners = Vec::with_capacity(count);
        for (place, visited) in (0..).zip(&walk.visited) {
            let mut met = Vec::with_capacity(visited.references.len());
            for reference in &visited.references {
                // All are asked about at once, so no needed one may end the loop.
                met.push(match &reference.owner {
                    Owner::Visited(owner) => {
                        dependents[*owner as usize].push((place, reference.blocking));
                        Some(Met::Visited(*owner))
                    }
                    Owner::Other(snapshot) => outside(asker, snapshot),
                });
            }
            owners.push(met.into_iter().collect::<Option<Vec<Met>>>());
            if let Some(container) = visited.container {
                contents[container as usize].push(place);
            }
        }
        let mut effects = Self {
            walk,
            dependents,
            contents,
            owners: owners.into_iter().collect::<Option<_>>()?,
            sure: Vec::new(),
            may: Vec::new(),
            modes: Vec::new(),
            holds: Vec::new(),
            hangs: hangs(asker),
            stays: BTreeMap::new(),
            after: Vec::new(),
        };
        effects.sure = effects.spread(true);
        effects.may = effects.spread(false);
        effects.modes = effects.modes();
        Some(effects)
    }

    fn visited(&self, place: Index) -> &'a Visited {
        &self.walk.visited[place as usize]
    }

    fn may_go(&self, place: Index) -> bool {
        self.may[place as usize]
    }

    /// Whether an owner of an object was not visited, and is in this state.
    fn has_owner(&self, place: Index, met: Met) -> bool {
        self.owners[place as usize].contains(&met)
    }

    /// The objects that go. Each is decided on when the last of its owners is known to go.
    fn spread(&self, surely: bool) -> Vec<bool> {
        let mut goes = vec![false; self.walk.visited.len()];
        let visited_owners =
            |owners: &Vec<Met>| owners.iter().filter(|met| matches!(met, Met::Visited(_))).count();
        let mut left: Vec<usize> = self.owners.iter().map(visited_owners).collect();
        let mut going: Vec<Index> = (0..self.walk.roots).collect();
        let deleted =
            (0..).zip(&self.walk.visited).filter(|(_, visited)| visited.deletion.is_being_deleted());
        going.extend(deleted.map(|(place, _)| place));
        while let Some(place) = going.pop() {
            if std::mem::replace(&mut goes[place as usize], true) {
                continue;
            }
            going.extend(&self.contents[place as usize]);
            for &(dependent, _) in &self.dependents[place as usize] {
                let at = dependent as usize;
                left[at] -= 1;
                if left[at] == 0 && !goes[at] && self.is_deleted(dependent, surely) {
                    going.push(dependent);
                }
            }
        }
        goes
    }

    /// Whether the collector deletes an object when all its owners that were visited have gone.
    fn is_deleted(&self, place: Index, surely: bool) -> bool {
        let classes = self.owners[place as usize].iter().map(|met| self.class(*met, surely));
        // In some order, the references to orphaning owners have gone before it is decided on.
        let classes = classes.filter(|class| surely || *class != ReferenceClass::Orphaned);
        Decision::unless_garbage(&classes.collect::<Vec<_>>()).is_none()
    }

    /// The class of a reference after all that goes has gone, its owner included.
    fn class(&self, met: Met, surely: bool) -> ReferenceClass {
        match met {
            Met::Visited(owner) if self.walk.orphans(owner) => ReferenceClass::Orphaned,
            Met::Known(class) => class,
            Met::Orphaning => ReferenceClass::Orphaned,
            Met::Unseen if surely => ReferenceClass::Unresolved,
            Met::Visited(_) | Met::Leaving | Met::Unseen => ReferenceClass::Absent,
        }
    }

    /// How the objects that may go are deleted: the root by its policy, others in the foreground if an
    /// owner waits for them and they have dependents of their own, or if a finalizer asks for that.
    fn modes(&self) -> Vec<Mode> {
        let walk = self.walk;
        let mut modes = vec![Mode::default(); walk.visited.len()];
        let mut open = Vec::new();
        for (place, visited) in (0..).zip(&walk.visited) {
            let asked_for = match (walk.is_root(place), visited.deletion) {
                (true, _) => walk.query.policy == PropagationPolicy::Foreground,
                (_, DeletionState::DeletingDependents) => true,
                (_, DeletionState::Live) => {
                    visited.finalizers.foreground && !walk.orphans(place) && !walk.goes_with_namespace(place)
                }
                (_, DeletionState::Terminating | DeletionState::Orphaning) => false,
            };
            if asked_for && self.may_go(place) {
                modes[place as usize] = Mode { foreground: true, surely: true };
                open.push(place);
            }
        }
        while let Some(owner) = open.pop() {
            for &(place, blocking) in &self.dependents[owner as usize] {
                let visited = self.visited(place);
                let goes = self.may_go(place) && !self.has_begun(place);
                if !goes || walk.orphans(place) || !visited.has_dependents {
                    continue;
                }
                let surely = modes[owner as usize].surely
                    && blocking
                    && visited.references.len() == 1
                    && visited.container.is_none();
                let mode = &mut modes[place as usize];
                if !mode.foreground || (surely && !mode.surely) {
                    *mode = Mode { foreground: true, surely: surely || mode.surely };
                    open.push(place);
                }
            }
        }
        modes
    }

    /// Whether an object is deleted whatever its owners do.
    fn has_begun(&self, place: Index) -> bool {
        self.walk.is_root(place) || self.visited(place).deletion.is_being_deleted()
    }

    fn find_who_is_held(&mut self, asker: &mut Asker<'_>) {
        let holds = (0..).zip(&self.walk.visited).map(|(place, visited)| {
            if self.hangs.is_some() && self.may_go(place) && as_namespace(&visited.identity).is_some() {
                return true;
            }
            let is_held = visited.held_by_others && self.may_go(place);
            if !is_held && !self.walk.is_root(place) {
                return false;
            }
            match foreign(asker, visited) {
                Some(finalizers) => !finalizers.is_empty(),
                // A definition always has one, which the API server removes.
                None => as_definition(&visited.identity).is_none(),
            }
        });
        self.holds = holds.collect();
    }

    fn find_who_stays(&mut self) {
        let places = (0..).zip(&self.may).filter(|(_, may)| !**may).map(|(place, _)| place);
        self.stays = places.filter_map(|place| Some((place, self.stay(place)?))).collect();
    }

    /// What happens to an object that stays; `None` if nothing does.
    fn stay(&self, place: Index) -> Option<Stay> {
        let visited = self.visited(place);
        let going = |owner: Option<Index>| owner.filter(|&owner| self.may_go(owner));
        let touched =
            visited.references.iter().filter(|reference| going(reference.visited()).is_some()).count();
        if touched == 0 && !visited.references.iter().any(|reference| going(reference.namesake).is_some()) {
            return None;
        }
        let classes = self.owners[place as usize].iter().map(|met| match met {
            Met::Visited(owner) if !self.may_go(*owner) => ReferenceClass::Solid,
            met => self.class(*met, true),
        });
        let classes: Vec<ReferenceClass> = classes.collect();
        let decision = Decision::unless_garbage(&classes);
        let removed: &[usize] = match &decision {
            Some(Decision::RemoveReferences { remove, .. }) => remove,
            _ => &[],
        };
        let (mut loses, mut may_lose) = (Vec::new(), Vec::new());
        // While another owner is still there, the reference to one that has gone is removed.
        let has_other = touched > 1 || self.has_owner(place, Met::Leaving);
        let mut blocks = false;
        for (index, reference) in visited.references.iter().enumerate() {
            // It is not owned by what has another name, and may block it.
            let Some(owner) = going(reference.visited().or(reference.namesake)) else { continue };
            let is_removed = removed.contains(&index);
            if reference.visited().is_none() || (!is_removed && has_other) {
                may_lose.push(owner);
            } else if is_removed {
                if self.sure[owner as usize] { &mut loses } else { &mut may_lose }.push(owner);
            }
            blocks |= !is_removed && reference.blocking && self.modes[owner as usize].foreground;
        }
        let is_released = may_lose.iter().any(|&owner| self.walk.orphans(owner));
        if touched == 0 && (decision.is_none() || !(blocks || is_released)) {
            return None;
        }
        let (effect, why) = match decision {
            _ if classes.contains(&ReferenceClass::Solid) => (Effect::Kept, None),
            _ if blocks => (Effect::Blocks, Some(UNDECIDED)),
            Some(Decision::RemoveReferences { .. }) => (Effect::Orphaned, None),
            _ => (Effect::Kept, Some(UNDECIDED)),
        };
        Some(Stay { effect, loses, may_lose, why })
    }

    /// Follows what delays an object: its deletion begins late, because an owner is still there, or it
    /// lingers after that.
    fn find_who_waits(&mut self) {
        let nothing = vec![None; self.walk.visited.len()];
        let (mut late, mut lingers, mut blocked) = (nothing.clone(), nothing.clone(), nothing);
        let mut open: Vec<(Index, bool, Cause)> = Vec::new();
        for (place, visited) in (0..).zip(&self.walk.visited).filter(|(place, _)| self.may_go(*place)) {
            // A grace period, if it is no finalizer.
            let waits = !self.walk.is_root(place) && visited.deletion == DeletionState::Terminating;
            if self.holds[place as usize] || waits {
                open.push((place, false, Cause::Visited(place)));
            }
            if self.has_owner(place, Met::Leaving) && !self.has_begun(place) {
                open.push((place, true, Cause::OwnerOf(place)));
            }
        }
        for (&place, _) in self.stays.iter().filter(|(_, stay)| stay.effect == Effect::Blocks) {
            // It stays, and never stops blocking its owners.
            open.extend(self.held_up(place).map(|owner| (owner, false, Cause::Visited(place))));
        }
        while let Some((place, is_late, cause)) = open.pop() {
            let index = place as usize;
            let holds_itself = cause == Cause::Visited(place);
            if !is_late && !holds_itself {
                blocked[index].get_or_insert(cause);
            }
            let known = if is_late { &mut late[index] } else { &mut lingers[index] };
            if known.is_some() {
                continue;
            }
            *known = Some(cause);
            // A namespace stays until nothing is in it, and a definition until its type has no objects.
            open.extend(self.last(place).map(|container| (container, false, cause)));
            let mode = self.modes[index];
            if is_late {
                let contents = self.contents[index].iter().filter(|&&content| self.can_begin_late(content));
                open.extend(contents.map(|&content| (content, true, cause)));
            } else {
                open.extend(self.held_up(place).map(|owner| (owner, false, cause)));
                // While it waits for blocking dependents only, its other dependents go.
                if mode.foreground && !holds_itself && self.contents[index].is_empty() {
                    continue;
                }
            }
            for &(dependent, blocking) in &self.dependents[index] {
                // Before it waits for others, it waits for those that block it.
                let goes_first = !is_late && mode.surely && blocking;
                let is_contained = self.visited(dependent).container.is_some();
                if !goes_first && !is_contained && self.can_begin_late(dependent) {
                    open.push((dependent, true, cause));
                }
            }
        }
        self.after = blocked.into_iter().zip(late).map(|(blocked, late)| blocked.or(late)).collect();
    }

    /// The namespace or definition that goes after an object.
    fn last(&self, place: Index) -> Option<Index> {
        self.visited(place).container.filter(|&container| self.goes_last(container))
    }

    /// Whether it stays until nothing is in it. A node goes at once, and its pods after it.
    fn goes_last(&self, place: Index) -> bool {
        let identity = &self.visited(place).identity;
        as_namespace(identity).is_some() || as_definition(identity).is_some()
    }

    /// What holds an object: itself, its blocking dependents, or what is in it, down to what nothing else
    /// holds.
    fn holders(&self, place: Index) -> Vec<ObjectName> {
        let mut met = vec![false; self.walk.visited.len()];
        let (mut open, mut holders) = (vec![place], Vec::new());
        while let Some(at) = open.pop() {
            if std::mem::replace(&mut met[at as usize], true) {
                continue;
            }
            let blocks = self.stays.get(&at).is_some_and(|stay| stay.effect == Effect::Blocks);
            let waits = at != place && self.visited(at).deletion == DeletionState::Terminating;
            if at != place && (blocks || waits || self.holds[at as usize]) {
                holders.push(self.name(at));
            }
            if self.modes[at as usize].foreground {
                let blocking = self.dependents[at as usize].iter().filter(|(_, blocking)| *blocking);
                open.extend(blocking.map(|(dependent, _)| dependent));
            }
            if self.goes_last(at) {
                open.extend(&self.contents[at as usize]);
            }
        }
        holders.sort();
        // One that begins late, because an owner of it is still there, is held by that.
        holders.extend(self.after(place).filter(|after| !holders.contains(after)));
        holders
    }

    fn can_begin_late(&self, place: Index) -> bool {
        self.may_go(place) && !self.has_begun(place)
    }

    /// The owners that wait for an object as long as it is there.
    fn held_up(&self, place: Index) -> impl Iterator<Item = Index> {
        let blocking = self.visited(place).references.iter().filter(|reference| reference.blocking);
        let owners = blocking.filter_map(|reference| reference.visited().or(reference.namesake));
        owners.filter(move |&owner| {
            owner != place && self.may_go(owner) && self.modes[owner as usize].foreground
        })
    }

    fn effect(&self, place: Index) -> Option<Effect> {
        let index = place as usize;
        if self.sure[index] {
            return Some(if self.holds[index] { Effect::Held } else { Effect::Deleted });
        }
        if self.may[index] {
            return Some(Effect::Unknown);
        }
        self.stays.get(&place).map(|stay| stay.effect)
    }

    fn write(&self, asker: &mut Asker<'_>, plan: &mut Plan, limit: usize) {
        // With the number of deletions that the collector carries out.
        let mut by_type: BTreeMap<&GroupResource, (TypeEffects, u64)> = BTreeMap::new();
        let mut by_namespace: BTreeMap<&Namespace, u64> = BTreeMap::new();
        let mut order: Vec<(u32, Index)> = Vec::new();
        for (place, visited) in (0..).zip(&self.walk.visited) {
            let Some(effect) = self.effect(place) else { continue };
            let resource = &visited.identity.resource.group_resource;
            let (effects, by_collector) =
                by_type.entry(resource).or_insert_with(|| (TypeEffects::new(&visited.identity), 0));
            effects.count(effect);
            // The root counts even if it is being deleted with another policy.
            let is_new = self.walk.is_root(place) || visited.deletion == DeletionState::Live;
            match effect {
                Effect::Deleted | Effect::Held if is_new => {
                    plan.deletes += 1;
                    if !self.walk.is_root(place) && visited.container.is_none() {
                        *by_collector += 1;
                        if let Some(namespace) = &visited.identity.namespace {
                            *by_namespace.entry(namespace).or_default() += 1;
                        }
                    }
                }
                Effect::Unknown => {
                    plan.perhaps_deletes += usize::from(is_new);
                    plan.depends_on_unseen |= self.has_owner(place, Met::Unseen);
                }
                _ => {}
            }
            order.push((self.rank(visited, place, effect), place));
        }
        let counts = by_namespace.into_iter().map(|(namespace, count)| (count, namespace));
        plan.most_in_namespace = counts.max().map(|(count, namespace)| (count, namespace.clone()));
        order.sort_unstable();
        let precious = order.partition_point(|&(rank, _)| rank == 0);
        let limit = limit.saturating_add(precious.min(MOST_PRECIOUS));
        plan.not_listed = order.len().saturating_sub(limit);
        for (resource, (effects, by_collector)) in by_type {
            plan.by_type.push(effects);
            if by_collector > 0 {
                plan.by_collector.push((resource.clone(), by_collector));
            }
        }
        order.truncate(limit);
        plan.objects = order.into_iter().filter_map(|(_, place)| self.object(asker, place)).collect();
        plan.verdict = self.verdict().of(plan);
        plan.notes = answer::notes(plan);
    }

    /// What the verdict says, besides the numbers of the plan.
    fn verdict(&self) -> Verdict<'_> {
        let roots = 0..self.walk.roots;
        let held = roots.clone().filter(|&root| self.effect(root) == Some(Effect::Held)).count();
        let is_one = roots.len() == 1;
        let namespaces = roots.filter(|&root| as_namespace(&self.visited(root).identity).is_some());
        Verdict {
            contents: (is_one && self.goes_last(0)).then(|| self.contents[0].len()),
            held,
            hangs: self.hangs.as_deref().filter(|_| namespaces.count() > 0),
            holders: if is_one { self.holders(0) } else { Vec::new() },
        }
    }

    /// The order in which objects are listed: those whose data or contents go first, then those
    /// that do not simply go.
    fn rank(&self, visited: &Visited, place: Index, effect: Effect) -> u32 {
        match effect {
            _ if is_precious(&visited.identity.resource.group_resource, effect) => 0,
            Effect::Blocks => 1,
            Effect::Unknown => 2,
            Effect::Held => 3,
            Effect::Orphaned => 4,
            Effect::Kept => 5,
            Effect::Deleted if self.after[place as usize].is_some() => 6,
            Effect::Deleted => 7,
        }
    }

    fn object(&self, asker: &mut Asker<'_>, place: Index) -> Option<PlannedObject> {
        let effect = self.effect(place)?;
        let visited = self.visited(place);
        let mut object = PlannedObject {
            name: (&visited.identity).into(),
            state: visited.deletion.into(),
            effect,
            within: visited.container.map(|container| self.name(container)),
            kept_by: Vec::new(),
            finalizers: if self.holds[place as usize] { foreign(asker, visited) } else { Some(Vec::new()) },
            after: self.after(place),
            loses: Vec::new(),
            may_lose: Vec::new(),
            why: None,
        };
        let names = |places: &[Index]| places.iter().take(NAMED).map(|&place| self.name(place)).collect();
        if let Some(stay) = self.stays.get(&place) {
            object.loses = names(&stay.loses);
            object.may_lose = names(&stay.may_lose);
            object.why = stay.why.map(str::to_owned);
        } else if effect == Effect::Unknown {
            let owners = visited.references.iter().filter_map(Reference::visited);
            object.may_lose = names(&owners.filter(|&owner| self.may_go(owner)).collect::<Vec<_>>());
            object.why = Some(self.why(place).to_owned());
        } else if effect == Effect::Held && as_namespace(&visited.identity).is_some() {
            object.why.clone_from(&self.hangs);
        }
        if !matches!(effect, Effect::Deleted | Effect::Held) {
            let keeps = |met: Met| match met {
                Met::Visited(owner) => !self.may_go(owner),
                Met::Known(class) => !matches!(
                    class,
                    ReferenceClass::Absent | ReferenceClass::Waiting | ReferenceClass::Orphaned
                ),
                Met::Leaving | Met::Orphaning | Met::Unseen => false,
            };
            object.kept_by = self.owners(place, keeps).take(NAMED).collect();
        }
        if effect == Effect::Kept && object.why.is_none() {
            object.why = self.kept_for_now(asker, place);
        }
        Some(object)
    }

    fn name(&self, place: Index) -> ObjectName {
        (&self.visited(place).identity).into()
    }

    /// What an object waits for before it goes.
    fn after(&self, place: Index) -> Option<ObjectName> {
        match self.after[place as usize]? {
            Cause::Visited(cause) => Some(self.name(cause)),
            Cause::OwnerOf(dependent) => self.owners(dependent, |met| met == Met::Leaving).next(),
        }
    }

    /// The names of some owners of an object.
    fn owners(&self, place: Index, wanted: impl Fn(Met) -> bool) -> impl Iterator<Item = ObjectName> {
        let all = self.owners[place as usize].iter().zip(&self.visited(place).references);
        all.filter(move |(met, _)| wanted(**met)).map(|(_, reference)| match &reference.owner {
            Owner::Visited(owner) => self.name(*owner),
            Owner::Other(seen) => ObjectName::of_owner(seen),
        })
    }

    /// What is to be said of an object that is kept only by owners that are garbage themselves.
    fn kept_for_now(&self, asker: &mut Asker<'_>, place: Index) -> Option<String> {
        let mut is_garbage = true;
        let mut names = Vec::new();
        for (met, reference) in self.owners[place as usize].iter().zip(&self.visited(place).references) {
            let owner = match (&reference.owner, met) {
                (Owner::Visited(owner), _) if !self.may_go(*owner) => &self.visited(*owner).identity,
                (Owner::Other(seen), Met::Known(ReferenceClass::Solid)) => seen.owner.identity()?,
                _ => continue,
            };
            names.push(ObjectName::from(owner));
            // All are asked about at once, so no needed one may end the loop.
            is_garbage &= matches!(verdict(asker, &owner.key()), Some(Decision::Delete { .. }));
        }
        (is_garbage && !names.is_empty())
            .then(|| format!("goes later, because {} is garbage", listed(" and ", names.len(), &names)))
    }

    /// Why it is not known whether an object goes.
    fn why(&self, place: Index) -> &'static str {
        let mut owners = self.visited(place).references.iter().filter_map(Reference::visited);
        if self.has_owner(place, Met::Unseen) {
            "whether one of its owners exists could not be looked up"
        } else if self.has_owner(place, Met::Orphaning) || owners.any(|owner| self.walk.orphans(owner)) {
            "one of its owners releases its dependents: the order in which its owners go decides"
        } else {
            "it is not known whether one of its owners goes"
        }
    }
}

/// Why a namespace never goes: its controller waits for every API.
fn hangs(asker: &Asker<'_>) -> Option<String> {
    let silent = &asker.outside().silent_apis;
    let names = listed(" and ", silent.len(), silent.iter().map(|api| &api.what));
    let answer = if silent.len() == 1 { "answers" } else { "answer" };
    (!silent.is_empty()).then(|| format!("never ends until {names} {answer}"))
}

/// The finalizers that others have to remove; `None` if they were not read.
fn foreign(asker: &mut Asker<'_>, visited: &Visited) -> Option<Vec<FinalizerReport>> {
    let Some(Live::Found(live)) = asker.live(&visited.identity) else { return None };
    let mut all = FinalizerReport::of(&live.details, asker.catalog());
    let is_definition = as_definition(&visited.identity).is_some();
    all.retain(|finalizer| match finalizer.name.as_str() {
        FOREGROUND_FINALIZER | ORPHAN_FINALIZER => false,
        DEFINITION_FINALIZER => !is_definition,
        _ => true,
    });
    Some(all)
}
