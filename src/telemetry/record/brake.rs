//! Recording what the brake does.

use super::{Value, counter, float, gauge, names};

/// The limits that there are.
pub(in crate::telemetry) const LIMITS: [&str; 2] = ["deletions_per_minute", "percent"];

/// The brake has engaged, or was released.
pub fn brake_engaged(engaged: bool) {
    gauge(&names::BRAKE_ENGAGED, []).set(if engaged { 1.0 } else { 0.0 });
}

/// The brake has engaged because this limit was reached.
pub fn brake_engaged_by(limit: &'static str) {
    counter(&names::BRAKE_ENGAGEMENTS, [Value::Static(limit)]).increment(1);
}

/// How many objects the brake holds now.
pub fn brake_held(count: usize) {
    gauge(&names::BRAKE_HELD_OBJECTS, []).set(float(count));
}

/// The series of this part, as zeros.
pub(super) fn zeros() {
    for limit in LIMITS {
        counter(&names::BRAKE_ENGAGEMENTS, [Value::Static(limit)]).increment(0);
    }
    brake_engaged(false);
    brake_held(0);
}
