//! Waiting for discovery to show a change of the served types.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::actors::messages::Expected;
use kube_gc_core::object::Catalog;

/// The event of a CRD precedes its being served: discovery is repeated after
/// these waits until it shows the change.
const WAITS: [Duration; 4] =
    [Duration::from_millis(100), Duration::from_millis(300), Duration::from_secs(1), Duration::from_secs(2)];

/// Changes that were announced and that discovery has not shown yet.
#[derive(Debug, Default)]
pub struct Expectations {
    open: BTreeSet<Expected>,
    looked: usize,
}

impl Expectations {
    /// Something was announced: the waits begin anew.
    pub fn add(&mut self, expected: Expected, known: Option<&Catalog>) {
        // A type that is served already will look different, nobody can say how.
        let expected = match expected {
            Expected::Served(resource) if known.is_some_and(|known| known.resource(&resource).is_some()) => {
                Expected::Changed { group: resource.group }
            }
            other => other,
        };
        // Somebody who keeps changing the same thing does not keep discovery busy.
        if self.open.insert(expected) {
            self.looked = 0;
        }
    }

    /// Discovery has shown this. How long to wait before the next look, if one is
    /// needed.
    pub fn shown(&mut self, before: Option<&Catalog>, after: &Catalog) -> Option<Duration> {
        self.open.retain(|expected| !expected.is_met(before, after));
        self.next_wait()
    }

    /// Discovery failed: nothing was shown.
    pub fn not_shown(&mut self) -> Option<Duration> {
        self.next_wait()
    }

    /// Whether a change is still to be shown.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    fn next_wait(&mut self) -> Option<Duration> {
        if self.open.is_empty() {
            return None;
        }
        let wait = WAITS.get(self.looked).copied();
        self.looked += 1;
        if wait.is_none() {
            // Long enough: what is still missing is left to the next regular look.
            self.open.clear();
        }
        wait
    }
}

impl Expected {
    fn is_met(&self, before: Option<&Catalog>, after: &Catalog) -> bool {
        match self {
            Self::Served(resource) => after.resource(resource).is_some(),
            Self::NotServed(resource) => after.resource(resource).is_none(),
            Self::Changed { group } => before.is_none_or(|before| before.differs_in_group(after, group)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use kube_gc_core::object::{GroupResource, ResourceType, Scope, ServedKind};

    fn catalog(versions: &[&str]) -> Catalog {
        let mut builder = Catalog::builder();
        for version in versions {
            let resource = Arc::new(ResourceType {
                group_resource: widgets(),
                version: "v1".into(),
                kind: "Widget".into(),
                scope: Scope::Namespaced,
            });
            builder.add(ServedKind { version: (*version).into(), resource });
        }
        builder.build()
    }

    fn widgets() -> GroupResource {
        GroupResource::parse("widgets.example.com")
    }

    #[test]
    fn discovery_is_repeated_until_it_shows_the_type() {
        let (without, with) = (catalog(&[]), catalog(&["v1"]));
        let mut expectations = Expectations::default();
        expectations.add(Expected::Served(widgets()), Some(&without));
        assert_eq!(expectations.shown(Some(&without), &without), Some(WAITS[0]));
        assert_eq!(expectations.not_shown(), Some(WAITS[1]));
        assert_eq!(expectations.shown(Some(&without), &with), None);
        assert!(expectations.is_empty());
    }

    #[test]
    fn it_gives_up_after_the_last_wait() {
        let without = catalog(&[]);
        let mut expectations = Expectations::default();
        expectations.add(Expected::Served(widgets()), Some(&without));
        for wait in WAITS {
            assert_eq!(expectations.shown(Some(&without), &without), Some(wait));
        }
        assert_eq!(expectations.shown(Some(&without), &without), None);
        assert!(expectations.is_empty());
    }

    #[test]
    fn a_change_of_a_served_type_is_met_by_any_difference_in_its_group() {
        let (one, two) = (catalog(&["v1"]), catalog(&["v1", "v2"]));
        let mut expectations = Expectations::default();
        expectations.add(Expected::Served(widgets()), Some(&one));
        assert_eq!(expectations.shown(Some(&one), &one), Some(WAITS[0]));
        assert_eq!(expectations.shown(Some(&one), &two), None);
    }

    #[test]
    fn a_type_that_went_is_expected_to_be_gone() {
        let (without, with) = (catalog(&[]), catalog(&["v1"]));
        let mut expectations = Expectations::default();
        expectations.add(Expected::NotServed(widgets()), Some(&with));
        assert!(expectations.shown(Some(&with), &with).is_some());
        assert!(expectations.shown(Some(&with), &without).is_none());
    }
}
