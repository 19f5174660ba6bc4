//! The effect on each object.

use std::collections::BTreeMap;

use crate::finalizers::FinalizerReport;
use crate::knowledge::{Asker, Live, LiveObject};
use crate::name::ObjectName;
use crate::neighbourhood::State;
use crate::plan::answer::{self, Effect, Plan, PlannedObject, TypeEffects, is_precious};
use crate::plan::outcomes::{Cause, Delays, Met, Mode, Outcomes, class, modes, verdict};
use crate::plan::walk::{Index, Outside, Owner, Reference, Visited, Walk, as_definition};
use kube_gc_core::object::{DeletionState, FOREGROUND_FINALIZER, GroupResource, Namespace, ORPHAN_FINALIZER};
use kube_gc_core::verdict::{Decision, ReferenceClass};

/// The finalizer of a definition, which the API server removes when its type has no objects.
const DEFINITION_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
/// The most claims, namespaces and definitions that are always listed.
const MOST_PRECIOUS: usize = 10_000;
/// The most owners that are named for each object.
const NAMED: usize = 64;

/// What the deletion of one object does to each object that a walk has visited. Lists the claims,
/// namespaces and definitions that go, and at most `limit` others. An incomplete plan is returned if more facts are needed.
pub fn plan(asker: &mut Asker<'_>, walk: &Walk, limit: usize) -> Plan {
    let root = &walk.query.root;
    let mut plan = Plan {
        object: root.into(),
        cascade: walk.query.policy.into(),
        truncated: walk.truncated,
        depends_on_unseen: walk.truncated,
        ..Plan::default()
    };
    let state = match asker.live(root) {
        Some(Live::Found(_)) => State::Live,
        Some(Live::Absent(_)) => State::Absent,
        Some(Live::Failed(_) | Live::NotAsked) | None => State::Unknown,
    };
    plan.exists = match state {
        State::Live => Some(true),
        State::Absent => Some(false),
        _ => None,
    };
    if state != State::Live {
        plan.verdict = answer::not_there(&plan.object, state);
        plan.depends_on_unseen |= state != State::Absent;
        return plan;
    }
    let Some(outcomes) = Outcomes::of(asker, walk) else { return plan };
    let judge = Judge::new(asker, walk, &outcomes);
    judge.write(asker, &mut plan, limit);
    plan
}

/// All that decides about the effects.
struct Judge<'a> {
    walk: &'a Walk,
    outcomes: &'a Outcomes,
    delays: Delays<'a>,
    holds: Vec<bool>,
    /// The objects that stay and that something happens to, by place.
    stays: Vec<(Index, Stay)>,
}

impl<'a> Judge<'a> {
    fn new(asker: &mut Asker<'_>, walk: &'a Walk, outcomes: &'a Outcomes) -> Self {
        let holds: Vec<bool> =
            (0..).zip(&walk.visited).map(|(place, visited)| holds(asker, place, visited, outcomes)).collect();
        let modes = modes(walk, outcomes);
        let mut stays = Vec::new();
        for place in 0..walk.visited.len() {
            if !outcomes.may[place]
                && let Ok(place) = Index::try_from(place)
                && let Some(stay) = stay(walk, outcomes, &modes, place)
            {
                stays.push((place, stay));
            }
        }
        let blockers: Vec<Index> =
            stays.iter().filter(|(_, stay)| stay.effect == Effect::Blocks).map(|(place, _)| *place).collect();
        let delays = Delays::of(walk, outcomes, modes, &holds, &blockers);
        Self { walk, outcomes, delays, holds, stays }
    }

    fn staying(&self, place: Index) -> Option<&Stay> {
        let at = self.stays.binary_search_by_key(&place, |(place, _)| *place).ok()?;
        Some(&self.stays[at].1)
    }

