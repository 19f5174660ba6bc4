//! A slot that several requests use, one after the other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Signal, Slot};

/// A slot that a request takes out while it uses it. Clones share the slot.
#[derive(Clone, Debug, Default)]
pub struct SharedSlot(Arc<Mutex<Option<Slot>>>);

impl SharedSlot {
    pub fn new(slot: Option<Slot>) -> Self {
        Self(Arc::new(Mutex::new(slot)))
    }

    fn state(&self) -> MutexGuard<'_, Option<Slot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the slot out, unless another request uses it or it does not fit.
    pub fn take(&self, fits: impl FnOnce(&Slot) -> bool) -> Option<Slot> {
        let mut state = self.state();
        if state.as_ref().is_some_and(fits) { state.take() } else { None }
    }

    /// Records how the request that used the slot ended, and puts the slot back.
    pub fn put_back(&self, mut slot: Slot, signal: Signal) {
        slot.record(signal);
        *self.state() = Some(slot);
    }
}
