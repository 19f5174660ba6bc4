//! The three patterns in which controllers fail, by Sieve (Sun et al., OSDI 2022), and how often a run had each.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::ops::AddAssign;

use kube_gc_apiserver::object::Key;
use kube_gc_apiserver::resources::ResourceName;
use kube_gc_apiserver::store::Change;

use super::oracle::restores;

/// How often each pattern occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patterns {
    /// Stale state: a write arrived when no watch had shown the collector a change that somebody else had
    /// made of a type that it follows.
    pub stale: u64,
    /// Intermediate state: between two writes of one object, the collector was killed or a request about the
    /// object failed.
    pub intermediate: u64,
    /// Unobserved state: a list came after a change and showed the object in a later state, or not at all.
    pub unobserved: u64,
}

impl Patterns {
    /// Whether a pattern has not occurred.
    pub const fn lack_one(&self) -> bool {
        self.stale == 0 || self.intermediate == 0 || self.unobserved == 0
    }
}

impl AddAssign for Patterns {
    fn add_assign(&mut self, other: Self) {
        self.stale += other.stale;
        self.intermediate += other.intermediate;
        self.unobserved += other.unobserved;
    }
}

impl fmt::Display for Patterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stale, intermediate, unobserved } = self;
        write!(f, "{stale} stale, {intermediate} intermediate and {unobserved} unobserved states")
    }
}

/// A change that the collector has not been shown.
#[derive(Debug)]
pub struct Unshown {
    version: u64,
    key: Key,
    removed: bool,
    /// The collector made it.
    own: bool,
}

/// Recognizes the patterns.
#[derive(Debug, Default)]
pub struct Sieve {
    pub had: Patterns,
    /// The types that the collector has followed.
    followed: BTreeSet<ResourceName>,
    unshown: BTreeMap<ResourceName, VecDeque<Unshown>>,
    /// The objects that the collector has written, by path, and whether something has failed since.
    written: BTreeMap<String, bool>,
}

impl Sieve {
    pub fn changed(&mut self, change: &Change, own: bool) {
        let &Change { version, removed, .. } = change;
        if !restores::is_part_of_one(change) {
            let unshown = self.unshown.entry(change.resource.clone()).or_default();
            unshown.push_back(Unshown { version, key: change.key.clone(), removed, own });
        }
    }

    /// A watch has shown all changes of a type up to a version. Returns those that were not shown before.
    pub fn shown(&mut self, resource: &ResourceName, version: u64) -> Vec<Unshown> {
        let Some(unshown) = self.unshown.get_mut(resource) else { return Vec::new() };
        let count = unshown.iter().take_while(|change| change.version <= version).count();
        unshown.drain(..count).collect()
    }

    /// A list has shown a type at a version.
    pub fn listed(&mut self, resource: &ResourceName, version: u64) {
        let mut later = BTreeSet::new();
        let skipped = self.shown(resource, version);
        // What happened before the first list is no change to the collector.
        if self.followed.insert(resource.clone()) {
            return;
        }
        for change in skipped.into_iter().rev() {
            let is_last = later.insert(change.key);
            self.had.unobserved += u64::from(change.removed || !is_last);
        }
    }

    /// A write of the collector arrives.
    pub fn arrives(&mut self) {
        let mut followed = self.followed.iter().filter_map(|of| self.unshown.get(of));
        let is_stale = followed.any(|unshown| unshown.iter().any(|change| !change.own));
        self.had.stale += u64::from(is_stale);
    }

    /// It has taken effect.
    pub fn written(&mut self, path: &str) {
        let has_failed = self.written.insert(path.to_owned(), false);
        self.had.intermediate += u64::from(has_failed == Some(true));
    }

    /// A request about an object failed.
    pub fn failed(&mut self, path: &str) {
        if let Some(has_failed) = self.written.get_mut(path) {
            *has_failed = true;
        }
    }

    /// The collector was killed.
    pub fn killed(&mut self) {
        self.written.values_mut().for_each(|has_failed| *has_failed = true);
    }

    /// The store was restored: what was not shown has never happened.
    pub fn restored(&mut self) {
        self.unshown.clear();
    }
}