    fn effect(&self, place: Index) -> Option<Effect> {
        let index = place as usize;
        if self.outcomes.sure[index] {
            return Some(if self.holds[index] { Effect::Held } else { Effect::Deleted });
        }
        if self.outcomes.may[index] {
            return Some(Effect::Unknown);
        }
        self.staying(place).map(|stay| stay.effect)
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
            let is_new = place == 0 || visited.deletion == DeletionState::Live;
            match effect {
                Effect::Deleted | Effect::Held if is_new => {
                    plan.deletes += 1;
                    if place != 0 && visited.container.is_none() {
                        *by_collector += 1;
                        if let Some(namespace) = &visited.identity.namespace {
                            *by_namespace.entry(namespace).or_default() += 1;
                        }
                    }
                }
                Effect::Unknown if is_new => plan.perhaps_deletes += 1,
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
        plan.depends_on_unseen |= self.depends_on_unseen();
        order.truncate(limit);
        plan.objects = order.into_iter().filter_map(|(_, place)| self.object(asker, place)).collect();
        let after = self.after(0);
        plan.verdict = answer::verdict(plan, self.effect(0).unwrap_or(Effect::Unknown), after.as_ref());
        plan.notes = answer::notes(plan);
    }

    /// Whether an object may go, and an owner of it could not be looked at.
    fn depends_on_unseen(&self) -> bool {
        let Outcomes { may, sure, .. } = self.outcomes;
        (0..)
            .zip(may.iter().zip(sure))
            .any(|(place, (may, sure))| *may && !sure && self.outcomes.has_outside(place, Outside::Unseen))
    }

    fn object(&self, asker: &mut Asker<'_>, place: Index) -> Option<PlannedObject> {
        let effect = self.effect(place)?;
        let visited = &self.walk.visited[place as usize];
        let names = |places: &[Index]| -> Vec<ObjectName> {
            places.iter().take(NAMED).map(|&place| self.name(place)).collect()
        };
        let stay = self.staying(place);
        let may_lose = match effect {
            Effect::Unknown => {
                let owners = visited.references.iter().filter_map(Reference::visited);
                names(&owners.filter(|&owner| self.outcomes.may[owner as usize]).collect::<Vec<_>>())
            }
            _ => stay.map(|stay| names(&stay.may_lose)).unwrap_or_default(),
        };
        let finalizers = if self.holds[place as usize] { foreign(asker, visited) } else { Some(Vec::new()) };
        Some(PlannedObject {
            name: (&visited.identity).into(),
            state: visited.deletion.into(),
            effect,
            within: visited.container.map(|container| self.name(container)),
            kept_by: if matches!(effect, Effect::Deleted | Effect::Held) {
                Vec::new()
            } else {
                self.kept_by(place)
            },
            finalizers,
            after: self.after(place),
            loses: stay.map(|stay| names(&stay.loses)).unwrap_or_default(),
            may_lose,
            why: match effect {
                Effect::Unknown => Some(self.why(place).to_owned()),
                _ => stay.and_then(|stay| stay.why).map(str::to_owned),
            },
        })
    }

    fn name(&self, place: Index) -> ObjectName {
        (&self.walk.visited[place as usize].identity).into()
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
            Effect::Deleted if self.delays.of_object(place).is_some() => 6,
            Effect::Deleted => 7,
        }
    }

    /// What an object waits for before it goes.
    fn after(&self, place: Index) -> Option<ObjectName> {
        match self.delays.of_object(place)? {
            Cause::Visited(cause) => Some(self.name(cause)),
            Cause::OwnerOf(dependent) => {
                let mut owners = self.owners(dependent);
                owners.find(|(met, _)| *met == Met::Outside(Outside::Leaving)).map(|(_, name)| name)
            }
        }
    }

    /// What the references of an object refer to, with the names of the owners.
    fn owners(&self, place: Index) -> impl Iterator<Item = (Met, ObjectName)> {
        let references = &self.walk.visited[place as usize].references;
        self.outcomes.owners[place as usize].iter().zip(references).map(|(met, reference)| {
            let name = match &reference.owner {
                Owner::Visited(owner) => self.name(*owner),
                Owner::Other(seen) => seen
                    .owner
                    .identity()
                    .map_or_else(|| ObjectName::of_reference(&seen.reference), ObjectName::from),
            };
            (*met, name)
        })
    }

    /// The first owners that keep an object.
    fn kept_by(&self, place: Index) -> Vec<ObjectName> {
        let keeps = |met: Met| match met {
            Met::Visited(owner) => !self.outcomes.may[owner as usize],
            Met::Outside(outside) => matches!(
                outside,
                Outside::Known(
                    ReferenceClass::Solid | ReferenceClass::Unresolved | ReferenceClass::InvalidScope
                )
            ),
        };
        self.owners(place).filter(|(met, _)| keeps(*met)).map(|(_, name)| name).take(NAMED).collect()
    }

