//! What a look at the content of a namespace has shown.

use std::collections::BTreeMap;

use crate::object::GroupResource;

/// The objects of a type in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// How many there are.
    pub count: u64,
    /// How many of these are not being deleted yet.
    pub alive: u64,
    /// How many have each finalizer.
    pub finalizers: BTreeMap<String, u64>,
}

/// A look at one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeSurvey {
    pub resource: GroupResource,
    /// The objects, or why they could not be listed.
    pub found: Result<Found, String>,
}

impl TypeSurvey {
    /// Whether there is nothing of this type. What could not be listed may be there.
    pub fn is_empty(&self) -> bool {
        self.found.as_ref().is_ok_and(|found| found.count == 0)
    }

    pub(super) fn is_pods(&self) -> bool {
        self.resource.group.is_empty() && &*self.resource.resource == "pods"
    }
}

/// A look at a whole namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// The parts of the API that could not be discovered, with the reason.
    pub undiscovered: Vec<(String, String)>,
    /// The group versions in discovery that are not valid.
    pub unparsed: Vec<String>,
    /// Every namespaced type that can be deleted.
    pub types: Vec<TypeSurvey>,
    /// Why deletions have failed.
    pub failures: Vec<String>,
}

impl Survey {
    /// Whether everything was looked at, and there was nothing.
    pub fn is_empty(&self) -> bool {
        let Self { undiscovered, unparsed, types, failures } = self;
        undiscovered.is_empty()
            && unparsed.is_empty()
            && failures.is_empty()
            // An API server has namespaced types. If discovery shows none, it is wrong.
            && !types.is_empty()
            && types.iter().all(TypeSurvey::is_empty)
    }

    /// How many objects are known to be left.
    pub fn remaining(&self) -> u64 {
        self.sum(|found| found.count)
    }

    /// Whether fewer objects are left than in an earlier look, or fewer of them wait for their
    /// deletion: one that is held by a finalizer is left for now, but its deletion is done.
    pub fn has_less_than(&self, earlier: &Self) -> bool {
        let alive = |survey: &Self| survey.sum(|found| found.alive);
        self.remaining() < earlier.remaining() || alive(self) < alive(earlier)
    }

    fn sum(&self, of: impl Fn(&Found) -> u64) -> u64 {
        let found = self.types.iter().filter_map(|of_type| of_type.found.as_ref().ok());
        found.fold(0, |sum, found| sum.saturating_add(of(found)))
    }

    /// Replaces what an earlier look has shown of this type.
    pub fn update(&mut self, newer: TypeSurvey) {
        match self.types.iter_mut().find(|of_type| of_type.resource == newer.resource) {
            Some(of_type) => *of_type = newer,
            None => self.types.push(newer),
        }
    }
}
