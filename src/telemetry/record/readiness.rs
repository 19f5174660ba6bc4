//! The metric of readiness.

use super::{gauge, names};

/// Records whether `/readyz` answers 200.
pub fn ready(ready: bool) {
    gauge(&names::READY, []).set(if ready { 1.0 } else { 0.0 });
}
