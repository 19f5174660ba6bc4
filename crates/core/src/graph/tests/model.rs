//! A naive model: all objects in one map, everything computed from scratch.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::graph::testing::histories::*;
use crate::graph::testing::world::*;
use crate::graph::*;
use crate::object::*;

type Name = (String, String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Status {
    Solid,
    Waiting,
    Mismatch,
    Missing,
    Unresolved,
    Invalid,
}

#[derive(Default)]
struct Model {
    objects: BTreeMap<Name, Obj>,
}

fn name(obj: &Obj) -> Name {
    (obj.facts.uid.to_string(), obj.resource.group_resource.to_string())
}

fn state(obj: &Obj) -> DeletionState {
    obj.facts.deletion_state()
}

impl Model {
    fn resolve(reference: &OwnerReference) -> Option<std::sync::Arc<ResourceType>> {
        catalog().resolve(&reference.api_version, &reference.kind).cloned()
    }
    fn target(reference: &OwnerReference) -> Option<Name> {
        let resource = Self::resolve(reference)?;
        Some((reference.uid.to_string(), resource.group_resource.to_string()))
    }
    fn status(&self, sharding: Sharding, dependent: &Obj, reference: &OwnerReference) -> Status {
        let Some(resource) = Self::resolve(reference) else { return Status::Unresolved };
        let namespace = &dependent.facts.namespace;
        if namespace.is_none() && resource.scope == Scope::Namespaced {
            return Status::Invalid;
        }
        let owner = Self::target(reference).and_then(|target| self.objects.get(&target)).filter(|owner| {
            let place = &owner.facts.namespace;
            place.is_none() || sharding.of(place.as_ref()) == sharding.of(namespace.as_ref())
        });
        let Some(owner) = owner else { return Status::Missing };
        let place = &owner.facts.namespace;
        if *owner.facts.name != *reference.name || (place.is_some() && place != namespace) {
            Status::Mismatch
        } else if state(owner) == DeletionState::DeletingDependents {
            Status::Waiting
        } else {
            Status::Solid
        }
    }
    /// The views of one object, least resource first.
    fn views(&self, obj: &Obj) -> Vec<&Obj> {
        let look = |o: &Obj| {
            let facts = &o.facts;
            (facts.uid.clone(), facts.namespace.clone(), facts.name.clone(), o.resource.kind.clone())
        };
        let mut views: Vec<&Obj> = self.objects.values().filter(|other| look(other) == look(obj)).collect();
        views.sort_by(|a, b| a.resource.group_resource.cmp(&b.resource.group_resource));
        views
    }
    fn is_alias(&self, obj: &Obj) -> bool {
        self.views(obj).first().is_some_and(|first| name(first) != name(obj))
    }
    /// The dependents that count, and whether each blocks.
    fn dependents(&self, owner: &Obj) -> BTreeMap<Name, bool> {
        let views: BTreeSet<Name> = self.views(owner).into_iter().map(name).collect();
        let mut found = BTreeMap::new();
        for obj in self.objects.values().filter(|obj| !views.contains(&name(obj)) && !self.is_alias(obj)) {
            if owner.facts.namespace.is_some() && obj.facts.namespace != owner.facts.namespace {
                continue;
            }
            for reference in &obj.facts.owners {
                if Self::target(reference).is_some_and(|target| views.contains(&target)) {
                    *found.entry(name(obj)).or_default() |= reference.block_owner_deletion;
                }
            }
        }
        found
    }
    fn blocking(&self, owner: &Obj) -> Vec<&Obj> {
        self.dependents(owner)
            .iter()
            .filter(|&(_, &blocks)| blocks)
            .map(|(name, _)| &self.objects[name])
            .collect()
    }
    fn foreground(&self, obj: &Obj) -> ForegroundProgress {
        let deleting = |obj: &&Obj| state(obj) == DeletionState::DeletingDependents;
        let blocking = self.blocking(obj);
        if blocking.is_empty() {
            return ForegroundProgress::Unblocked;
        }
        let (mut reached, mut open) = (BTreeSet::new(), vec![obj]);
        while let Some(next) = open.pop() {
            for dependent in self.blocking(next).into_iter().filter(deleting) {
                if reached.insert(name(dependent)) {
                    open.push(dependent);
                }
            }
        }
        if blocking.iter().all(deleting) && reached.contains(&name(obj)) {
            ForegroundProgress::Deadlocked
        } else {
            ForegroundProgress::Blocked(blocking.len())
        }
    }
    /// The state of every reference of every object, and whether the object may have to be evaluated,
    /// which for an alias its primary is.
    fn statuses(&self, sharding: Sharding) -> BTreeMap<(Name, OwnerReference), (Status, bool)> {
        let each = self.objects.values().flat_map(|obj| {
            let going = matches!(state(obj), DeletionState::Terminating | DeletionState::Orphaning);
            let decided = !going && !self.is_alias(obj);
            let of = |reference: &OwnerReference| {
                ((name(obj), reference.clone()), (self.status(sharding, obj, reference), decided))
            };
            obj.facts.owners.iter().map(of).collect::<Vec<_>>()
        });
        each.collect()
    }
    /// For every node that is deleting dependents, what blocks it, and how much of that is not
    /// deleting dependents itself.
    fn waits(&self) -> BTreeMap<Name, (usize, usize)> {
        let deleting = |obj: &Obj| state(obj) == DeletionState::DeletingDependents;
        let each = self.objects.values().filter(|obj| deleting(obj) && !self.is_alias(obj)).map(|obj| {
            let blocking = self.blocking(obj);
            let active = blocking.iter().filter(|dependent| !deleting(dependent)).count();
            (name(obj), (blocking.len(), active))
        });
        each.collect()
    }
}

/// Applies a step to both.
fn apply(world: &mut World, model: &mut Model, universe: &mut Universe, step: &Step) {
    match &step.op {
        Op::See { references, deletion } => {
            let shown = universe.show(step.object, references, *deletion);
            world.see(&[&shown]);
            model.objects.insert(name(&shown), shown);
        }
        Op::Delete => {
            let gone = universe.base(step.object);
            world.delete(&gone);
            model.objects.remove(&name(&gone));
            universe.retire(step.object);
        }
        Op::Relist => {
            let gone = universe.base(step.object);
            model.objects.remove(&name(&gone));
            universe.retire(step.object);
            let resource = gone.resource.group_resource.to_string();
            let version = universe.tick();
            let there: Vec<&Obj> = model.objects.values().filter(|o| o.resource == gone.resource).collect();
            world.list(&resource, version, &there);
        }
    }
}

fn compare(world: &mut World, model: &Model) -> Result<(), TestCaseError> {
    let sharding = world.sharding;
    for obj in model.objects.values() {
        let home = usize::from(sharding.of(obj.facts.namespace.as_ref()).0);
        let all = world.partitions[home].dependents(&obj.key());
        let page = world.partitions[home].dependent_views(&obj.key(), &all);
        let dependents: BTreeSet<Name> = page
            .iter()
            .map(|view| (view.identity.uid.to_string(), view.identity.resource.group_resource.to_string()))
            .collect();
        let expected: BTreeSet<Name> = model.dependents(obj).into_keys().collect();
        prop_assert_eq!(&dependents, &expected, "dependents of {:?}", obj);
        if model.is_alias(obj) {
            prop_assert_eq!(world.snapshot_and_queue(obj), Snapshot::Gone);
            continue;
        }
        let object = world.object(obj);
        prop_assert_eq!(object.has_dependents, !expected.is_empty());
        let is_deleting = |name: &Name| state(&model.objects[name]) == DeletionState::DeletingDependents;
        let possible_cycle = !obj.facts.owners.is_empty() && expected.iter().any(is_deleting);
        prop_assert_eq!(object.has_dependent_deleting_dependents, possible_cycle);
        if state(obj) == DeletionState::DeletingDependents {
            prop_assert_eq!(object.foreground, model.foreground(obj), "{:?}", obj);
        }
        prop_assert_eq!(object.references.len(), obj.facts.owners.len());
        for (shown, reference) in object.references.iter().zip(&obj.facts.owners) {
            prop_assert_eq!(&shown.reference, reference);
            let status = model.status(sharding, obj, reference);
            let known = match &shown.owner {
                OwnerView::Unresolved => Status::Unresolved,
                OwnerView::InvalidScope => Status::Invalid,
                OwnerView::Remote(identity) => view(&world.partitions[0].owner_state(identity)),
                OwnerView::Local { state, .. } => view(state),
            };
            let status = if status == Status::Mismatch { Status::Missing } else { status };
            prop_assert_eq!(known, status, "{:?} of {:?}", reference, obj);
        }
    }
    Ok(())
}

fn view(state: &OwnerState) -> Status {
    match state {
        OwnerState::Observed { deletion: DeletionState::DeletingDependents, .. } => Status::Waiting,
        OwnerState::Observed { .. } => Status::Solid,
        OwnerState::Absent | OwnerState::Unknown => Status::Missing,
    }
}

proptest! {
    /// Rules 3.10, 3.12 and 4.4.
    #[test]
    fn the_graph_agrees_with_the_naive_model_and_queues_all_necessary_keys(
        steps in steps(true),
        namespaced in 1..3_u16,
    ) {
        let (mut world, mut model) = (World::new(namespaced), Model::default());
        let mut universe = Universe::default();
        let sharding = world.sharding;
        for step in &steps {
            let (statuses, waits) = (model.statuses(sharding), model.waits());
            let dependents: BTreeMap<Name, _> =
                model.objects.iter().map(|(name, obj)| (name.clone(), model.dependents(obj))).collect();
            world.forget();
            apply(&mut world, &mut model, &mut universe, step);
            let queued: BTreeSet<String> = world.queued().into_iter().collect();
            let orphans: BTreeSet<String> = world.queued_orphaning().into_iter().collect();
            for (at, status) in model.statuses(sharding) {
                if statuses.get(&at) == Some(&status) || !status.1 {
                    continue;
                }
                let ((uid, _), reference) = &at;
                let woken = queued.contains(uid);
                match status.0 {
                    Status::Waiting | Status::Mismatch | Status::Unresolved => {
                        prop_assert!(woken, "{:?} became {:?} after {:?}", at, status, step);
                    }
                    // Or its owner is being verified, perhaps because of another dependent.
                    Status::Missing => prop_assert!(
                        woken || queued.contains(&reference.uid.to_string())
                            || statuses.iter().any(|((_, other), (status, _))| {
                                *status == Status::Missing && Model::target(other) == Model::target(reference)
                            }),
                        "{:?} became missing after {:?}", at, step
                    ),
                    Status::Solid | Status::Invalid => {}
                }
            }
            for (name, (blocking, active)) in model.waits() {
                let (was_blocking, was_active) = waits.get(&name).copied().unwrap_or((usize::MAX, usize::MAX));
                let moved = (blocking == 0 && was_blocking > 0) || (active == 0 && was_active > 0);
                prop_assert!(!moved || queued.contains(&name.0), "{:?} was not woken by {:?}", name, step);
            }
            for (name, obj) in &model.objects {
                let more = model.dependents(obj).keys().any(|dependent| {
                    dependents.get(name).is_none_or(|before| !before.contains_key(dependent))
                });
                if state(obj) == DeletionState::Orphaning && more && !model.is_alias(obj) {
                    prop_assert!(orphans.contains(&name.0), "{:?} has a late dependent after {:?}", name, step);
                }
            }
            compare(&mut world, &model)?;
        }
    }
}
