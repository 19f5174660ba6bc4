//! The effect on each object.

use std::collections::BTreeMap;

use crate::insight::finalizers::FinalizerReport;
use crate::insight::knowledge::{Asker, Live, LiveObject};
use crate::insight::name::ObjectName;
use crate::insight::neighbourhood::State;
use crate::object::{DeletionState, FOREGROUND_FINALIZER, GroupResource, ORPHAN_FINALIZER};
use crate::verdict::{Decision, ReferenceClass};

use super::answer::{Effect, Forecast, Plan, PlannedObject, TypeEffects, is_precious};
use super::delay::{Cause, Delays};
use super::fate::{Fates, of_outside, verdict};
use super::outside::Outside;
use super::sentence;
use super::walk::{Met, Owner, Place, Walk, as_definition};

/// The finalizer of a definition, which the API server removes when its type has no objects.
const DEFINITION_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
/// The most claims, namespaces and definitions that are always listed.
const MOST_PRECIOUS: usize = 10_000;
/// The most owners that are named for each object.
const NAMED: usize = 64;

/// What the deletion of one object does to each object that a walk has met. Lists the claims,
/// namespaces and definitions that go, and at most `limit` others. An incomplete plan is returned if more facts are needed.
pub fn plan(asker: &mut Asker<'_>, walk: &Walk, limit: usize) -> Plan {
    let root = &walk.query.root;
    let mut plan = Plan {
        object: root.into(),
        cascade: walk.query.policy.into(),
        exists: None,
        verdict: String::new(),
        deletes: 0,
        perhaps_deletes: 0,
        by_type: Vec::new(),
        objects: Vec::new(),
        not_listed: 0,
        truncated: walk.truncated,
        brake: Forecast::Unknown,
        notes: Vec::new(),
        depends_on_unseen: walk.truncated,
        by_collector: Vec::new(),
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
        plan.verdict = sentence::not_there(&plan.object, state);
        plan.depends_on_unseen |= state != State::Absent;
        return plan;
    }
    let Some(fates) = Fates::of(asker, walk) else { return plan };
    let judge = Judge::new(asker, walk, fates);
    judge.write(asker, &mut plan, limit);
    plan
}

/// All that decides about the effects.
struct Judge<'a> {
    walk: &'a Walk,
    fates: Fates,
    delays: Delays,
    holds: Vec<bool>,
    /// The objects that stay and that something happens to.
    stays: BTreeMap<Place, Stay>,
}

/// An object that stays.
struct Stay {
    effect: Effect,
    loses: Vec<Place>,
    may_lose: Vec<Place>,
    why: Option<&'static str>,
}

impl<'a> Judge<'a> {
    fn new(asker: &mut Asker<'_>, walk: &'a Walk, fates: Fates) -> Self {
        let holds: Vec<bool> =
            (0..).zip(&walk.met).map(|(place, met)| holds(asker, place, met, &fates)).collect();
        // A first look at what delays is enough to know which deletions are in the foreground.
        let modes = Delays::of(walk, &fates, &holds, &[]);
        let mut stays = BTreeMap::new();
        for place in 0..walk.met.len() {
            if !fates.may[place]
                && let Ok(place) = Place::try_from(place)
                && let Some(stay) = stay(walk, &fates, &modes, place)
            {
                stays.insert(place, stay);
            }
        }
        let blockers: Vec<Place> =
            stays.iter().filter(|(_, stay)| stay.effect == Effect::Blocks).map(|(&place, _)| place).collect();
        let delays = Delays::of(walk, &fates, &holds, &blockers);
        Self { walk, fates, delays, holds, stays }
    }

    fn effect(&self, place: Place) -> Option<Effect> {
        let index = place as usize;
        if self.fates.sure[index] {
            return Some(if self.holds[index] { Effect::Held } else { Effect::Deleted });
        }
        if self.fates.may[index] {
            return Some(Effect::Unknown);
        }
        self.stays.get(&place).map(|stay| stay.effect)
    }

