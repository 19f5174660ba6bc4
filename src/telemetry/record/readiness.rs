//! Recording whether the collector is ready.

use super::{gauge, names};

/// Whether it calls itself ready.
pub fn ready(ready: bool) {
    gauge(&names::READY, []).set(if ready { 1.0 } else { 0.0 });
}
