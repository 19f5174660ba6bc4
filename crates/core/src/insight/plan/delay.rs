//! What delays objects that go: finalizers of others, and what waits for objects that have them.

use crate::object::{DeletionState, PropagationPolicy};

use super::fate::Fates;
use super::outside::Outside;
use super::walk::{Owner, Place, Walk};

/// What delays an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// An object that was met.
    Met(Place),
    /// One of the owners of this object that are being deleted already.
    OwnerOf(Place),
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
    pub(super) fn of(walk: &Walk, fates: &Fates, holds: &[bool], blockers: &[Place]) -> Self {
        let nothing = vec![None; walk.met.len()];
        let mut delays = Self {
            modes: modes(walk, fates),
            late: nothing.clone(),
            lingers: nothing.clone(),
            blocked: nothing,
        };
        let mut open = Vec::new();
        for (place, met) in (0..).zip(&walk.met) {
            let index = place as usize;
            if !fates.may[index] {
                continue;
            }
            // A grace period, if it is no finalizer.
            let waits = place != 0 && met.deletion == DeletionState::Terminating;
            if holds[index] || waits {
                delays.linger(place, Cause::Met(place), &mut open);
            }
            let leaving = fates.outside[index].contains(&Outside::Leaving);
            if leaving && !delays.has_begun(walk, place) {
                delays.begin_late(place, Cause::OwnerOf(place), &mut open);
            }
        }
        for &blocker in blockers {
            delays.hold_owners(walk, fates, blocker, Cause::Met(blocker), &mut open);
        }
        while let Some((place, is_late)) = open.pop() {
            if is_late {
                delays.spread_late(walk, fates, place, &mut open);
            } else {
                delays.spread_lingering(walk, fates, place, &mut open);
            }
        }
        delays
    }

    /// Whether an object may be deleted in the foreground.
    pub(super) fn is_foreground(&self, place: Place) -> bool {
        self.modes[place as usize].foreground
    }

    /// What an object waits for, besides its own finalizers.
    pub(super) fn of_object(&self, place: Place) -> Option<Cause> {
        self.blocked[place as usize].or(self.late[place as usize])
    }

    /// Whether it is deleted whatever its owners do.
    fn has_begun(&self, walk: &Walk, place: Place) -> bool {
        place == 0 || walk.met[place as usize].deletion.is_being_deleted()
    }

    fn begin_late(&mut self, place: Place, cause: Cause, open: &mut Vec<(Place, bool)>) {
        if self.late[place as usize].is_none() {
            self.late[place as usize] = Some(cause);
            open.push((place, true));
        }
    }

    fn linger(&mut self, place: Place, cause: Cause, open: &mut Vec<(Place, bool)>) {
        if cause != Cause::Met(place) {
            self.blocked[place as usize].get_or_insert(cause);
        }
        if self.lingers[place as usize].is_none() {
            self.lingers[place as usize] = Some(cause);
            open.push((place, false));
        }
    }

    /// The owner of these is still there, and not deleted yet.
    fn spread_late(&mut self, walk: &Walk, fates: &Fates, owner: Place, open: &mut Vec<(Place, bool)>) {
        let Some(cause) = self.late[owner as usize] else { return };
        for &(dependent, _) in fates.dependents.of_owner(owner) {
            self.wait_for_owner(walk, fates, dependent, cause, open);
        }
        for content in fates.contents(owner) {
            if fates.may[content as usize] && !self.has_begun(walk, content) {
                self.begin_late(content, cause, open);
            }
        }
        self.keep_container(walk, owner, cause, open);
    }

    /// The object is being deleted and still there.
    fn spread_lingering(&mut self, walk: &Walk, fates: &Fates, place: Place, open: &mut Vec<(Place, bool)>) {
        let Some(cause) = self.lingers[place as usize] else { return };
        self.hold_owners(walk, fates, place, cause, open);
        self.keep_container(walk, place, cause, open);
        // While it waits for blocking dependents only, its other dependents go.
        let waits_for_dependents = self.modes[place as usize].foreground && cause != Cause::Met(place);
        let is_container = fates.contents(place).next().is_some();
        if waits_for_dependents && !is_container {
            return;
        }
        for &(dependent, blocking) in fates.dependents.of_owner(place) {
            // Before it waits for others, it waits for those that block it.
            if !(self.modes[place as usize].surely && blocking) {
                self.wait_for_owner(walk, fates, dependent, cause, open);
            }
        }
    }

    fn wait_for_owner(
        &mut self,
        walk: &Walk,
        fates: &Fates,
        dependent: Place,
        cause: Cause,
        open: &mut Vec<(Place, bool)>,
    ) {
        let goes_at_once =
            self.has_begun(walk, dependent) || walk.met[dependent as usize].container.is_some();
        if fates.may[dependent as usize] && !goes_at_once {
            self.begin_late(dependent, cause, open);
        }
    }

    /// An object that is still there blocks the owners that wait for it.
    fn hold_owners(
        &mut self,
        walk: &Walk,
        fates: &Fates,
        place: Place,
        cause: Cause,
        open: &mut Vec<(Place, bool)>,
    ) {
        for reference in &walk.met[place as usize].references {
            let owner = match reference.owner {
                Owner::Met(owner) => Some(owner),
                Owner::Other(_) => reference.namesake,
            };
            if let Some(owner) = owner
                && owner != place
                && reference.blocking
                && fates.may[owner as usize]
                && self.modes[owner as usize].foreground
            {
                self.linger(owner, cause, open);
            }
        }
    }

    /// A namespace stays until nothing is in it, and a definition until its type has no objects.
    fn keep_container(&mut self, walk: &Walk, place: Place, cause: Cause, open: &mut Vec<(Place, bool)>) {
        if let Some(container) = walk.met[place as usize].container {
            self.linger(container, cause, open);
        }
    }
}

/// How the objects that may go are deleted: the root by its policy, others in the foreground if an
/// owner waits for them and they have dependents of their own, or if a finalizer asks for that.
fn modes(walk: &Walk, fates: &Fates) -> Vec<Mode> {
    let mut modes = vec![Mode::default(); walk.met.len()];
    let mut open = Vec::new();
    for (place, met) in (0..).zip(&walk.met) {
        let asked_for = match (place, met.deletion) {
            (0, _) => walk.query.policy == PropagationPolicy::Foreground,
            (_, DeletionState::DeletingDependents) => true,
            (_, DeletionState::Live) => {
                met.finalizers.foreground && !walk.orphans(place) && !walk.goes_with_namespace(place)
            }
            (_, DeletionState::Terminating | DeletionState::Orphaning) => false,
        };
        if asked_for && fates.may[place as usize] {
            modes[place as usize] = Mode { foreground: true, surely: true };
            open.push(place);
        }
    }
    while let Some(owner) = open.pop() {
        for &(place, blocking) in fates.dependents.of_owner(owner) {
            let met = &walk.met[place as usize];
            let goes = fates.may[place as usize] && met.deletion == DeletionState::Live && place != 0;
            if !goes || walk.orphans(place) || !met.has_dependents {
                continue;
            }
            let surely = modes[owner as usize].surely
                && blocking
                && met.references.len() == 1
                && met.container.is_none();
            let mode = &mut modes[place as usize];
            if !mode.foreground || (surely && !mode.surely) {
                *mode = Mode { foreground: true, surely: surely || mode.surely };
                open.push(place);
            }
        }
    }
    modes
}
