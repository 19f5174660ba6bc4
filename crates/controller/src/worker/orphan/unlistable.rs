//! Parts of the API that rounds cannot list, and how long they hold owners (rules 5.8 and 5.14).
//!
//! Whoever removes the orphan finalizer without a look at a part of the API may lose the dependents
//! in it: once it is back, nothing tells them from garbage. On the other hand, a part that is broken
//! for good must not hold every owner for ever.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use tokio::time::Instant;

use crate::actors::pool::Outcome;
use crate::actors::registry::{Followed, RoundType};
use kube_gc_client::{ApiError, GroupFailure};
use kube_gc_core::mailbox::{Completion, Wait};
use kube_gc_core::object::{GroupResource, Namespace};
use kube_gc_core::text::{bounded, listed};
use kube_gc_observe::telemetry::StuckReason;

/// How long a type holds an owner if the graph has the dependents of this type, except late ones, or
/// shows that there were none.
const SHORT_WAIT: Duration = Duration::from_secs(30);
/// Failures that are further apart than this do not count together.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);
/// The longest pause between two rounds for an owner that is held. The end of the failure ends it.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The shortest one. They grow with the time for which a part fails.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// A part of the API that a round could not list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unlisted {
    pub what: String,
    /// Why it could not be listed, in the server's words.
    why: String,
    resource: Option<GroupResource>,
    /// What the graph has of it. A watch may continue while lists fail, for example when a conversion
    /// webhook broke later.
    followed: Followed,
}

impl Unlisted {
    /// A group that was never discovered.
    pub fn undiscovered(failure: &GroupFailure) -> Self {
        let unseen = failure.unseen();
        Self { what: unseen.what, why: unseen.why, resource: None, followed: Followed::Not }
    }

    /// A type whose list failed.
    pub fn of_type(RoundType { resource, followed }: &RoundType, error: &ApiError) -> Self {
        let resource = resource.group_resource.clone();
        let what = resource.to_string();
        Self { what, why: bounded(error), resource: Some(resource), followed: *followed }
    }
}

/// Names the parts and their errors, for people.
pub fn names(parts: &[&Unlisted]) -> String {
    let each = parts.iter().map(|Unlisted { what, why, .. }| format!("{what} ({why})"));
    listed(", ", parts.len(), each)
}

/// Remembers since when each part fails. The owners of a namespace share this time, so owners that
/// are deleted one after another do not each wait the full time. A list may work in one namespace and not
/// in another, because only some objects have to be converted.
#[derive(Clone, Debug)]
pub struct Unlistable {
    wait: Duration,
    failing: Arc<DashMap<Part, Failing>>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Part {
    name: String,
    scope: Option<Namespace>,
    waits_long: bool,
}

#[derive(Debug)]
struct Failing {
    since: Instant,
    last: Instant,
}

impl Unlistable {
    /// With the time for which a part of which nothing is known holds owners.
    pub fn new(wait: Duration) -> Self {
        Self { wait, failing: Arc::default() }
    }

    /// A round listed this type.
    pub fn listed(&self, resource: &GroupResource, scope: Option<&Namespace>) {
        if !self.failing.is_empty() {
            let name = resource.to_string();
            self.failing.retain(|part, _| part.name != name || part.scope.as_ref() != scope);
        }
    }

