//! What delays objects that go: finalizers of others, and what waits for objects that have them.

use kube_gc_core::object::{DeletionState, PropagationPolicy};

use super::outcomes::Outcomes;
use super::outside::Outside;
use super::walk::{Index, Owner, Walk};

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
struct Mode {
    /// Perhaps in the foreground.
    foreground: bool,
    /// In the foreground, in any order of events.
    surely: bool,
}

/// What delays each object, by its place.
#[derive(Debug)]
pub(super) struct Delays {
    modes: Vec<Mode>,
    /// Its deletion begins late, because an owner is still there.
    pub(super) late: Vec<Option<Cause>>,
    /// Once its deletion has begun, it stays for a while.
    pub(super) lingers: Vec<Option<Cause>>,
    /// What it waits for besides its own finalizers.
    blocked: Vec<Option<Cause>>,
}

impl Delays {
    /// Finds out what delays the objects that may go. `holds` says which are held by finalizers of
    /// others, and `blockers` are objects that stay and never stop blocking their owners.
    pub(super) fn of(walk: &Walk, outcomes: &Outcomes, holds: &[bool], blockers: &[Index]) -> Self {
        let nothing = vec![None; walk.visited.len()];
        let mut delays = Self {
            modes: modes(walk, outcomes),
            late: nothing.clone(),
            lingers: nothing.clone(),
            blocked: nothing,
        };
        let mut open = Vec::new();
        for (place, visited) in (0..).zip(&walk.visited) {
            let index = place as usize;
            if !outcomes.may[index] {
                continue;
            }
            // A grace period, if it is no finalizer.
            let waits = place != 0 && visited.deletion == DeletionState::Terminating;
            if holds[index] || waits {
                delays.linger(place, Cause::Visited(place), &mut open);
            }
            let leaving = outcomes.outside[index].contains(&Outside::Leaving);
            if leaving && !delays.has_begun(walk, place) {
                delays.begin_late(place, Cause::OwnerOf(place), &mut open);
            }
        }
        for &blocker in blockers {
            delays.hold_owners(walk, outcomes, blocker, Cause::Visited(blocker), &mut open);
        }
        while let Some((place, is_late)) = open.pop() {
            if is_late {
                delays.spread_late(walk, outcomes, place, &mut open);
            } else {
                delays.spread_lingering(walk, outcomes, place, &mut open);
            }
        }
        delays
    }

    /// Whether an object may be deleted in the foreground.
    pub(super) fn is_foreground(&self, place: Index) -> bool {
        self.modes[place as usize].foreground
    }

    /// What an object waits for, besides its own finalizers.
    pub(super) fn of_object(&self, place: Index) -> Option<Cause> {
        self.blocked[place as usize].or(self.late[place as usize])
    }

    /// Whether it is deleted whatever its owners do.
    fn has_begun(&self, walk: &Walk, place: Index) -> bool {
        place == 0 || walk.visited[place as usize].deletion.is_being_deleted()
    }

    fn begin_late(&mut self, place: Index, cause: Cause, open: &mut Vec<(Index, bool)>) {
        if self.late[place as usize].is_none() {
            self.late[place as usize] = Some(cause);
            open.push((place, true));
        }
    }

    fn linger(&mut self, place: Index, cause: Cause, open: &mut Vec<(Index, bool)>) {
        if cause != Cause::Visited(place) {
            self.blocked[place as usize].get_or_insert(cause);
        }
        if self.lingers[place as usize].is_none() {
            self.lingers[place as usize] = Some(cause);
            open.push((place, false));
        }
    }

    /// The owner of these is still there, and not deleted yet.
    fn spread_late(&mut self, walk: &Walk, outcomes: &Outcomes, owner: Index, open: &mut Vec<(Index, bool)>) {
        let Some(cause) = self.late[owner as usize] else { return };
        for &(dependent, _) in outcomes.dependents.of_owner(owner) {
            self.wait_for_owner(walk, outcomes, dependent, cause, open);
        }
        for content in outcomes.contents(owner) {
            if outcomes.may[content as usize] && !self.has_begun(walk, content) {
                self.begin_late(content, cause, open);
            }
        }
        self.keep_container(walk, owner, cause, open);
    }

    /// The object is being deleted and still there.
    fn spread_lingering(
        &mut self,
        walk: &Walk,
        outcomes: &Outcomes,
        place: Index,
        open: &mut Vec<(Index, bool)>,
    ) {
        let Some(cause) = self.lingers[place as usize] else { return };
        self.hold_owners(walk, outcomes, place, cause, open);
        self.keep_container(walk, place, cause, open);
        // While it waits for blocking dependents only, its other dependents go.
        let waits_for_dependents = self.modes[place as usize].foreground && cause != Cause::Visited(place);
        let is_container = outcomes.contents(place).next().is_some();
        if waits_for_dependents && !is_container {
            return;
        }
        for &(dependent, blocking) in outcomes.dependents.of_owner(place) {
            // Before it waits for others, it waits for those that block it.
            if !(self.modes[place as usize].surely && blocking) {
                self.wait_for_owner(walk, outcomes, dependent, cause, open);
            }
        }
    }

    fn wait_for_owner(
        &mut self,
        walk: &Walk,
        outcomes: &Outcomes,
        dependent: Index,
        cause: Cause,
        open: &mut Vec<(Index, bool)>,
    ) {
        let goes_at_once =
            self.has_begun(walk, dependent) || walk.visited[dependent as usize].container.is_some();
        if outcomes.may[dependent as usize] && !goes_at_once {
            self.begin_late(dependent, cause, open);
        }
    }

    /// An object that is still there blocks the owners that wait for it.
    fn hold_owners(
        &mut self,
        walk: &Walk,
        outcomes: &Outcomes,
        place: Index,
        cause: Cause,
        open: &mut Vec<(Index, bool)>,
    ) {
        for reference in &walk.visited[place as usize].references {
            let owner = match reference.owner {
                Owner::Visited(owner) => Some(owner),
                Owner::Other(_) => reference.namesake,
            };
            if let Some(owner) = owner
                && owner != place
                && reference.blocking
                && outcomes.may[owner as usize]
                && self.modes[owner as usize].foreground
            {
                self.linger(owner, cause, open);
            }
        }
    }

    /// A namespace stays until nothing is in it, and a definition until its type has no objects.
    fn keep_container(&mut self, walk: &Walk, place: Index, cause: Cause, open: &mut Vec<(Index, bool)>) {
        if let Some(container) = walk.visited[place as usize].container {
            self.linger(container, cause, open);
        }
    }
}

/// How the objects that may go are deleted: the root by its policy, others in the foreground if an
/// owner waits for them and they have dependents of their own, or if a finalizer asks for that.
fn modes(walk: &Walk, outcomes: &Outcomes) -> Vec<Mode> {
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
        for &(place, blocking) in outcomes.dependents.of_owner(owner) {
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
