//! The next action, from the Lease's record.

use std::time::Duration;

use super::{Record, ReplicaId};

/// A record, and when this replica first saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The record.
    pub record: Record,
    /// When this replica first saw the record, on its own clock. It may have been written long
    /// before, so the replica waits too long rather than not long enough.
    pub since: Duration,
    /// How long the record is valid from then on, unless it changes.
    pub lasts: Duration,
}

impl Observation {
    /// The observation after another read: the same as before, unless the record has changed.
    /// `otherwise` is the duration of a record that has none.
    pub fn after(before: Option<Self>, record: Record, now: Duration, otherwise: Duration) -> Self {
        match before {
            Some(before) if before.record == record => before,
            _ => Self { lasts: record.duration.unwrap_or(otherwise), record, since: now },
        }
    }

    /// When another replica may take the lease, unless the record changes before.
    pub const fn expires(&self) -> Duration {
        self.since.saturating_add(self.lasts)
    }
}

/// The next action of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseAction {
    /// There is no Lease: create it.
    Create,
    /// Nobody holds the lease, or its holder did not renew it in time: take it.
    Take,
    /// This replica holds the lease: renew it.
    Renew,
    /// Another replica holds the lease.
    Wait {
        /// When it expires, unless it is renewed.
        until: Duration,
    },
}

/// The next action of a replica. `None` means that there is no Lease.
///
/// The write that follows has the version that was read as a precondition. So if several
/// replicas decide the same, only one succeeds.
pub fn decide(observed: Option<&Observation>, now: Duration, me: &ReplicaId) -> LeaseAction {
    let Some(observed) = observed else { return LeaseAction::Create };
    match &observed.record.holder {
        Some(_) if observed.record.is_held_by(me) => LeaseAction::Renew,
        None => LeaseAction::Take,
        Some(_) if now >= observed.expires() => LeaseAction::Take,
        Some(_) => LeaseAction::Wait { until: observed.expires() },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Of another replica.
    fn record(seconds: Option<u64>, transitions: i32) -> Record {
        let (holder, duration) = (Some("other".into()), seconds.map(Duration::from_secs));
        Record { holder, duration, transitions, ..Record::default() }
    }

    const OTHERWISE: Duration = Duration::from_secs(15);

    proptest! {
        #[test]
        fn the_lease_of_another_is_not_taken_before_it_expires(
            since in 0..1_000_000_u64,
            seconds in proptest::option::of(1..100_u64),
            later in 0..200_000_u64,
        ) {
            let me = ReplicaId::new("me");
            let seen = Observation::after(None, record(seconds, 0), at(since), OTHERWISE);
            let lasts = seconds.map_or(OTHERWISE, Duration::from_secs);
            let expires = at(since) + lasts;
            let decision = decide(Some(&seen), at(since + later), &me);
            if Duration::from_millis(later) < lasts {
                prop_assert_eq!(decision, LeaseAction::Wait { until: expires });
                prop_assert_eq!(decide(Some(&seen), expires, &me), LeaseAction::Take, "waiting comes to an end");
            } else {
                prop_assert_eq!(decision, LeaseAction::Take);
            }
        }

        #[test]
        fn a_changed_record_restarts_the_lease_duration_and_an_unchanged_one_does_not(
            first in 0..1_000_u64, second in 0..100_000_u64, changes in any::<bool>(),
        ) {
            let before = record(Some(10), 0);
            let after = record(Some(10), i32::from(changes));
            let seen = Observation::after(None, before, at(first), OTHERWISE);
            let again = Observation::after(Some(seen.clone()), after, at(first + second), OTHERWISE);
            prop_assert_eq!(again.since, at(if changes { first + second } else { first }));
            prop_assert_eq!(changes, again != seen);
        }
    }
}