    fn write(&self, asker: &mut Asker<'_>, plan: &mut Plan, limit: usize) {
        let mut by_type: BTreeMap<&GroupResource, TypeEffects> = BTreeMap::new();
        let mut by_collector: BTreeMap<&GroupResource, u64> = BTreeMap::new();
        let mut order: Vec<(u8, Place)> = Vec::new();
        for (place, met) in (0..).zip(&self.walk.met) {
            let Some(effect) = self.effect(place) else { continue };
            let resource = &met.identity.resource.group_resource;
            by_type.entry(resource).or_insert_with(|| TypeEffects::new(&met.identity)).count(effect);
            // The root counts even if it is being deleted with another policy.
            let is_new = place == 0 || met.deletion == DeletionState::Live;
            match effect {
                Effect::Deleted | Effect::Held if is_new => {
                    plan.deletes += 1;
                    if place != 0 && met.container.is_none() {
                        *by_collector.entry(resource).or_default() += 1;
                    }
                }
                Effect::Unknown if is_new => plan.perhaps_deletes += 1,
                _ => {}
            }
            order.push((self.rank(met, place, effect), place));
        }
        order.sort_unstable();
        let precious = order.partition_point(|&(rank, _)| rank == 0);
        let limit = limit.saturating_add(precious.min(MOST_PRECIOUS));
        plan.not_listed = order.len().saturating_sub(limit);
        plan.by_type = by_type.into_values().collect();
        plan.by_collector =
            by_collector.into_iter().map(|(resource, count)| (resource.clone(), count)).collect();
        plan.depends_on_unseen |= self.depends_on_unseen();
        order.truncate(limit);
        plan.objects = order.into_iter().filter_map(|(_, place)| self.object(asker, place)).collect();
        let after = self.after(0);
        plan.verdict = sentence::verdict(plan, self.effect(0).unwrap_or(Effect::Unknown), after.as_ref());
        plan.notes = sentence::notes(plan);
    }

    /// Whether an object may go, and an owner of it could not be looked at.
    fn depends_on_unseen(&self) -> bool {
        let unseen =
            self.fates.outside.iter().enumerate().filter(|(_, seen)| seen.contains(&Outside::Unseen));
        let mut unseen = unseen.map(|(place, _)| place);
        unseen.any(|place| self.fates.may[place] && !self.fates.sure[place])
    }

    fn object(&self, asker: &mut Asker<'_>, place: Place) -> Option<PlannedObject> {
        let effect = self.effect(place)?;
        let met = &self.walk.met[place as usize];
        let names = |places: &[Place]| -> Vec<ObjectName> {
            places.iter().take(NAMED).map(|&place| self.name(place)).collect()
        };
        let stay = self.stays.get(&place);
        let mut may_lose = stay.map(|stay| names(&stay.may_lose)).unwrap_or_default();
        if effect == Effect::Unknown {
            may_lose = names(
                &self.met_owners(met).filter(|&owner| self.fates.may[owner as usize]).collect::<Vec<_>>(),
            );
        }
        let finalizers = if self.holds[place as usize] { foreign(asker, met) } else { Some(Vec::new()) };
        Some(PlannedObject {
            name: (&met.identity).into(),
            state: met.deletion.into(),
            effect,
            within: met.container.map(|container| self.name(container)),
            kept_by: if matches!(effect, Effect::Deleted | Effect::Held) {
                Vec::new()
            } else {
                self.kept_by(place, met)
            },
            finalizers,
            after: self.after(place),
            loses: stay.map(|stay| names(&stay.loses)).unwrap_or_default(),
            may_lose,
            why: match effect {
                Effect::Unknown => Some(self.why(place).to_owned()),
                _ => stay.and_then(|stay| stay.why).map(str::to_owned),
            },
            identity: met.identity.clone(),
        })
    }

    fn name(&self, place: Place) -> ObjectName {
        (&self.walk.met[place as usize].identity).into()
    }

    fn met_owners<'m>(&self, met: &'m Met) -> impl Iterator<Item = Place> + use<'m> {
        met.references.iter().filter_map(|reference| match reference.owner {
            Owner::Met(owner) => Some(owner),
            Owner::Other(_) => None,
        })
    }

    /// The order in which objects are listed: those whose data or contents go first, then those
    /// that do not simply go.
    fn rank(&self, met: &Met, place: Place, effect: Effect) -> u8 {
        match effect {
            _ if is_precious(&met.identity, effect) => 0,
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
    fn after(&self, place: Place) -> Option<ObjectName> {
        match self.delays.of_object(place)? {
            Cause::Met(cause) => Some(self.name(cause)),
            Cause::OwnerOf(dependent) => {
                let mut outside = self.fates.outside[dependent as usize].iter();
                self.walk.met[dependent as usize].references.iter().find_map(|reference| {
                    match &reference.owner {
                        Owner::Other(seen) if *outside.next()? == Outside::Leaving => {
                            seen.owner.identity().map(ObjectName::from)
                        }
                        Owner::Met(_) | Owner::Other(_) => None,
                    }
                })
            }
        }
    }

    /// The first owners that keep an object.
    fn kept_by(&self, place: Place, met: &Met) -> Vec<ObjectName> {
        let mut outside = self.fates.outside[place as usize].iter();
        let mut keeps = Vec::new();
        for reference in &met.references {
            match &reference.owner {
                Owner::Met(owner) if !self.fates.may[*owner as usize] => keeps.push(self.name(*owner)),
                Owner::Met(_) => {}
                Owner::Other(seen) => {
                    let class = outside.next();
                    let keeps_it = matches!(
                        class,
                        Some(Outside::Known(
                            ReferenceClass::Solid | ReferenceClass::Unresolved | ReferenceClass::InvalidScope
                        ))
                    );
                    if keeps_it {
                        let owner = seen.owner.identity();
                        keeps.push(
                            owner.map_or_else(|| ObjectName::of_reference(&seen.reference), ObjectName::from),
                        );
                    }
                }
            }
        }
        keeps.truncate(NAMED);
        keeps
    }

    /// Why it is not known whether an object goes.
    fn why(&self, place: Place) -> &'static str {
        let met = &self.walk.met[place as usize];
        let outside = &self.fates.outside[place as usize];
        if outside.contains(&Outside::Unseen) {
            "whether one of its owners exists could not be looked up"
        } else if outside.contains(&Outside::Orphaning)
            || self.met_owners(met).any(|owner| self.walk.orphans(owner))
        {
            "one of its owners releases its dependents: the order in which its owners go decides"
        } else {
            "it is not known whether one of its owners goes"
        }
    }
}

