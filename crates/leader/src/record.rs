//! The record in a Lease, as client-go's electors understand it.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;

use super::ReplicaId;

/// Who holds the lease and since when. A change shows that the holder is alive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The holder; `None` if the lease was released.
    pub holder: Option<Arc<str>>,
    /// How long the record is valid after its last change.
    pub duration: Option<Duration>,
    /// When the holder took the lease, on the holder's clock. Informative.
    pub acquired: Option<Timestamp>,
    /// When the holder last renewed it, on the holder's clock. Informative.
    pub renewed: Option<Timestamp>,
    /// How often the holder has changed.
    pub transitions: i32,
}

impl Record {
    /// Reads a Lease. Ignores impossible values.
    pub fn of(lease: &Lease) -> Self {
        let Some(spec) = &lease.spec else { return Self::default() };
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        Self {
            holder: spec.holder_identity.as_deref().filter(|holder| !holder.is_empty()).map(Arc::from),
            duration: seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs),
            acquired: spec.acquire_time.as_ref().map(|time| time.0),
            renewed: spec.renew_time.as_ref().map(|time| time.0),
            transitions: spec.lease_transitions.unwrap_or_default(),
        }
    }

    /// Writes the record into a Lease. Everything else in it stays, such as labels and fields of
    /// newer versions.
    pub fn write_to(&self, lease: &mut Lease) {
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        // The API server refuses an empty name.
        spec.holder_identity = self.holder.as_deref().map(str::to_owned);
        spec.lease_duration_seconds =
            self.duration.map(|duration| i32::try_from(duration.as_secs()).unwrap_or(i32::MAX));
        spec.acquire_time = self.acquired.map(MicroTime);
        spec.renew_time = self.renewed.map(MicroTime);
        spec.lease_transitions = Some(self.transitions);
    }

    /// Whether this replica is the holder.
    pub fn is_held_by(&self, me: &ReplicaId) -> bool {
        self.holder.as_deref() == Some(me.as_str())
    }

    /// The record that a replica writes to take or renew the lease.
    pub fn claimed(before: Option<&Self>, me: &ReplicaId, duration: Duration, now: Timestamp) -> Self {
        let held = before.filter(|before| before.is_held_by(me));
        Self {
            holder: Some(me.shared()),
            duration: Some(duration),
            acquired: held.and_then(|held| held.acquired).or(Some(now)),
            renewed: Some(now),
            transitions: match (before, held) {
                (None, _) => 0,
                (Some(_), Some(held)) => held.transitions,
                (Some(before), None) => before.transitions.saturating_add(1),
            },
        }
    }

    /// The record that the holder writes to release the lease, so that no replica must wait.
    pub fn released(&self, now: Timestamp) -> Self {
        Self {
            holder: None,
            // The API server refuses zero.
            duration: Some(Duration::from_secs(1)),
            acquired: Some(now),
            renewed: Some(now),
            transitions: self.transitions,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn records() -> impl Strategy<Value = Record> {
        let holder = proptest::option::of("[a-z_0-9]{1,8}");
        let time = || proptest::option::of((0..1_000_000_i64).prop_map(at));
        (holder, proptest::option::of(1..100_u64), time(), time(), 0..9).prop_map(
            |(holder, duration, acquired, renewed, transitions)| Record {
                holder: holder.map(Arc::from),
                duration: duration.map(Duration::from_secs),
                acquired,
                renewed,
                transitions,
            },
        )
    }

    proptest! {
        #[test]
        fn a_written_lease_is_read_back(record in records()) {
            let mut lease = Lease::default();
            lease.metadata.labels = Some([("kept".to_owned(), "yes".to_owned())].into());
            record.write_to(&mut lease);
            prop_assert_eq!(Record::of(&lease), record);
            prop_assert!(lease.metadata.labels.is_some());
        }
    }

    #[test]
    fn fields_of_others_are_kept_and_invalid_values_ignored() {
        let spec = LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(-5),
            strategy: Some("OldestEmulationVersion".into()),
            ..LeaseSpec::default()
        };
        let mut lease = Lease { spec: Some(spec), ..Lease::default() };
        assert_eq!(Record::of(&lease), Record::default());
        Record::default().write_to(&mut lease);
        assert!(lease.spec.unwrap().strategy.is_some());
    }

    #[test]
    fn transitions_count_the_changes_of_the_holder() {
        let (me, other) = (ReplicaId::new("me"), ReplicaId::new("other"));
        let duration = Duration::from_secs(15);
        let first = Record::claimed(None, &me, duration, at(1));
        let taken = Record::claimed(Some(&first), &other, duration, at(9));
        assert_eq!((first.transitions, taken.transitions, taken.acquired), (0, 1, Some(at(9))));
        let free = taken.released(at(10));
        assert_eq!((free.holder.as_ref(), free.duration), (None, Some(Duration::from_secs(1))));
        assert_eq!(Record::claimed(Some(&free), &me, duration, at(11)).transitions, 2);
    }
}
