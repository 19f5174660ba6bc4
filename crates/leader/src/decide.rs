//! The next action, from the Lease, and what is written into it, as client-go's electors understand it.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;

use super::ReplicaId;

/// The holder; `None` if the lease was released.
pub fn holder(spec: &LeaseSpec) -> Option<&str> {
    spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// Whether this replica is the holder.
pub fn is_held_by(spec: &LeaseSpec, me: &ReplicaId) -> bool {
    holder(spec) == Some(me.as_str())
}

/// What a replica writes to take or renew the lease. Everything else stays, such as fields of newer
/// versions.
pub fn claimed(before: Option<&LeaseSpec>, me: &ReplicaId, duration: Duration, now: Timestamp) -> LeaseSpec {
    let held = before.filter(|before| is_held_by(before, me));
    let transitions = before.map(|before| before.lease_transitions.unwrap_or_default());
    let changes = i32::from(held.is_none());
    LeaseSpec {
        holder_identity: Some(me.as_str().to_owned()),
        lease_duration_seconds: Some(i32::try_from(duration.as_secs()).unwrap_or(i32::MAX)),
        acquire_time: held.and_then(|held| held.acquire_time.clone()).or(Some(MicroTime(now))),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(transitions.map_or(0, |transitions| transitions.saturating_add(changes))),
        ..before.cloned().unwrap_or_default()
    }
}

/// What the holder writes to release the lease, so that no replica must wait.
pub fn released(held: &LeaseSpec, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        // The API server refuses an empty name, and a duration of zero.
        holder_identity: None,
        lease_duration_seconds: Some(1),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        ..held.clone()
    }
}

/// What the Lease says, and when this replica first saw that. A change shows that the holder is alive.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// What it says. The times are on the holder's clock, and informative.
    pub spec: LeaseSpec,
    /// When this replica first saw it, on its own clock. It may have been written long
    /// before, so the replica waits too long rather than not long enough.
    pub since: Duration,
    /// How long the lease is valid from then on, unless it changes.
    pub lasts: Duration,
}

impl Observation {
    /// The observation after another read: the same as before, unless the Lease has changed.
    /// `otherwise` is the duration of a lease that has none.
    pub fn after(before: Option<Self>, spec: LeaseSpec, now: Duration, otherwise: Duration) -> Self {
        if let Some(before) = before.filter(|before| before.spec == spec) {
            return before;
        }
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let lasts = seconds.filter(|seconds| *seconds > 0).map_or(otherwise, Duration::from_secs);
        Self { spec, since: now, lasts }
    }

    /// When another replica may take the lease, unless it changes before.
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
    match holder(&observed.spec) {
        Some(_) if is_held_by(&observed.spec, me) => LeaseAction::Renew,
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
    fn spec(seconds: Option<i32>, transitions: i32) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some("other".to_owned()),
            lease_duration_seconds: seconds,
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }
    }

    const SECOND: Duration = Duration::from_secs(1);
    const OTHERWISE: Duration = Duration::from_secs(15);

    proptest! {
        #[test]
        fn the_lease_of_another_is_not_taken_before_it_expires(
            since in 0..1_000_000_u64,
            seconds in proptest::option::of(-5..100_i32),
            later in 0..200_000_u64,
        ) {
            let me = ReplicaId::new("me");
            let seen = Observation::after(None, spec(seconds, 0), at(since), OTHERWISE);
            let valid = seconds.filter(|seconds| *seconds > 0);
            let lasts = valid.map_or(OTHERWISE, |seconds| SECOND * seconds.unsigned_abs());
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
        fn a_changed_lease_restarts_the_lease_duration_and_an_unchanged_one_does_not(
            first in 0..1_000_u64, second in 0..100_000_u64, changes in any::<bool>(),
        ) {
            let before = spec(Some(10), 0);
            let after = spec(Some(10), i32::from(changes));
            let seen = Observation::after(None, before, at(first), OTHERWISE);
            let again = Observation::after(Some(seen.clone()), after, at(first + second), OTHERWISE);
            prop_assert_eq!(again.since, at(if changes { first + second } else { first }));
            prop_assert_eq!(changes, again != seen);
        }
    }

    #[test]
    fn transitions_count_the_changes_of_the_holder_and_fields_of_others_are_kept() {
        let (me, other) = (ReplicaId::new("me"), ReplicaId::new("other"));
        let moment = |second| Timestamp::from_second(second).unwrap();
        let first = claimed(None, &me, OTHERWISE, moment(1));
        let strategy = Some("OldestEmulationVersion".to_owned());
        let first = LeaseSpec { strategy, ..first };
        let taken = claimed(Some(&first), &other, OTHERWISE, moment(9));
        let renewed = claimed(Some(&taken), &other, OTHERWISE, moment(10));
        let free = released(&renewed, moment(11));
        let again = claimed(Some(&free), &me, OTHERWISE, moment(12));
        let transitions =
            [&first, &taken, &renewed, &free, &again].map(|spec| spec.lease_transitions.unwrap());
        assert_eq!(transitions, [0, 1, 1, 1, 2]);
        assert_eq!(renewed.acquire_time, Some(MicroTime(moment(9))), "renewing is not acquiring");
        assert_eq!((holder(&free), free.lease_duration_seconds), (None, Some(1)));
        assert_eq!(holder(&LeaseSpec { holder_identity: Some(String::new()), ..again.clone() }), None);
        assert_eq!(again.strategy, first.strategy);
    }
}
