//! Metrics of the brake.

use super::{Value, counter, float, gauge, names};

/// The limits of the brake.
pub(in crate::telemetry) const LIMITS: [&str; 3] =
    ["deletions_per_minute", "namespace_deletions_per_minute", "percent"];

/// Records whether the brake is engaged for everything, and for how many namespaces.
pub fn brake_engaged(engaged: bool, namespaces: usize) {
    gauge(&names::BRAKE_ENGAGED, []).set(if engaged { 1.0 } else { 0.0 });
    gauge(&names::BRAKED_NAMESPACES, []).set(float(namespaces));
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
    brake_engaged(false, 0);
    brake_held(0);
}
