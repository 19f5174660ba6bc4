//! Recording who leads, and what the write gate refuses.

use std::time::Duration;

use super::{Value, counter, gauge, names};

/// Why a write may not be sent.
pub(in crate::telemetry) const GATE_REASONS: [&str; 4] = ["standby", "expired", "rebuilding", "dry_run"];

/// A write was not sent.
pub fn gate_refused(reason: &'static str) {
    counter(&names::GATE_REFUSALS, [Value::Static(reason)]).increment(1);
}

/// What becomes of a replica and the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LeaseTransition {
    /// It leads from now on.
    Acquired,
    /// It could not renew, or another one has it.
    Lost,
    /// It gave it back at its end.
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

/// A replica came to lead, or ceased to.
pub fn lease_transition(transition: LeaseTransition) {
    counter(&names::LEADER_TRANSITIONS, [Value::Static(transition.label())]).increment(1);
    gauge(&names::LEADER, []).set(if transition == LeaseTransition::Acquired { 1.0 } else { 0.0 });
}

/// This replica takes part in an election, and does not lead yet. Without this there is
/// no series of who leads, so nobody takes a collector that is alone for one that lacks
/// a leader.
pub fn election() {
    gauge(&names::LEADER, []).set(0.0);
}

/// A request for the lease failed.
pub fn lease_error() {
    counter(&names::LEASE_ERRORS, []).increment(1);
}

/// How long the lease is still good for writes.
pub fn lease_remaining(time: Duration) {
    gauge(&names::LEASE_REMAINING, []).set(time);
}

/// How long ago the lease was renewed, as far as this replica knows.
pub fn lease_age(time: Duration) {
    gauge(&names::LEASE_AGE, []).set(time);
}

/// The series of this part, as zeros.
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
