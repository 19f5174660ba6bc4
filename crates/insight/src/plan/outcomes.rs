//! Which objects go, by the collector's own verdict.
//!
//! The collector works on many objects at once, in any order. An object surely goes if it does in
//! every order, and may go if it does in some. The two differ only below objects that carry the
//! finalizer `orphan`, and where an owner could not be looked at.

use std::sync::Arc;

use crate::knowledge::Asker;
use crate::plan::walk::{Index, Outside, Owner, Visited, Walk, outside};
use kube_gc_core::graph::{ForegroundProgress, Generation, ObjectSnapshot, OwnerView, ReferenceSnapshot};
use kube_gc_core::object::{DeletionState, OwnerReference, PropagationPolicy};
use kube_gc_core::verdict::{Decision, ReferenceClass, decide};

/// What a reference of an object that was visited refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    Visited(Index),
    Outside(Outside),
}

/// What happens to each object that was visited, by its place.
#[derive(Debug)]
pub(super) struct Outcomes {
    /// The dependents of each object, once for each reference, and whether it blocks.
    pub(super) dependents: Vec<Vec<(Index, bool)>>,
    /// The objects in each namespace, and of each definition.
    pub(super) contents: Vec<Vec<Index>>,
    /// What each reference of each object refers to.
    pub(super) owners: Vec<Vec<Met>>,
    /// Goes in every order.
    pub(super) sure: Vec<bool>,
    /// Goes in some order.
    pub(super) may: Vec<bool>,
}

impl Outcomes {
    /// Decides about all objects. `None` if the question needs more facts.
    pub(super) fn of(asker: &mut Asker<'_>, walk: &Walk) -> Option<Self> {
        let count = walk.visited.len();
        let (mut dependents, mut contents) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        let mut owners = Vec::with_capacity(count);
        let mut is_complete = true;
        for (place, visited) in (0..).zip(&walk.visited) {
            let mut met = Vec::with_capacity(visited.references.len());
            for reference in &visited.references {
                match &reference.owner {
                    Owner::Visited(owner) => {
                        dependents[*owner as usize].push((place, reference.blocking));
                        met.push(Met::Visited(*owner));
                    }
                    Owner::Other(snapshot) => match outside(asker, snapshot) {
                        Some(outside) => met.push(Met::Outside(outside)),
                        None => is_complete = false,
                    },
                }
            }
            owners.push(met);
            if let Some(container) = visited.container {
                contents[container as usize].push(place);
            }
        }
        if !is_complete {
            return None;
        }
        let mut outcomes = Self { dependents, contents, owners, sure: Vec::new(), may: Vec::new() };
        outcomes.sure = outcomes.spread(walk, true);
        outcomes.may = outcomes.spread(walk, false);
        Some(outcomes)
    }

    /// Whether an owner of an object was not visited, and is in this state.
    pub(super) fn has_outside(&self, place: Index, outside: Outside) -> bool {
        self.owners[place as usize].contains(&Met::Outside(outside))
    }

    /// The objects that go. Each is decided on when the last of its owners is known to go.
    fn spread(&self, walk: &Walk, surely: bool) -> Vec<bool> {
        let mut goes = vec![false; walk.visited.len()];
        let visited_owners =
            |owners: &Vec<Met>| owners.iter().filter(|met| matches!(met, Met::Visited(_))).count();
        let mut left: Vec<usize> = self.owners.iter().map(visited_owners).collect();
        let mut going: Vec<Index> = vec![0];
        let deleted = (0..).zip(&walk.visited).filter(|(_, visited)| visited.deletion.is_being_deleted());
        going.extend(deleted.map(|(place, _)| place));
        while let Some(place) = going.pop() {
            if std::mem::replace(&mut goes[place as usize], true) {
                continue;
            }
            going.extend(&self.contents[place as usize]);
            for &(dependent, _) in &self.dependents[place as usize] {
                let at = dependent as usize;
                left[at] -= 1;
                if left[at] == 0 && !goes[at] && self.is_deleted(walk, dependent, surely) {
                    going.push(dependent);
                }
            }
        }
        goes
    }

    /// Whether the collector deletes an object when all its owners that were visited have gone.
    fn is_deleted(&self, walk: &Walk, place: Index, surely: bool) -> bool {
        let visited = &walk.visited[place as usize];
        let references = visited.references.iter().zip(&self.owners[place as usize]);
        let classes = references.filter_map(|(reference, met)| {
            let class = class(walk, *met, surely);
            // In some order, the references to orphaning owners have gone before it is decided on.
            (surely || class != ReferenceClass::Orphaned).then_some((reference.blocking, class))
        });
        let (blocking, classes): (Vec<bool>, Vec<ReferenceClass>) = classes.collect();
        matches!(verdict(visited, &blocking, &classes), Decision::Delete { .. })
    }
}