/// Whether finalizers of others hold an object that goes.
fn holds(asker: &mut Asker<'_>, place: Place, met: &Met, fates: &Fates) -> bool {
    if place != 0 && !(met.held_by_others && fates.may[place as usize]) {
        return false;
    }
    match foreign(asker, met) {
        Some(finalizers) => !finalizers.is_empty(),
        // A definition always has one, which the API server removes.
        None => as_definition(&met.identity).is_none(),
    }
}

/// The finalizers that others have to remove; `None` if they were not read.
fn foreign(asker: &mut Asker<'_>, met: &Met) -> Option<Vec<FinalizerReport>> {
    let Some(Live::Found(live)) = asker.live(&met.identity) else { return None };
    let LiveObject { details, .. } = &**live;
    let mut all = FinalizerReport::of(details, asker.catalog());
    let is_definition = as_definition(&met.identity).is_some();
    all.retain(|finalizer| {
        let name = finalizer.name.as_str();
        name != FOREGROUND_FINALIZER
            && name != ORPHAN_FINALIZER
            && !(is_definition && name == DEFINITION_FINALIZER)
    });
    Some(all)
}

/// What happens to an object that stays; `None` if nothing does.
fn stay(walk: &Walk, fates: &Fates, modes: &Delays, place: Place) -> Option<Stay> {
    let met = &walk.met[place as usize];
    let goes = |owner: Place| fates.may[owner as usize];
    let touched: Vec<Place> = met
        .references
        .iter()
        .filter_map(|reference| match reference.owner {
            Owner::Met(owner) if goes(owner) => Some(owner),
            Owner::Met(_) | Owner::Other(_) => None,
        })
        .collect();
    let namesake = met.references.iter().any(|reference| reference.namesake.is_some_and(goes));
    if touched.is_empty() && !namesake {
        return None;
    }
    let mut outside = fates.outside[place as usize].iter();
    let classes: Vec<ReferenceClass> = met
        .references
        .iter()
        .map(|reference| match reference.owner {
            Owner::Met(owner) if !goes(owner) => ReferenceClass::Solid,
            Owner::Met(owner) if walk.orphans(owner) => ReferenceClass::Orphaned,
            Owner::Met(_) => ReferenceClass::Absent,
            Owner::Other(_) => {
                outside.next().map_or(ReferenceClass::Unresolved, |&outside| of_outside(outside, true))
            }
        })
        .collect();
    let blocking: Vec<bool> = met.references.iter().map(|reference| reference.blocking).collect();
    let decision = verdict(met, &blocking, &classes);
    let removed: &[usize] = match &decision {
        Decision::RemoveReferences { remove, .. } => remove,
        _ => &[],
    };
    let (mut loses, mut may_lose) = (Vec::new(), Vec::new());
    // While another owner is still there, the reference to one that has gone is removed.
    let has_other = touched.len() > 1 || fates.outside[place as usize].contains(&Outside::Leaving);
    let mut blocks = false;
    for (index, reference) in met.references.iter().enumerate() {
        let Owner::Met(owner) = reference.owner else {
            // It is not owned by what has another name, and may block it.
            let Some(owner) = reference.namesake.filter(|&owner| goes(owner)) else { continue };
            may_lose.push(owner);
            blocks |= !removed.contains(&index) && reference.blocking && modes.is_foreground(owner);
            continue;
        };
        if !goes(owner) {
            continue;
        }
        let surely = removed.contains(&index) && fates.sure[owner as usize];
        match surely {
            true => loses.push(owner),
            false if removed.contains(&index) || has_other => may_lose.push(owner),
            false => {}
        }
        blocks |= !removed.contains(&index) && reference.blocking && modes.is_foreground(owner);
    }
    let is_released = may_lose.iter().any(|&owner| walk.orphans(owner));
    let is_garbage = matches!(decision, Decision::Delete { .. });
    if touched.is_empty() && (is_garbage || !(blocks || is_released)) {
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
