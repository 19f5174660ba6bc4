//! The state when a request is sent may differ from the state of its decision.

mod aggregated;
mod birth;
mod large;
mod last_look;
mod scene;

use std::time::Duration;

use super::{LEAST_BACKOFF, large_backoff};
use kube_gc_core::mailbox::Backoff;

#[test]
fn large_objects_are_not_retried_at_once() {
    let backoff = large_backoff(Backoff { min: Duration::from_millis(5), max: Duration::from_secs(1000) });
    assert_eq!((backoff.min, backoff.max), (LEAST_BACKOFF, Duration::from_secs(1000)));
    let short = large_backoff(Backoff { min: Duration::from_millis(5), max: Duration::from_millis(50) });
    assert_eq!(short.min, short.max);
}