/// The class of a reference after all that goes has gone, its owner included.
pub(super) fn class(walk: &Walk, met: Met, surely: bool) -> ReferenceClass {
    match met {
        Met::Visited(owner) if walk.orphans(owner) => ReferenceClass::Orphaned,
        Met::Outside(Outside::Known(class)) => class,
        Met::Outside(Outside::Orphaning) => ReferenceClass::Orphaned,
        Met::Outside(Outside::Unseen) if surely => ReferenceClass::Unresolved,
        Met::Visited(_) | Met::Outside(Outside::Leaving | Outside::Unseen) => ReferenceClass::Absent,
    }
}

/// The collector's verdict on an object with references of these classes.
pub(super) fn verdict(visited: &Visited, blocking: &[bool], classes: &[ReferenceClass]) -> Decision {
    let nothing: Arc<str> = "".into();
    let references = blocking.iter().map(|&block_owner_deletion| ReferenceSnapshot {
        reference: OwnerReference {
            api_version: Arc::clone(&nothing),
            kind: Arc::clone(&nothing),
            name: Arc::clone(&nothing),
            uid: visited.identity.uid.clone(),
            controller: false,
            block_owner_deletion,
        },
        // The classes say all that is known of the owners.
        owner: OwnerView::Unresolved,
    });
    let snapshot = ObjectSnapshot {
        identity: visited.identity.clone(),
        resource_version: None,
        generation: Generation(0),
        deletion: DeletionState::Live,
        finalizers: visited.finalizers,
        references: references.collect(),
        has_dependents: false,
        has_dependent_deleting_dependents: false,
        foreground: ForegroundProgress::Unblocked,
    };
    decide(&snapshot, classes)
}

/// What delays an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// An object that was visited.
    Visited(Index),
    /// One of the owners of this object that are being deleted already.
    OwnerOf(Index),
}

/// How an object may be deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mode {
    /// Perhaps in the foreground.
    pub(super) foreground: bool,
    /// In the foreground, in any order of events.
    surely: bool,
}

/// What delays each object, by its place.
#[derive(Debug)]
pub(super) struct Delays<'a> {
    walk: &'a Walk,
    outcomes: &'a Outcomes,
    modes: Vec<Mode>,
    /// Its deletion begins late, because an owner is still there.
    late: Vec<Option<Cause>>,
    /// Once its deletion has begun, it stays for a while.
    lingers: Vec<Option<Cause>>,
    /// What it waits for besides its own finalizers.
    blocked: Vec<Option<Cause>>,
    /// What has been found and not been followed yet: an object, and whether it is late or lingers.
    open: Vec<(Index, bool)>,
}

impl<'a> Delays<'a> {
    /// Finds out what delays the objects that may go. `holds` says which are held by finalizers of
    /// others, and `blockers` are objects that stay and never stop blocking their owners.
    pub(super) fn of(
        walk: &'a Walk,
        outcomes: &'a Outcomes,
        modes: Vec<Mode>,
        holds: &[bool],
        blockers: &[Index],
    ) -> Self {
        let nothing = vec![None; walk.visited.len()];
        let mut delays = Self {
            walk,
            outcomes,
            modes,
            late: nothing.clone(),
            lingers: nothing.clone(),
            blocked: nothing,
            open: Vec::new(),
        };
        for (place, visited) in (0..).zip(&walk.visited) {
            let index = place as usize;
            if !outcomes.may[index] {
                continue;
            }
            // A grace period, if it is no finalizer.
            let waits = place != 0 && visited.deletion == DeletionState::Terminating;
            if holds[index] || waits {
                delays.linger(place, Cause::Visited(place));
            }
            if outcomes.has_outside(place, Outside::Leaving) && !delays.has_begun(place) {
                delays.begin_late(place, Cause::OwnerOf(place));
            }
        }
        for &blocker in blockers {
            delays.hold_owners(blocker, Cause::Visited(blocker));
        }
        while let Some((place, is_late)) = delays.open.pop() {
            if is_late {
                delays.spread_late(place);
            } else {
                delays.spread_lingering(place);
            }
        }
        delays
    }

