//! What becomes of each object, by the collector's own verdict on its owners.
//!
//! The collector works on many objects at once, in any order. An object surely goes if it does in
//! every order, and may go if it does in some. The two differ only below objects that carry the
//! finalizer `orphan`, and where an owner could not be looked at.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::finalizers::{FinalizerReport, is_protected};
use crate::hold::is_pod;
use crate::knowledge::{Asker, NodeState, Particulars};
use crate::plan::answer::{Cascade, Effect};
use crate::plan::listing::{foreign, hangs};
use crate::plan::outside::{Met, outside};
use crate::plan::walk::{Index, Owner, Visited, Walk};
use kube_gc_core::object::DeletionState;
use kube_gc_core::text::LISTED;
use kube_gc_core::verdict::{Decision, ReferenceClass};

/// Why something happens to an object that the collector parks.
const UNDECIDED: &str = "the collector cannot decide about it: an owner cannot be resolved";

/// The most causes of a delay that are followed to each object: one more than a sentence lists.
const MOST_CAUSES: usize = LISTED + 1;

/// What becomes of each object that was visited, by its place.
pub(super) struct Consequences<'a> {
    pub(super) walk: &'a Walk,
    /// The dependents of each object, once for each reference, and whether it blocks.
    pub(super) dependents: Vec<Vec<(Index, bool)>>,
    /// The objects that each takes along though it does not own them.
    pub(super) contents: Vec<Vec<Index>>,
    /// What each reference of each object refers to.
    pub(super) owners: Vec<Vec<Met>>,
    pub(super) goes: Vec<Goes>,
    /// How each object that may go is deleted.
    pub(super) modes: Vec<Mode>,
    /// The objects at which the collector breaks a circle: they stop blocking their owner before they are deleted.
    breaking: HashSet<Index>,
    /// Whether finalizers of others hold it when it goes, or an API that does not answer.
    pub(super) held: Vec<Held>,
    /// The pods whose end no kubelet confirms, and why.
    pub(super) unconfirmed: BTreeMap<Index, String>,
    /// What the collector has failed with, and what was said.
    pub(super) failed: BTreeMap<Index, String>,
    /// Why a namespace never goes, if the server has an API that does not answer.
    pub(super) hangs: Option<String>,
    /// The objects that stay and that something happens to.
    pub(super) stays: BTreeMap<Index, Stay>,
    /// The first that each object waits for, besides its own finalizers.
    pub(super) after: Vec<Vec<Cause>>,
}

/// In which orders of events an object goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Goes {
    Never,
    InSome,
    InAll,
}

/// Whether something holds an object after it is deleted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    No,
    /// Only until kube-controller-manager finds that nothing uses it, which may be at once.
    Perhaps,
    Surely,
}

/// How an object may be deleted.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    #[default]
    Background,
    /// In the foreground, in some order of events.
    PerhapsForeground,
    Foreground,
}

/// An object that stays.
pub(super) struct Stay {
    pub(super) effect: Effect,
    pub(super) loses: Vec<Index>,
    pub(super) may_lose: Vec<Index>,
    pub(super) why: Option<&'static str>,
}

/// What an object waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// An object that was visited.
    Visited(Index),
    /// Another one, in some orders of events.
    Perhaps(Index),
    /// One of the owners of this object that are being deleted already.
    OwnerOf(Index),
}

