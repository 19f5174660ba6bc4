//! What an owner reference is worth (rules 4.8 to 4.11).

use std::fmt;
use std::time::Duration;

use super::Oracle;
use super::history::{Life, is_waiting};
use super::reference::Reference;
use super::types::Era;

/// The class of a reference, as the store has it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The owner is there.
    Solid,
    /// It waits for its dependents.
    Waiting,
    /// It is not there.
    Absent,
    /// Its kind is not served.
    Unresolved,
    /// A cluster-scoped object names a namespaced kind.
    InvalidScope,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Solid => "solid",
            Self::Waiting => "waiting",
            Self::Absent => "absent",
            Self::Unresolved => "unresolved",
            Self::InvalidScope => "of invalid scope",
        })
    }
}

/// A reference, and the namespace of the object that has it.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    pub namespace: Option<&'a str>,
    pub reference: &'a Reference,
}

impl Oracle {
    /// The earliest moment that what takes effect now may rest on: it was decided
    /// shortly before it was sent.
    pub(super) fn since(&self) -> Duration {
        self.sent.saturating_sub(self.bounds.decision)
    }

    /// The class now.
    pub(super) fn class(&self, named: Named<'_>) -> Class {
        let Some(era) = self.types.resolve(named.reference) else { return Class::Unresolved };
        if has_invalid_scope(named, era) {
            return Class::InvalidScope;
        }
        let owner = self.owner(named, era).and_then(|owner| owner.present.as_ref());
        match owner {
            None => Class::Absent,
            Some(owner) if is_waiting(&owner.object) => Class::Waiting,
            Some(_) => Class::Solid,
        }
    }

    /// The object that a reference means, alive or gone: uid, type, name and namespace
    /// are the identity. A namespaced owner is in the dependent's own namespace
    /// (rule 1.2).
    fn owner(&self, named: Named<'_>, era: &Era) -> Option<&Life> {
        let life = self.history.life(&named.reference.uid)?;
        let namespace = named.namespace.filter(|_| era.namespaced);
        let is_meant = life.resource == era.resource
            && *life.key.name == *named.reference.name
            && life.key.namespace.as_deref() == namespace;
        is_meant.then_some(life)
    }

    /// The object that a reference means now, alive or gone.
    pub(super) fn owner_now(&self, named: Named<'_>) -> Option<&Life> {
        self.owner(named, self.types.resolve(named.reference)?)
    }

    /// What a reference has meant since somebody could know of its uid. The
    /// collector may have proved an absence while the kind was still served.
    fn meanings<'a>(&'a self, named: Named<'a>) -> impl Iterator<Item = &'a Era> {
        let known = self.history.known_since(&named.reference.uid);
        self.types.meant(named.reference, known).filter(move |era| !has_invalid_scope(named, era))
    }

    /// Whether it is right to take the owner for absent: it is, under a meaning of
    /// the kind that was served when this could be found out. Uids come back only with a
    /// restored store, and so does their history then.
    pub(super) fn may_be_absent(&self, named: Named<'_>) -> bool {
        let is_absent = |era: &Era| self.owner(named, era).is_none_or(|owner| owner.present.is_none());
        self.meanings(named).any(is_absent)
    }

    /// Whether it is right to take the owner for waiting: it was, at some moment since
    /// then.
    pub(super) fn may_be_waiting(&self, named: Named<'_>, since: Duration) -> bool {
        self.meanings(named).filter_map(|era| self.owner(named, era)).any(|owner| owner.was_waiting(since))
    }

    /// Whether the owner was there and not waiting, at some moment since then.
    pub(super) fn was_solid(&self, named: Named<'_>, since: Duration) -> bool {
        self.meanings(named).filter_map(|era| self.owner(named, era)).any(|owner| owner.was_solid(since))
    }
}

fn has_invalid_scope(named: Named<'_>, era: &Era) -> bool {
    named.namespace.is_none() && era.namespaced
}