    /// Why it is not known whether an object goes.
    fn why(&self, place: Index) -> &'static str {
        let mut owners = self.walk.visited[place as usize].references.iter().filter_map(Reference::visited);
        if self.outcomes.has_outside(place, Outside::Unseen) {
            "whether one of its owners exists could not be looked up"
        } else if self.outcomes.has_outside(place, Outside::Orphaning)
            || owners.any(|owner| self.walk.orphans(owner))
        {
            "one of its owners releases its dependents: the order in which its owners go decides"
        } else {
            "it is not known whether one of its owners goes"
        }
    }
}

/// Whether finalizers of others hold an object that goes.
fn holds(asker: &mut Asker<'_>, place: Index, visited: &Visited, outcomes: &Outcomes) -> bool {
    if place != 0 && !(visited.held_by_others && outcomes.may[place as usize]) {
        return false;
    }
    match foreign(asker, visited) {
        Some(finalizers) => !finalizers.is_empty(),
        // A definition always has one, which the API server removes.
        None => as_definition(&visited.identity).is_none(),
    }
}

/// The finalizers that others have to remove; `None` if they were not read.
fn foreign(asker: &mut Asker<'_>, visited: &Visited) -> Option<Vec<FinalizerReport>> {
    let Some(Live::Found(live)) = asker.live(&visited.identity) else { return None };
    let LiveObject { details, .. } = &**live;
    let mut all = FinalizerReport::of(details, asker.catalog());
    let is_definition = as_definition(&visited.identity).is_some();
    all.retain(|finalizer| {
        let name = finalizer.name.as_str();
        name != FOREGROUND_FINALIZER
            && name != ORPHAN_FINALIZER
            && !(is_definition && name == DEFINITION_FINALIZER)
    });
    Some(all)
}

/// An object that stays.
struct Stay {
    effect: Effect,
    loses: Vec<Index>,
    may_lose: Vec<Index>,
    why: Option<&'static str>,
}

/// What happens to an object that stays; `None` if nothing does.
fn stay(walk: &Walk, outcomes: &Outcomes, modes: &[Mode], place: Index) -> Option<Stay> {
    let visited = &walk.visited[place as usize];
    let goes = |owner: Index| outcomes.may[owner as usize];
    let touched =
        visited.references.iter().filter_map(Reference::visited).filter(|&owner| goes(owner)).count();
    let namesake = visited.references.iter().any(|reference| reference.namesake.is_some_and(goes));
    if touched == 0 && !namesake {
        return None;
    }
    let owners = &outcomes.owners[place as usize];
    let classes = owners.iter().map(|met| match met {
        Met::Visited(owner) if !goes(*owner) => ReferenceClass::Solid,
        met => class(walk, *met, true),
    });
    let classes: Vec<ReferenceClass> = classes.collect();
    let blocking: Vec<bool> = visited.references.iter().map(|reference| reference.blocking).collect();
    let decision = verdict(visited, &blocking, &classes);
    let removed: &[usize] = match &decision {
        Decision::RemoveReferences { remove, .. } => remove,
        _ => &[],
    };
    let (mut loses, mut may_lose) = (Vec::new(), Vec::new());
    // While another owner is still there, the reference to one that has gone is removed.
    let has_other = touched > 1 || outcomes.has_outside(place, Outside::Leaving);
    let mut blocks = false;
    for (index, reference) in visited.references.iter().enumerate() {
        // It is not owned by what has another name, and may block it.
        let Some(owner) = reference.visited().or(reference.namesake).filter(|&owner| goes(owner)) else {
            continue;
        };
        let is_removed = removed.contains(&index);
        if reference.visited().is_none() || (!is_removed && has_other) {
            may_lose.push(owner);
        } else if is_removed {
            if outcomes.sure[owner as usize] { &mut loses } else { &mut may_lose }.push(owner);
        }
        blocks |= !is_removed && reference.blocking && modes[owner as usize].foreground;
    }
    let is_released = may_lose.iter().any(|&owner| walk.orphans(owner));
    let is_garbage = matches!(decision, Decision::Delete { .. });
    if touched == 0 && (is_garbage || !(blocks || is_released)) {
        return None;
    }
    let keeps = classes.contains(&ReferenceClass::Solid);
    let (effect, why) = match decision {
        _ if keeps => (Effect::Kept, None),
        _ if blocks => {
            (Effect::Blocks, Some("the collector cannot decide about it: an owner cannot be resolved"))
        }
        Decision::RemoveReferences { .. } => (Effect::Orphaned, None),
        _ => (Effect::Kept, Some("the collector cannot decide about it: an owner cannot be resolved")),
    };
    Some(Stay { effect, loses, may_lose, why })
}