    /// What an object waits for, besides its own finalizers.
    pub(super) fn of_object(&self, place: Index) -> Option<Cause> {
        self.blocked[place as usize].or(self.late[place as usize])
    }

    /// Whether it is deleted whatever its owners do.
    fn has_begun(&self, place: Index) -> bool {
        place == 0 || self.walk.visited[place as usize].deletion.is_being_deleted()
    }

    fn begin_late(&mut self, place: Index, cause: Cause) {
        if self.late[place as usize].is_none() {
            self.late[place as usize] = Some(cause);
            self.open.push((place, true));
        }
    }

    fn linger(&mut self, place: Index, cause: Cause) {
        if cause != Cause::Visited(place) {
            self.blocked[place as usize].get_or_insert(cause);
        }
        if self.lingers[place as usize].is_none() {
            self.lingers[place as usize] = Some(cause);
            self.open.push((place, false));
        }
    }

    /// The owner of these is still there, and not deleted yet.
    fn spread_late(&mut self, owner: Index) {
        let Some(cause) = self.late[owner as usize] else { return };
        let outcomes = self.outcomes;
        for &(dependent, _) in &outcomes.dependents[owner as usize] {
            self.wait_for_owner(dependent, cause);
        }
        for &content in &outcomes.contents[owner as usize] {
            if outcomes.may[content as usize] && !self.has_begun(content) {
                self.begin_late(content, cause);
            }
        }
        self.keep_container(owner, cause);
    }

    /// The object is being deleted and still there.
    fn spread_lingering(&mut self, place: Index) {
        let Some(cause) = self.lingers[place as usize] else { return };
        let outcomes = self.outcomes;
        self.hold_owners(place, cause);
        self.keep_container(place, cause);
        // While it waits for blocking dependents only, its other dependents go.
        let waits_for_dependents = self.modes[place as usize].foreground && cause != Cause::Visited(place);
        let is_container = !outcomes.contents[place as usize].is_empty();
        if waits_for_dependents && !is_container {
            return;
        }
        for &(dependent, blocking) in &outcomes.dependents[place as usize] {
            // Before it waits for others, it waits for those that block it.
            if !(self.modes[place as usize].surely && blocking) {
                self.wait_for_owner(dependent, cause);
            }
        }
    }

    fn wait_for_owner(&mut self, dependent: Index, cause: Cause) {
        let is_contained = self.walk.visited[dependent as usize].container.is_some();
        let goes_at_once = self.has_begun(dependent) || is_contained;
        if self.outcomes.may[dependent as usize] && !goes_at_once {
            self.begin_late(dependent, cause);
        }
    }

    /// An object that is still there blocks the owners that wait for it.
    fn hold_owners(&mut self, place: Index, cause: Cause) {
        let walk = self.walk;
        for reference in &walk.visited[place as usize].references {
            if let Some(owner) = reference.visited().or(reference.namesake)
                && owner != place
                && reference.blocking
                && self.outcomes.may[owner as usize]
                && self.modes[owner as usize].foreground
            {
                self.linger(owner, cause);
            }
        }
    }

    /// A namespace stays until nothing is in it, and a definition until its type has no objects.
    fn keep_container(&mut self, place: Index, cause: Cause) {
        if let Some(container) = self.walk.visited[place as usize].container {
            self.linger(container, cause);
        }
    }
}

/// How the objects that may go are deleted: the root by its policy, others in the foreground if an
/// owner waits for them and they have dependents of their own, or if a finalizer asks for that.
pub(super) fn modes(walk: &Walk, outcomes: &Outcomes) -> Vec<Mode> {
    let mut modes = vec![Mode::default(); walk.visited.len()];
    let mut open = Vec::new();
    for (place, visited) in (0..).zip(&walk.visited) {
        let asked_for = match (place, visited.deletion) {
            (0, _) => walk.query.policy == PropagationPolicy::Foreground,
            (_, DeletionState::DeletingDependents) => true,
            (_, DeletionState::Live) => {
                visited.finalizers.foreground && !walk.orphans(place) && !walk.goes_with_namespace(place)
            }
            (_, DeletionState::Terminating | DeletionState::Orphaning) => false,
        };
        if asked_for && outcomes.may[place as usize] {
            modes[place as usize] = Mode { foreground: true, surely: true };
            open.push(place);
        }
    }
    while let Some(owner) = open.pop() {
        for &(place, blocking) in &outcomes.dependents[owner as usize] {
            let visited = &walk.visited[place as usize];
            let goes = outcomes.may[place as usize] && visited.deletion == DeletionState::Live && place != 0;
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
