//! What all connections of a server share.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::fault::Armed;
use super::journal::Entry;
use super::listener::Listener;
use super::settings::Settings;
use super::world::World;

/// What all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) settings: Settings,
    state: Mutex<State>,
    pub(super) listener: Listener,
}

/// What calls read and change.
#[derive(Debug)]
pub(super) struct State {
    pub(super) world: World,
    pub(super) faults: Vec<Armed>,
    pub(super) journal: Vec<Entry>,
}

impl Shared {
    /// A server of this world, without faults. Nothing listens yet.
    pub(super) fn new(settings: Settings, world: World, socket: &Path) -> Self {
        let state = State { world, faults: Vec::new(), journal: Vec::new() };
        Self { settings, state: Mutex::new(state), listener: Listener::new(socket) }
    }

    /// The state. A test that panics while it looks at the world leaves it as it is.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
