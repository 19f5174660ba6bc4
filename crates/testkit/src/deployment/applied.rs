//! Whether the shared installation is applied.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The configuration of the shared installation, unless another one was applied since.
static APPLIED: Mutex<Option<String>> = Mutex::new(None);

/// The configuration of the shared installation, if that is the one applied.
pub(super) fn configuration() -> Option<String> {
    lock().clone()
}

/// Records that the shared installation is applied.
pub(super) fn record(configuration: &str) {
    *lock() = Some(configuration.to_owned());
}

/// Records that another installation is being applied.
pub(super) fn forget() {
    *lock() = None;
}

fn lock() -> MutexGuard<'static, Option<String>> {
    // The guarded value is consistent even after a panic of another test.
    APPLIED.lock().unwrap_or_else(PoisonError::into_inner)
}
