//! Compares a plan with what happened.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use kube_gc_insight::{Cascade, Effect, ObjectName, Plan, PlannedObject};
use kube_gc_testkit::Obj;

use super::planner::{Shown, holds};

/// When the server is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// After the deletion, when the collector is idle.
    Idle,
    /// After that, without any finalizer of others.
    Released,
}

/// One deletion: a graph, its objects before, and the plan.
pub struct Case {
    /// For reports.
    pub title: String,
    /// The objects that existed before.
    pub objects: Vec<Obj>,
    /// Whether some were being deleted then.
    pub had_deleted: bool,
    /// The plan.
    pub plan: Plan,
}

/// One object of a case.
#[derive(Clone, Copy)]
struct Compared<'a> {
    planned: &'a PlannedObject,
    before: &'a Obj,
    after: Option<&'a Obj>,
    shown: &'a Shown,
    moment: Moment,
}

/// How often each effect was planned.
pub type Counts = BTreeMap<&'static str, usize>;

impl Case {
    /// Counts the planned effects.
    pub fn count(&self, counts: &mut Counts) {
        for object in &self.plan.objects {
            *counts.entry(object.effect.into_str()).or_default() += 1;
        }
    }

    /// What is not as planned.
    pub fn differences(&self, shown: &Shown, moment: Moment) -> Vec<String> {
        let planned: HashMap<&str, &PlannedObject> =
            self.plan.objects.iter().map(|object| (object.name.uid.as_str(), object)).collect();
        let mut differences = Vec::new();
        for before in &self.objects {
            let planned = planned.get(before.uid.as_str()).copied();
            let after = shown.objects.get(&before.uid);
            let difference = match planned {
                Some(planned) => self.is_as_planned(Compared { planned, before, after, shown, moment }),
                None => self.is_untouched(before, after, moment),
            };
            let effect = planned.map_or("untouched", |planned| planned.effect.into_str());
            differences.extend(difference.map(|what| {
                format!("{}: {} is planned to be {effect}, and {what} ({moment:?})", self.title, before.name)
            }));
        }
        differences
    }

    /// What became of the objects about which the plan is not sure: how many went, and how many stayed.
    pub fn count_unsure(&self, released: &Shown, counts: &mut [usize; 2]) {
        let unsure = self.plan.objects.iter().filter(|object| object.effect == Effect::Unknown);
        for object in unsure {
            counts[usize::from(released.objects.contains_key(&object.name.uid))] += 1;
        }
    }

    fn is_as_planned(&self, compared: Compared<'_>) -> Option<String> {
        match compared.planned.effect {
            Effect::Deleted | Effect::Held => self.goes(compared),
            Effect::Orphaned | Effect::Kept | Effect::Blocks => self.stays(compared),
            Effect::Unknown => self.goes_or_stays(compared),
        }
    }

    /// A plan that is not sure has a reason, and one of both happens.
    fn goes_or_stays(&self, compared: Compared<'_>) -> Option<String> {
        let Compared { planned, before, .. } = compared;
        let is_protected =
            planned.may_lose.is_empty() && planned.finalizers.as_ref().is_some_and(|all| !all.is_empty());
        if planned.why.is_none() || !(is_protected || self.is_below_a_release(before)) {
            return Some("there is no reason for it".to_owned());
        }
        let goes = self.goes(compared)?;
        let stays = self.stays(compared)?;
        Some(format!("neither goes, because it {goes}, nor stays, because it {stays}"))
    }

    /// Whether an object has, perhaps through others, an owner that releases its dependents. Nothing
    /// else makes a plan unsure here, where every owner can be looked at.
    fn is_below_a_release(&self, object: &Obj) -> bool {
        self.has_owner(object, |owner| {
            let is_root = owner.uid == self.plan.object.uid;
            owner.finalizers().contains(&"orphan") || (is_root && self.plan.cascade == Cascade::Orphan)
        })
    }

    /// Whether an object has, perhaps through others, an owner that is held. If that one loses the finalizer
    /// `foregroundDeletion` before the object is decided on, the object goes after it.
    fn is_below_held(&self, object: &Obj) -> bool {
        let planned = self.plan.objects.iter();
        self.has_owner(object, |owner| {
            planned.clone().any(|object| object.name.uid == owner.uid && object.effect == Effect::Held)
        })
    }

