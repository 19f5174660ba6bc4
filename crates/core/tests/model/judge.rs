//! The rules of a garbage collector, independent of the collector: what a write may do at the moment when
//! it takes effect, and what must not be left when nothing happens any more.

use std::collections::BTreeSet;
use std::rc::Rc;

use kube_gc_core::object::{DeletionState, PropagationPolicy};

use super::cast::{self, Life, Owner};
use super::server::{Object, Server, Violation};

/// The truth about an owner that a reference names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Truth {
    Solid,
    Waiting,
    Absent,
    /// In admission: it counts as solid.
    Unborn,
    /// The dependent is cluster-scoped and the owner is not (rule 1.4).
    InvalidScope,
}

impl Server {
    fn truth(&self, dependent: Life, owner: Owner) -> Truth {
        if cast::home(dependent) < cast::home(owner.life) {
            return Truth::InvalidScope;
        }
        match self.object(owner.life).filter(|_| owner.name == owner.life.slot) {
            Some(object) if object.waits() => Truth::Waiting,
            Some(_) => Truth::Solid,
            None if self.conceived.contains(&Some(owner.life)) => Truth::Unborn,
            None => Truth::Absent,
        }
    }

    /// Invariants 1 and 3. An owner is excused that waited when the decision was confirmed, less than a
    /// second before the request was sent.
    pub fn judge_delete(
        &self,
        object: &Object,
        policy: PropagationPolicy,
        excused: &[Owner],
    ) -> Result<(), Violation> {
        let wrong = |why: String| Err(format!("wrongful DELETE of {:?}: {why}", object.life));
        if object.refs.is_empty() {
            return wrong("it names no owner".into());
        }
        let mut may_wait = false;
        for reference in &object.refs {
            let (owner, truth) = (reference.owner, self.truth(object.life, reference.owner));
            may_wait |= truth == Truth::Waiting || excused.contains(&owner);
            if !matches!(truth, Truth::Absent | Truth::Waiting) && !excused.contains(&owner) {
                return wrong(format!("its owner {owner:?} is {truth:?}"));
            }
            if reference.early && owner.name == owner.life.slot && self.orphaned.contains(&owner.life) {
                return wrong(format!("its owner {owner:?} was deleted with the policy Orphan"));
            }
        }
        let right = match (object.finalizers.orphan, object.finalizers.foreground) {
            (true, _) => policy == PropagationPolicy::Orphan,
            (false, true) => policy == PropagationPolicy::Foreground,
            (false, false) => policy == PropagationPolicy::Background || may_wait,
        };
        if right && !object.deleting { Ok(()) } else { wrong(format!("with the policy {policy}")) }
    }

    /// Absent and waiting references go beside a solid one; those to an owner that orphans go in any case.
    pub fn judge_unref(
        &self,
        object: &Object,
        remove: &[Owner],
        excused: &[Owner],
        solid_seen: bool,
    ) -> Result<(), Violation> {
        let wrong = |why: String| Err(format!("wrongful PATCH of {:?}: {why}", object.life));
        let kept = || object.refs.iter().map(|it| it.owner).filter(|owner| !remove.contains(owner));
        for &owner in remove.iter().filter(|owner| object.refs.iter().any(|it| it.owner == **owner)) {
            match self.truth(object.life, owner) {
                _ if self.orphaning.contains(&owner.life) => {}
                Truth::Absent if kept().next().is_some() => {}
                Truth::Absent => return wrong(format!("the absent {owner:?} was its last owner")),
                truth @ (Truth::Solid | Truth::Unborn | Truth::InvalidScope) if !excused.contains(&owner) => {
                    return wrong(format!("its owner {owner:?} is {truth:?}"));
                }
                _ if solid_seen || kept().any(|owner| self.truth(object.life, owner) == Truth::Solid) => {}
                _ => return wrong(format!("{owner:?} waits, and no solid owner is left")),
            }
        }
        Ok(())
    }

    /// No orphan is lost, and nothing that the collector knew of blocks the object.
    pub fn judge_finalize(&self, object: &Object, orphan: bool, blocking: &[Life]) -> Result<(), Violation> {
        let wrong = |why: String| Err(format!("wrongful removal of a finalizer of {:?}: {why}", object.life));
        if !object.deleting {
            return wrong("it is not being deleted".into());
        }
        let may_own = |other: &&Rc<Object>| cast::home(other.life) >= cast::home(object.life);
        let others = self.objects.iter().flatten().filter(|other| other.life != object.life);
        for other in others.filter(may_own) {
            for reference in other.refs.iter().filter(|it| it.owner == object.life.into()) {
                if orphan && reference.early {
                    return wrong(format!("{:?} named it before it was deleted", other.life));
                }
                if !orphan && reference.blocking && blocking.contains(&other.life) {
                    return wrong(format!("{:?} blocks it", other.life));
                }
            }
        }
        if !orphan && object.finalizers.orphan {
            return wrong("its dependents are to be orphaned first".into());
        }
        Ok(())
    }

    /// Invariants 2 and 4, when nothing happens any more.
    ///
    /// # Errors
    /// Something is left that nobody looks at.
    pub fn judge_rest(&self) -> Result<(), Violation> {
        let held = self.held_up();
        for object in self.objects.iter().flatten() {
            let left = |what: &str| Err(format!("at rest: {:?} {what}", object.life));
            let has =
                |truth| object.refs.iter().any(|reference| self.truth(object.life, reference.owner) == truth);
            match object.state() {
                DeletionState::Live if has(Truth::Absent) || has(Truth::Waiting) => {
                    if has(Truth::Solid) || has(Truth::Unborn) {
                        return left("has a reference to an owner that is gone, beside a solid one");
                    }
                    if !has(Truth::InvalidScope) {
                        return left("is garbage that nobody looks at");
                    }
                }
                DeletionState::Live | DeletionState::Terminating => {}
                DeletionState::Orphaning => return left("keeps the finalizer orphan"),
                DeletionState::DeletingDependents if held.contains(&object.life) => {}
                DeletionState::DeletingDependents => {
                    return left("keeps the finalizer foregroundDeletion, and nothing blocks it");
                }
            }
        }
        Ok(())
    }

    /// What waits for an object that does not wait itself, or for one that waits for such a reason.
    fn held_up(&self) -> BTreeSet<Life> {
        let mut held = BTreeSet::new();
        let mut open: Vec<_> = self.objects.iter().flatten().filter(|object| !object.waits()).collect();
        while let Some(blocking) = open.pop() {
            for reference in blocking.refs.iter().filter(|reference| reference.blocking) {
                let Some(owner) = self.object(reference.owner.life).filter(|owner| owner.waits()) else {
                    continue;
                };
                let counts =
                    owner.life != blocking.life && cast::home(blocking.life) >= cast::home(owner.life);
                if counts && held.insert(owner.life) {
                    open.push(owner);
                }
            }
        }
        held
    }
}