impl<'a> Consequences<'a> {
    /// Finds out all of it. `None` if the question needs more facts.
    pub(super) fn of(asker: &mut Asker<'_>, walk: &'a Walk) -> Option<Self> {
        let count = walk.visited.len();
        let (mut dependents, mut contents) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        let (mut owners, mut garbage) = (Vec::with_capacity(count), HashMap::new());
        for (place, visited) in (0..).zip(&walk.visited) {
            let mut met = Vec::with_capacity(visited.references.len());
            for reference in &visited.references {
                // All are asked about at once, so no needed one may end the loop.
                met.push(match &reference.owner {
                    Owner::Visited(owner) => {
                        dependents[*owner as usize].push((place, reference.blocking));
                        Some(Met::Visited(*owner))
                    }
                    Owner::Other(snapshot) => outside(asker, snapshot, &mut garbage),
                });
            }
            owners.push(met.into_iter().collect::<Option<Vec<Met>>>());
            for container in &visited.containers {
                contents[*container as usize].push(place);
            }
        }
        let mut all = Self {
            walk,
            dependents,
            contents,
            owners: owners.into_iter().collect::<Option<_>>()?,
            goes: Vec::new(),
            modes: Vec::new(),
            breaking: HashSet::new(),
            held: Vec::new(),
            unconfirmed: BTreeMap::new(),
            failed: BTreeMap::new(),
            hangs: hangs(asker),
            stays: BTreeMap::new(),
            after: Vec::new(),
        };
        let failed = &asker.outside().failed;
        let places = (0..).zip(&walk.visited).filter(|_| !failed.is_empty());
        let message = |of: &Visited| failed.get(&of.identity.uid.shown().to_string()).cloned();
        all.failed = places.filter_map(|(place, of)| Some((place, message(of)?))).collect();
        let goes = all.spread(true).into_iter().zip(all.spread(false)).map(|goes| match goes {
            (true, _) => Goes::InAll,
            (false, true) => Goes::InSome,
            (false, false) => Goes::Never,
        });
        all.goes = goes.collect();
        (all.modes, all.breaking) = all.modes();
        all.unconfirmed = all.unconfirmed(asker);
        all.held =
            (0..).zip(&walk.visited).map(|(place, visited)| all.is_held(asker, place, visited)).collect();
        let stays = (0..).zip(&all.goes).filter(|(_, goes)| **goes == Goes::Never);
        all.stays = stays.filter_map(|(place, _)| Some((place, all.stay(place)?))).collect();
        all.after = all.delays();
        Some(all)
    }

