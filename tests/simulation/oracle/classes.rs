//! The classes of owner references (rules 4.8 to 4.11).

use std::fmt;
use std::time::Duration;

use super::Oracle;
use super::history::{Life, is_waiting};
use super::reference::Reference;
use super::types::Era;

/// The class of a reference, by the present state of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The owner exists.
    Solid,
    /// The owner waits for its dependents.
    Waiting,
    /// The owner does not exist.
    Absent,
    /// The kind is not served.
    Unresolved,
    /// The dependent is cluster-scoped and the kind is namespaced.
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

/// A reference, and the namespace of its object.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    pub namespace: Option<&'a str>,
    pub reference: &'a Reference,
}

impl Oracle {
    /// The earliest moment on which a write that takes effect now may be based: the decision was
    /// made shortly before the write was sent.
    pub(super) fn since(&self) -> Duration {
        self.sent.saturating_sub(self.bounds.decision)
    }

    /// The present class.
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

    /// The object that a reference names, existing or deleted. Its identity is uid, type, name
    /// and namespace. A namespaced owner is in the namespace of the dependent (rule 1.2).
    fn owner(&self, named: Named<'_>, era: &Era) -> Option<&Life> {
        let life = self.history.life(&named.reference.uid)?;
        let namespace = named.namespace.filter(|_| era.namespaced);
        let is_meant = life.resource == era.resource
            && *life.key.name == *named.reference.name
            && life.key.namespace.as_deref() == namespace;
        is_meant.then_some(life)
    }

    /// The object that a reference names now, existing or deleted.
    pub(super) fn owner_now(&self, named: Named<'_>) -> Option<&Life> {
        self.owner(named, self.types.resolve(named.reference)?)
    }

    /// What a reference has meant since its uid could be known. The collector may have proved an
    /// absence while the kind was still served.
    fn meanings<'a>(&'a self, named: Named<'a>) -> impl Iterator<Item = &'a Era> {
        let known = self.history.known_since(&named.reference.uid);
        self.types.meant(named.reference, known).filter(move |era| !has_invalid_scope(named, era))
    }

    /// Whether the owner may be taken for absent: it is absent under a meaning that its kind had
    /// when this could be found out. Uids come back only with a restored store, whose history
    /// then comes back, too.
    pub(super) fn may_be_absent(&self, named: Named<'_>) -> bool {
        let is_absent = |era: &Era| self.owner(named, era).is_none_or(|owner| owner.present.is_none());
        self.meanings(named).any(is_absent)
    }

    /// Whether the owner may still be in admission: it never existed, and nothing has named it for
    /// long (rule 1.28).
    pub(super) fn may_be_unborn(&self, named: Named<'_>) -> bool {
        let uid = &named.reference.uid;
        !self.history.existed(uid) && self.is_within(self.bounds.birth, self.history.known_since(uid))
    }

    /// Whether the owner may be taken for waiting: it was waiting at some moment since then.
    pub(super) fn may_be_waiting(&self, named: Named<'_>, since: Duration) -> bool {
        self.meanings(named).filter_map(|era| self.owner(named, era)).any(|owner| owner.was_waiting(since))
    }

    /// Whether the owner existed and was not waiting at some moment since then.
    pub(super) fn was_solid(&self, named: Named<'_>, since: Duration) -> bool {
        self.meanings(named).filter_map(|era| self.owner(named, era)).any(|owner| owner.was_solid(since))
    }
}

fn has_invalid_scope(named: Named<'_>, era: &Era) -> bool {
    named.namespace.is_none() && era.namespaced
}
