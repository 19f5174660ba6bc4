//! What happens, in the words of the API.

use std::fmt;

use super::cast::{KINDS, Life, NAMES};
use super::server::{Event, Request, Write};
use super::state::Choice;

impl Choice {
    pub fn words(self) -> String {
        let name = |slot: u8| NAMES[usize::from(slot)];
        let kind = |kind: u8| KINDS[usize::from(kind)];
        let of = |what: &str, life: Life| format!("{what} {life:?}");
        match self {
            Self::Delete(slot, policy) => {
                format!("a user deletes {}, propagationPolicy {policy}", name(slot))
            }
            Self::Create(slot, _) => format!("a user creates {}", name(slot)),
            Self::Touch(slot) => format!("a user changes the status of {}", name(slot)),
            Self::Drop(slot, index) => format!("a user removes owner reference {index} of {}", name(slot)),
            Self::Refer(slot, to) => format!("a user makes {} the owner of {}", name(to), name(slot)),
            Self::Block(slot, index) => {
                format!("a user changes blockOwnerDeletion of owner reference {index} of {}", name(slot))
            }
            Self::Unhold(slot) => format!("another controller removes its finalizer from {}", name(slot)),
            Self::Protect(slot) => format!("a user adds the finalizer orphan to {}", name(slot)),
            Self::Conceive(slot) => format!("a user creates {}, and admission begins", name(slot)),
            Self::Bear(slot) => format!("admission of {} ends: it is stored", name(slot)),
            Self::Miscarry(slot) => format!("admission of {} ends: it is denied", name(slot)),
            Self::List(_, of, _) => format!("the objects of a list of {}s arrive", kind(of)),
            Self::ListEnd(_, of) => format!("the list of {}s ends", kind(of)),
            Self::Check(_, of) => format!("the collector checks the version of the store, for {}s", kind(of)),
            Self::Acknowledge(_) => "the actors forget what was proved before watches broke".into(),
            Self::Rebuild(_) => "the collector rebuilds the graph".into(),
            Self::Link(_) => "a link arrives in partition 0".into(),
            Self::Take(_, pool, life) => of(&format!("a worker of the {pool:?} pool takes"), life),
            Self::Due(_, pool) => format!("a delay in the {pool:?} pool ends"),
            Self::Tick => "a second passes".into(),
            Self::Expire(_, of) => format!("the watch of {}s expires: 410", kind(of)),
            Self::Repeat(_, of) => format!("the watch of {}s repeats an event", kind(of)),
            Self::Break(_, of) => format!("the watch of {}s breaks", kind(of)),
            Self::Lose(_, _, life) => of("no answer comes to the request of the worker of", life),
            Self::Crash => "the collector crashes and starts again".into(),
            Self::Handover => "another collector takes over".into(),
            Self::Restore(false) => "the store is restored from a backup of the beginning".into(),
            Self::Restore(true) => "the store is restored from a backup, with a raised version".into(),
            Self::Deliver(..) | Self::Work(..) | Self::Late(_) => String::new(),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, object) = (if self.gone { "DELETED" } else { "ADDED or MODIFIED" }, &self.object);
        write!(f, "{what} {:?}, {:?}, version {}", object.life, object.state(), object.version.0)
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let life = self.life;
        match &self.what {
            Write::Delete { policy, .. } => write!(f, "DELETE {life:?}, propagationPolicy {policy}")?,
            Write::Unref { remove, .. } => write!(f, "PATCH {life:?} without references to {remove:?}")?,
            Write::StopBlocking => write!(f, "PATCH {life:?} with blockOwnerDeletion false")?,
            Write::Finalize { orphan: true, .. } => write!(f, "PATCH {life:?} without orphan")?,
            Write::Finalize { .. } => write!(f, "PATCH {life:?} without foregroundDeletion")?,
        }
        match self.version {
            Some(version) => write!(f, ", preconditions uid and version {}", version.0),
            None => write!(f, ", precondition uid"),
        }
    }
}