    pub(super) fn visited(&self, place: Index) -> &'a Visited {
        &self.walk.visited[place as usize]
    }

    pub(super) fn may_go(&self, place: Index) -> bool {
        self.goes[place as usize] != Goes::Never
    }

    fn mode(&self, place: Index) -> Mode {
        self.modes[place as usize]
    }

    /// Whether an owner of an object was not visited, and is in this state.
    pub(super) fn has_owner(&self, place: Index, met: Met) -> bool {
        self.owners[place as usize].contains(&met)
    }

    /// The objects that go. Each is decided on when the last of its owners is known to go.
    fn spread(&self, surely: bool) -> Vec<bool> {
        let mut goes = vec![false; self.walk.visited.len()];
        let visited_owners =
            |owners: &Vec<Met>| owners.iter().filter(|met| matches!(met, Met::Visited(_))).count();
        let mut left: Vec<usize> = self.owners.iter().map(visited_owners).collect();
        let mut going: Vec<Index> = (0..).take(goes.len()).filter(|&place| self.has_begun(place)).collect();
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
        if surely && self.failed.contains_key(&place) {
            return false;
        }
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
            Met::Unfollowed if surely => ReferenceClass::Solid,
            Met::Visited(_) | Met::Leaving | Met::Unseen | Met::Unfollowed => ReferenceClass::Absent,
        }
    }

    /// How the objects that may go are deleted: as was asked for or has begun, others in the foreground if an
    /// owner waits for them and they have dependents of their own, or if a finalizer asks for that.
    fn modes(&self) -> (Vec<Mode>, HashSet<Index>) {
        let walk = self.walk;
        let mut modes = vec![Mode::default(); walk.visited.len()];
        let (mut open, mut breaking, mut firsts) = (Vec::new(), HashSet::new(), HashMap::new());
        for (place, visited) in (0..).zip(&walk.visited) {
            let own = visited.finalizers.foreground && !walk.orphans(place);
            if walk.cascade(place).map_or(own, |cascade| cascade == Cascade::Foreground) && self.may_go(place)
            {
                modes[place as usize] = Mode::Foreground;
                open.push(place);
                firsts.extend(self.has_begun(place).then_some((place, place)));
            }
        }
        while let Some(owner) = open.pop() {
            let dependents = &self.dependents[owner as usize];
            let mut first = firsts.get(&owner).copied();
            let closes = |place| !self.has_begun(owner) && firsts.get(place) == Some(place);
            // A circle closes where the first of a chain of sole dependents belongs to one of them.
            if dependents.iter().any(|(place, _)| closes(place)) {
                breaking.extend(dependents.iter().any(|(place, _)| Some(*place) == first).then_some(owner));
                first = None;
            }
            for &(place, blocking) in dependents {
                let visited = self.visited(place);
                if !self.can_begin_late(place) || walk.orphans(place) || !visited.has_dependents {
                    continue;
                }
                let is_sole = blocking && visited.references.len() == 1 && visited.containers.is_empty();
                let mode = if is_sole { modes[owner as usize] } else { Mode::PerhapsForeground };
                if modes[place as usize] < mode {
                    modes[place as usize] = mode;
                    firsts.extend(first.filter(|_| is_sole).map(|first| (place, first)));
                    open.push(place);
                }
            }
        }
        (modes, breaking)
    }

    /// Whether an object is deleted whatever its owners do.
    fn has_begun(&self, place: Index) -> bool {
        self.walk.is_root(place) || self.visited(place).deletion.is_being_deleted()
    }

    /// Whether its deletion can begin after that of an owner.
    fn can_begin_late(&self, place: Index) -> bool {
        self.may_go(place) && !self.has_begun(place)
    }

    /// Of the first pods that go, those on nodes that are not ready.
    fn unconfirmed(&self, asker: &mut Asker<'_>) -> BTreeMap<Index, String> {
        let goes = |place| self.may_go(place) && !self.is_freed(place);
        let pods = (0..).zip(&self.walk.visited).filter(|(place, of)| is_pod(&of.identity) && goes(*place));
        let pods = pods.take(LISTED).filter_map(|(place, pod)| {
            let live = asker.live(&pod.identity)?.found()?;
            let Particulars::Pod { node: Some(node) } = &live.details.particulars else { return None };
            let why = format!("its kubelet has to confirm its end, and node {node} is not ready");
            (asker.node_state(node) == NodeState::Unready).then_some((place, why))
        });
        pods.collect()
    }

    /// Whether somebody else than the collector has to do something before it goes.
    fn is_held(&self, asker: &mut Asker<'_>, place: Index, visited: &Visited) -> Held {
        let is_namespace = self.is_namespace(place);
        // Somebody has to confirm the end of what has no finalizer and is being deleted, unless PodGC does not wait.
        let waits = visited.deletion == DeletionState::Terminating
            && !(self.goes_last(place) || visited.keeps_contents)
            && !(is_pod(&visited.identity) && self.is_freed(place));
        let may_be_held = visited.held_by_others || is_namespace || self.walk.is_root(place);
        let is_unconfirmed = self.unconfirmed.contains_key(&place);
        if !self.may_go(place) || !(waits || may_be_held || is_unconfirmed) {
            return Held::No;
        }
        let perhaps = if is_unconfirmed { Held::Perhaps } else { Held::No };
        let is_marked = visited.keeps_contents
            && visited.deletion == DeletionState::Live
            && self.walk.cascade(place) == Some(Cascade::Background);
        let is_held = waits || is_marked || (is_namespace && self.hangs.is_some());
        let otherwise = if is_held { Held::Surely } else { perhaps };
        match if may_be_held { foreign(asker, visited) } else { Some(Vec::new()) } {
            Some(finalizers) if finalizers.is_empty() => otherwise,
            Some(finalizers) if finalizers.iter().all(FinalizerReport::is_of_kubernetes) => Held::Perhaps,
            Some(_) => Held::Surely,
            None if is_protected(&visited.identity.resource.group_resource) => Held::Perhaps,
            // A definition always has a finalizer, which the API server removes.
            None if visited.held_by_others && (is_namespace || !self.goes_last(place)) => Held::Surely,
            None => otherwise,
        }
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
                let surely = self.goes[owner as usize] == Goes::InAll;
                if surely { &mut loses } else { &mut may_lose }.push(owner);
            }
            blocks |= !is_removed && reference.blocking && self.mode(owner) > Mode::Background;
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

    /// What delays each object: its deletion begins late, because an owner is still there, or it is held
    /// after that.
    fn delays(&self) -> Vec<Vec<Cause>> {
        let mut late: Vec<Vec<Cause>> = vec![Vec::new(); self.walk.visited.len()];
        let mut held = late.clone();
        let mut open: Vec<(Index, bool, Cause)> = Vec::new();
        for (place, visited) in (0..).zip(&self.walk.visited).filter(|(place, _)| self.may_go(*place)) {
            if self.held[place as usize] != Held::No || self.failed.contains_key(&place) {
                open.push((place, false, Cause::Visited(place)));
            }
            if self.has_owner(place, Met::Leaving) && !self.has_begun(place) && visited.containers.is_empty()
            {
                open.push((place, true, Cause::OwnerOf(place)));
            }
        }
        for (&place, _) in self.stays.iter().filter(|(_, stay)| stay.effect == Effect::Blocks) {
            // It stays, and never stops blocking its owners.
            open.extend(self.held_up(place, Cause::Visited(place)));
        }
        while let Some((place, is_late, cause)) = open.pop() {
            let index = place as usize;
            let known = if is_late { &mut late[index] } else { &mut held[index] };
            if known.len() == MOST_CAUSES || known.contains(&cause) {
                continue;
            }
            known.push(cause);
            let last = self.visited(place).containers.iter().filter(|&&container| self.goes_last(container));
            open.extend(last.map(|&container| (container, false, cause)));
            if is_late {
                let contents = self.contents[index].iter().filter(|&&content| self.can_begin_late(content));
                open.extend(contents.map(|&content| (content, true, cause)));
            } else {
                open.extend(self.held_up(place, cause));
                open.extend(self.after_pod(place).map(|content| (content, true, cause)));
                // In the foreground, its dependents go at once, whatever it waits for itself.
                if self.mode(place) > Mode::Background {
                    continue;
                }
            }
            for &(dependent, _) in &self.dependents[index] {
                let is_contained = !self.visited(dependent).containers.is_empty();
                if !is_contained && self.can_begin_late(dependent) {
                    open.push((dependent, true, cause));
                }
            }
        }
        for ((place, all), late) in (0..).zip(&mut held).zip(late) {
            all.extend(late);
            all.retain(|cause| ![Cause::Visited(place), Cause::Perhaps(place)].contains(cause));
        }
        held
    }

    /// What is in the namespace of a pod that goes with it: pods go first.
    fn after_pod(&self, place: Index) -> impl Iterator<Item = Index> {
        let is_pod = |place: Index| is_pod(&self.visited(place).identity);
        let containers = self.visited(place).containers.iter();
        let namespace = containers.filter(move |&&of| is_pod(place) && self.is_namespace(of));
        let contents = namespace.flat_map(|namespace| &self.contents[*namespace as usize]);
        contents.copied().filter(move |&content| self.can_begin_late(content) && !is_pod(content))
    }

    /// The owners that wait for an object as long as it is there; perhaps only, if another owner may still be there
    /// then: the collector removes the reference to the one that waits.
    fn held_up(&self, place: Index, cause: Cause) -> impl Iterator<Item = (Index, bool, Cause)> {
        let blocking = self.visited(place).references.iter().filter(|reference| reference.blocking);
        let owners = blocking.filter_map(|reference| reference.visited().or(reference.namesake));
        let waits = |owner| self.may_go(owner) && self.mode(owner) > Mode::Background;
        let owners =
            owners.filter(move |&owner| owner != place && waits(owner) && !self.breaking.contains(&place));
        let perhaps = if let Cause::Visited(of) = cause { Cause::Perhaps(of) } else { cause };
        let is_begun = self.visited(place).deletion.is_being_deleted();
        owners.map(move |owner| {
            let keeps = |met: &Met| !matches!(met, Met::Known(_)) && *met != Met::Visited(owner);
            let is_kept = !is_begun && self.owners[place as usize].iter().any(keeps);
            let is_sure = self.mode(owner) == Mode::Foreground && !is_kept;
            (owner, false, if is_sure { cause } else { perhaps })
        })
    }

    /// The dependents that have yet to be deleted before an object goes.
    pub(super) fn held_up_by(&self, place: Index) -> impl Iterator<Item = Index> {
        let waits = self.mode(place) == Mode::Foreground;
        let blocking = self.dependents[place as usize].iter().filter(move |(_, blocking)| waits && *blocking);
        blocking.map(|(dependent, _)| *dependent).filter(|&dependent| self.can_begin_late(dependent))
    }

    pub(super) fn effect(&self, place: Index) -> Option<Effect> {
        match self.goes[place as usize] {
            Goes::InAll => Some(match self.held[place as usize] {
                Held::No => Effect::Deleted,
                Held::Perhaps => Effect::Unknown,
                Held::Surely => Effect::Held,
            }),
            Goes::InSome => Some(Effect::Unknown),
            Goes::Never => self.stays.get(&place).map(|stay| stay.effect),
        }
    }
}