    /// What becomes of an owner after a round that could not list these parts; `None` if none of them
    /// holds it any more. `named_by` are the types of its dependents that the graph has shown.
    pub fn hold(
        &self,
        scope: Option<&Namespace>,
        parts: &[Unlisted],
        named_by: &BTreeSet<GroupResource>,
    ) -> Option<Outcome> {
        if parts.is_empty() {
            return None;
        }
        let now = Instant::now();
        self.failing.retain(|_, failing| now - failing.last <= FORGOTTEN_AFTER);
        let (mut holding, mut longest) = (Vec::new(), Duration::ZERO);
        let (mut left, mut failed_for) = (Duration::ZERO, SHORTEST_PAUSE);
        for part in parts {
            let is_named = part.resource.as_ref().is_some_and(|resource| named_by.contains(resource));
            let (waits_long, wait) = match part.followed {
                Followed::Not => (true, self.wait),
                Followed::NoLonger if is_named => (true, self.wait),
                // No object of the type has named it, so the two probably have nothing to do with
                // each other.
                Followed::NoLonger => (false, self.wait.min(SHORT_WAIT)),
                Followed::Synced => (false, SHORT_WAIT),
            };
            let key = Part { name: part.what.clone(), scope: scope.cloned(), waits_long };
            let mut failing = self.failing.entry(key).or_insert(Failing { since: now, last: now });
            failing.last = now;
            let fails_for = now - failing.since;
            let is_left = wait.saturating_sub(fails_for);
            if !is_left.is_zero() {
                holding.push(part);
                (left, longest) = (left.max(is_left), longest.max(wait));
                failed_for = failed_for.max(fails_for);
            }
        }
        (!holding.is_empty()).then(|| {
            let error = format!(
                "the finalizer stays for at most {}: dependents may exist in parts of the API that cannot be \
                 listed: {}",
                humantime::format_duration(longest),
                names(&holding)
            );
            let wait = Wait::Woken(left.min(failed_for.min(LONGEST_PAUSE)));
            Completion::later(StuckReason::Orphaning, wait, bounded(error))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(600);

    fn widgets() -> GroupResource {
        GroupResource::parse("widgets.example.com")
    }

    fn part(followed: Followed) -> [Unlisted; 1] {
        let (what, why) = (widgets().to_string(), "no answer".to_owned());
        [Unlisted { what, why, resource: Some(widgets()), followed }]
    }

    /// For how many seconds a part holds an owner that tries every second.
    async fn held(unlistable: &Unlistable, followed: Followed, named_by: &BTreeSet<GroupResource>) -> u64 {
        let part = part(followed);
        let mut seconds = 0;
        while unlistable.hold(None, &part, named_by).is_some() {
            tokio::time::advance(Duration::from_secs(1)).await;
            seconds += 1;
        }
        seconds
    }

    /// Rule 5.14. Fails if owners that are deleted one after the other wait one after the other.
    #[tokio::test(start_paused = true)]
    async fn a_part_of_which_nothing_is_known_holds_all_owners_once() {
        let (unlistable, none) = (Unlistable::new(WAIT), BTreeSet::new());
        assert_eq!(held(&unlistable, Followed::Not, &none).await, 600);
        for _ in 0..10 {
            tokio::time::advance(Duration::from_secs(60)).await;
            assert_eq!(held(&unlistable, Followed::Not, &none).await, 0);
        }
        unlistable.listed(&widgets(), None);
        assert_eq!(held(&unlistable, Followed::Not, &none).await, 600, "it had been listed in between");
        assert_eq!(held(&Unlistable::new(WAIT), Followed::Not, &none).await, 600, "after a restart");
        assert_eq!(held(&Unlistable::new(Duration::ZERO), Followed::Not, &none).await, 0);
    }

    /// Rule 5.8.
    #[tokio::test(start_paused = true)]
    async fn a_type_is_passed_over_after_failing_for_long() {
        let (unlistable, none) = (Unlistable::new(WAIT), BTreeSet::new());
        assert_eq!(held(&unlistable, Followed::Synced, &none).await, 30);
        assert_eq!(held(&unlistable, Followed::Synced, &none).await, 0);
        assert!(unlistable.hold(None, &[], &none).is_none());
    }

    /// Rule 5.16. The short wait of an owner does not use up the long wait of another one.
    #[tokio::test(start_paused = true)]
    async fn a_type_that_was_listed_before_holds_owners_that_its_objects_name_for_longer() {
        let unlistable = Unlistable::new(WAIT);
        let (none, named) = (BTreeSet::new(), BTreeSet::from([widgets()]));
        for _ in 0..3 {
            held(&unlistable, Followed::NoLonger, &none).await;
            tokio::time::advance(FORGOTTEN_AFTER).await;
        }
        assert_eq!(held(&unlistable, Followed::NoLonger, &none).await, 0);
        assert_eq!(held(&unlistable, Followed::NoLonger, &named).await, 600);
        let hasty = Unlistable::new(Duration::from_secs(2));
        assert_eq!(held(&hasty, Followed::NoLonger, &none).await, 2);
    }

    /// Rule 5.8.
    #[tokio::test(start_paused = true)]
    async fn two_failures_far_apart_are_counted_separately() {
        let (unlistable, none) = (Unlistable::new(WAIT), BTreeSet::new());
        assert!(unlistable.hold(None, &part(Followed::Synced), &none).is_some());
        tokio::time::advance(FORGOTTEN_AFTER + SHORT_WAIT).await;
        assert!(unlistable.hold(None, &part(Followed::Synced), &none).is_some());
    }

    /// Fails if owners elsewhere, whose lists work, hold an owner for ever.
    #[tokio::test(start_paused = true)]
    async fn a_list_in_another_namespace_does_not_begin_the_time_anew() {
        let (unlistable, none) = (Unlistable::new(WAIT), BTreeSet::new());
        let (here, elsewhere) = (Namespace::parse("here"), Namespace::parse("elsewhere"));
        let hold = || unlistable.hold(here.as_ref(), &part(Followed::Not), &none);
        assert!(hold().is_some());
        tokio::time::advance(WAIT).await;
        unlistable.listed(&widgets(), elsewhere.as_ref());
        assert!(hold().is_none());
        unlistable.listed(&widgets(), here.as_ref());
        assert!(hold().is_some());
    }

    /// Rule 5.14.
    #[tokio::test(start_paused = true)]
    async fn an_owner_that_is_held_names_what_holds_it_and_is_tried_again() {
        let outcome = Unlistable::new(WAIT).hold(None, &part(Followed::Not), &BTreeSet::new());
        let Some(Completion::Later { wait, reason, error }) = outcome else { panic!("{outcome:?}") };
        assert_eq!((wait, reason), (Wait::Woken(SHORTEST_PAUSE), StuckReason::Orphaning));
        assert!(
            error.contains("at most 10m") && error.ends_with("widgets.example.com (no answer)"),
            "{error}"
        );
    }
}
