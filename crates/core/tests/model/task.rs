//! What workers do next, and what they know at that moment.

use std::rc::Rc;

use kube_gc_core::graph::Generation;
use kube_gc_core::mailbox::{Completion, Wait};
use kube_gc_core::object::PropagationPolicy;
use kube_gc_core::verdict::{Basis, ReferenceClass};

use super::cast::{self, Life, Owner};
use super::collector::{Confirmed, DELAY, Pool, Reason};
use super::orphan::{Orphaning, Stage};
use super::server::{Answer, Request};
use super::sketch::{Item, Seen, Skip, Version};

/// One key under work.
#[derive(Clone, Debug, Hash)]
pub struct Worker {
    pub pool: Pool,
    pub life: Life,
    /// The latest acknowledged disturbance when the work began.
    pub under: u64,
    pub task: Task,
}

/// What a worker does next.
#[derive(Clone, Debug, Hash)]
pub enum Task {
    /// Takes the key.
    Begin,
    /// Looks an owner up that only references name.
    Verify {
        owner: Owner,
        generation: Skip<Generation>,
    },
    /// Reports that it is absent.
    Report {
        owner: Owner,
        generation: Skip<Generation>,
    },
    /// Looks up the owner of the next reference without a class.
    LookUp {
        item: Rc<Item>,
        classified: Vec<Known>,
    },
    /// Looks for the last time whether owners wait.
    Look(Verdict),
    /// Reads the object after a 409.
    Reread(Verdict),
    /// Looks whether still nothing blocks the object.
    Finish(Rc<Item>),
    /// Reads the object whose finalizer goes.
    Unfinalize(Finalizer),
    Orphan(Orphaning),
    Sent {
        request: Request,
        then: Then,
    },
    Answered {
        answer: Answer,
        then: Then,
    },
}

/// What follows the answer to a write.
#[derive(Clone, Debug, Hash)]
pub enum Then {
    Decided(Verdict),
    /// The DELETE for which the object had to stop blocking, if there is one.
    StoppedBlocking(Option<Verdict>),
    Finalized(Finalizer),
    Released(Orphaning),
}

pub type Classified = (ReferenceClass, Option<Confirmed>);

/// Or what the graph said of an owner that has to be looked up.
pub type Known = Result<Classified, Seen>;

/// A DELETE, or a PATCH that removes references.
#[derive(Clone, Debug, Hash)]
pub struct Verdict {
    pub item: Rc<Item>,
    /// Follows from the item and the goal.
    pub basis: Skip<Basis>,
    pub waiting: Vec<(Owner, Confirmed)>,
    pub version: Option<Version>,
    pub conflicts: u32,
    pub goal: Goal,
}

#[derive(Clone, Debug, Hash)]
pub enum Goal {
    Delete {
        policy: PropagationPolicy,
        stop_blocking_first: bool,
    },
    /// `solid`: the owner that has to be confirmed. `for_good`: no owner merely waits.
    Remove {
        remove: Vec<Owner>,
        solid: Option<Owner>,
        for_good: bool,
    },
}

#[derive(Clone, Debug, Hash)]
pub struct Finalizer {
    pub life: Life,
    pub known: Version,
    pub orphan: bool,
    /// See [`Write::Finalize`].
    pub blocking: Vec<Life>,
    /// For `orphan`: it was remembered as orphaned before.
    pub in_doubt: bool,
}

/// What a step leads to.
pub enum Next {
    Go(Task),
    Done(Completion<Reason>),
}

pub const DONE: Next = Next::Done(Completion::Done);

/// `Interrupted::Changed` and `pool::after_conflicts`: nothing ends the pause early.
pub fn conflict() -> Completion<Reason> {
    Completion::later(Reason::Conflict, Wait::RetryAfter(DELAY), "changed")
}

pub fn changed() -> Next {
    Next::Done(conflict())
}

pub fn retry(reason: Reason) -> Next {
    Next::Done(Completion::retry(reason, "failed"))
}

impl Worker {
    /// The generation that its report would carry.
    pub fn generation(&self) -> Option<(Life, Generation)> {
        match &self.task {
            Task::Verify { owner, generation } | Task::Report { owner, generation } => {
                Some((owner.life, generation.0))
            }
            Task::Look(it)
            | Task::Reread(it)
            | Task::Sent { then: Then::Decided(it) | Then::StoppedBlocking(Some(it)), .. }
            | Task::Answered { then: Then::Decided(it) | Then::StoppedBlocking(Some(it)), .. } => {
                Some((it.item.life(), it.item.generation))
            }
            Task::LookUp { item, .. } => Some((item.life(), item.generation)),
            _ => None,
        }
    }
}

impl Task {
    /// Whether it waits until partitions have told each other everything.
    pub fn waits_for_links(&self) -> bool {
        match self {
            Self::Finish(item) => cast::home(item.life()) == 0,
            Self::Orphan(orphaning) => orphaning.stage == Stage::Links,
            _ => false,
        }
    }
}
