//! Metrics of the brake.

use super::{Value, counter, float, gauge, names};

/// The limits of the brake.
pub(in crate::telemetry) const LIMITS: [&str; 2] = ["deletions_per_minute", "percent"];

/// Records whether the brake is engaged.
pub fn brake_engaged(engaged: bool) {
    gauge(&names::BRAKE_ENGAGED, []).set(if engaged { 1.0 } else { 0.0 });
}

/// Counts that the brake engaged because of this limit.
pub fn brake_engaged_by(limit: &'static str) {
    counter(&names::BRAKE_ENGAGEMENTS, [Value::Static(limit)]).increment(1);
}

/// Records how many objects the brake holds.
pub fn brake_held(count: usize) {
    gauge(&names::BRAKE_HELD_OBJECTS, []).set(float(count));
}

/// Creates the series of this module with the value zero.
pub(super) fn zeros() {
    for limit in LIMITS {
        counter(&names::BRAKE_ENGAGEMENTS, [Value::Static(limit)]).increment(0);
    }
    brake_engaged(false);
    brake_held(0);
}
