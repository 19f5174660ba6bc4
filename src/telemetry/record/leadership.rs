//! Metrics of leader election and the write gate.

use std::time::Duration;

use super::{Value, counter, gauge, names};

/// Why the write gate refuses a write.
pub(in crate::telemetry) const GATE_REASONS: [&str; 4] = ["standby", "expired", "rebuilding", "dry_run"];

/// Counts a write that the gate refused.
pub fn gate_refused(reason: &'static str) {
    counter(&names::GATE_REFUSALS, [Value::Static(reason)]).increment(1);
}

/// A change of leadership of this replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LeaseTransition {
    /// This replica acquired the Lease.
    Acquired,
    /// It could not renew the Lease, or another replica holds it.
    Lost,
    /// It released the Lease at shutdown.
    Released,
}

impl LeaseTransition {
    pub(in crate::telemetry) const ALL: [Self; 3] = [Self::Acquired, Self::Lost, Self::Released];

    pub(in crate::telemetry) const fn label(self) -> &'static str {
        match self {
            Self::Acquired => "acquired",
            Self::Lost => "lost",
            Self::Released => "released",
        }
    }
}

/// Records a change of leadership.
pub fn lease_transition(transition: LeaseTransition) {
    counter(&names::LEADER_TRANSITIONS, [Value::Static(transition.label())]).increment(1);
    gauge(&names::LEADER, []).set(if transition == LeaseTransition::Acquired { 1.0 } else { 0.0 });
}

/// Records that this replica takes part in leader election and is a standby. Without leader
/// election the series does not exist, so a single collector is not mistaken for one
/// without a leader.
pub fn election() {
    gauge(&names::LEADER, []).set(0.0);
}

/// Counts a failed request for the Lease.
pub fn lease_error() {
    counter(&names::LEASE_ERRORS, []).increment(1);
}

/// Records for how long the Lease still permits writes.
pub fn lease_remaining(time: Duration) {
    gauge(&names::LEASE_REMAINING, []).set(time);
}

/// Records the time since the last renewal of the Lease that this replica knows of.
pub fn lease_age(time: Duration) {
    gauge(&names::LEASE_AGE, []).set(time);
}

/// Creates the series of this module with the value zero.
pub(super) fn zeros() {
    for transition in LeaseTransition::ALL {
        counter(&names::LEADER_TRANSITIONS, [Value::Static(transition.label())]).increment(0);
    }
    for reason in GATE_REASONS {
        counter(&names::GATE_REFUSALS, [Value::Static(reason)]).increment(0);
    }
    counter(&names::LEASE_ERRORS, []).increment(0);
    lease_remaining(Duration::ZERO);
    lease_age(Duration::ZERO);
}