    /// Whether such an object owns this one, perhaps through others.
    fn has_owner(&self, object: &Obj, wanted: impl Fn(&Obj) -> bool) -> bool {
        let (mut met, mut open) = (HashSet::new(), vec![object]);
        while let Some(object) = open.pop() {
            for uid in object.owner_uids() {
                let Some(owner) = self.objects.iter().find(|owner| owner.uid == uid) else { continue };
                if wanted(owner) {
                    return true;
                }
                if met.insert(uid) {
                    open.push(owner);
                }
            }
        }
        false
    }

    fn goes(&self, compared: Compared<'_>) -> Option<String> {
        let Compared { planned, before, after, moment, .. } = compared;
        // An object that blocks is no finalizer, and goes on blocking.
        let is_blocked = self.is_blocked(planned);
        let has_finalizers = planned.finalizers.as_ref().is_none_or(|finalizers| !finalizers.is_empty());
        let is_held = planned.effect == Effect::Held || (planned.effect == Effect::Unknown && has_finalizers);
        match (after, moment) {
            (None, Moment::Idle) if is_held => Some("is gone".to_owned()),
            (Some(after), Moment::Idle) if is_held => {
                let names = planned.finalizers.iter().flatten().map(|finalizer| finalizer.name.as_str());
                let names: Vec<&str> = names.collect();
                (names != holds(after))
                    .then(|| format!("has the finalizers {:?}, not {names:?}", after.finalizers()))
            }
            (Some(_), Moment::Idle)
                if !planned.after.is_empty()
                    || !planned.perhaps_after.is_empty()
                    || self.is_below_held(before) =>
            {
                None
            }
            (Some(_), Moment::Released) if is_blocked => None,
            (Some(after), _) => Some(format!("is still there: {}", after.raw["metadata"])),
            (None, _) => None,
        }
    }

    fn stays(&self, compared: Compared<'_>) -> Option<String> {
        let Compared { planned, before, after, shown, moment } = compared;
        let Some(after) = after else {
            // It was kept by an object that was on its way.
            return (moment == Moment::Idle || !self.had_deleted).then(|| "is gone".to_owned());
        };
        if after.is_terminating() != before.is_terminating() {
            return Some("is deleted".to_owned());
        }
        let uids: BTreeSet<&str> = before.owner_uids().into_iter().chain(after.owner_uids()).collect();
        for uid in uids {
            let of = |object: &Obj| object.owner_uids().into_iter().filter(|other| *other == uid).count();
            let named = |names: &[ObjectName]| names.iter().filter(|name| name.uid == uid).count();
            // Until a finalizer is removed, an owner can still be there, and its references, too.
            let may_wait = moment == Moment::Idle && shown.objects.contains_key(uid);
            let most = of(before).saturating_sub(if may_wait { 0 } else { named(&planned.loses) });
            let surely = if self.had_deleted { 0 } else { of(before) };
            let least = surely.saturating_sub(named(&planned.loses) + named(&planned.may_lose));
            let left = of(after);
            if !(least..=most).contains(&left) {
                return Some(format!("has {left} references to {uid}, not {least} to {most}"));
            }
        }
        None
    }

    fn is_untouched(&self, before: &Obj, after: Option<&Obj>, moment: Moment) -> Option<String> {
        if moment == Moment::Released && self.had_deleted {
            return None;
        }
        match after {
            // It was on its way before, and only waited for something that goes now.
            None if before.is_terminating() && before.finalizers().contains(&"foregroundDeletion") => None,
            None => Some("is gone".to_owned()),
            Some(after) if after.is_terminating() != before.is_terminating() => Some("is deleted".to_owned()),
            Some(after) if after.owner_uids() != before.owner_uids() => {
                Some("has lost a reference".to_owned())
            }
            Some(_) => None,
        }
    }

    /// Whether an object waits, perhaps through others, for one that blocks.
    fn is_blocked(&self, planned: &PlannedObject) -> bool {
        let (mut met, mut open) = (HashSet::new(), vec![planned]);
        while let Some(object) = open.pop() {
            if object.effect == Effect::Blocks {
                return true;
            }
            if met.insert(&object.name) {
                let waits = |other: &&PlannedObject| {
                    object.after.contains(&other.name) || object.perhaps_after.contains(&other.name)
                };
                open.extend(self.plan.objects.iter().filter(waits));
            }
        }
        false
    }
}
