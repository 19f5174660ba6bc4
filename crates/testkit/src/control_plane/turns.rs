//! Whose turn it is on a control plane that many tests share.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use anyhow::{Result, anyhow};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::super::deployment;
use super::{ControlPlane, Release, is_embedded};

/// How many planes there are to take turns on. On the embedded server a scenario mostly
/// waits for the collector, and another one can work meanwhile: on another plane, since
/// each collector looks after a whole cluster. A real server keeps the machine busy.
fn planes() -> usize {
    if is_embedded() { SHARED.len() } else { 1 }
}

static SHARED: [OnceLock<Result<ControlPlane, String>>; 2] = [const { OnceLock::new() }; 2];
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());
static TURNS: Semaphore = Semaphore::const_new(0);

/// A plane for one scenario alone, until this is dropped. A test that panics passes it on
/// like any other.
#[derive(Debug)]
pub struct Turn {
    plane: &'static ControlPlane,
    held: Held,
}

#[derive(Debug)]
enum Held {
    /// One of those that serve any scenario.
    Shared { index: usize, _permit: SemaphorePermit<'static> },
    /// The only one of its kind: for scenarios that need an old release, and where it is
    /// shared with the tests of the manifests.
    Single { _turn: tokio::sync::MutexGuard<'static, ()> },
}

impl Turn {
    /// Waits for a plane; the first who asks start them.
    pub async fn take() -> Result<Self> {
        Self::with_permits(1).await
    }

    /// The same while nobody else has one: for scenarios in which somebody has to be as
    /// quick as they say.
    pub async fn take_all() -> Result<Self> {
        Self::with_permits(planes()).await
    }

    async fn with_permits(count: usize) -> Result<Self> {
        static OPENED: OnceLock<()> = OnceLock::new();
        if deployment::runs_the_collector() {
            return Self::single(deployment::plane()?).await;
        }
        OPENED.get_or_init(|| {
            // The first one first: a single scenario starts a single plane.
            free().extend((0..planes()).rev());
            TURNS.add_permits(planes());
        });
        let permit = TURNS.acquire_many(u32::try_from(count)?).await?;
        let index = free().pop().ok_or_else(|| anyhow!("a turn without a plane"))?;
        // From here on it is given back, whatever happens.
        let held = Held::Shared { index, _permit: permit };
        match started(&SHARED[index], ControlPlane::start) {
            Ok(plane) => Ok(Self { plane, held }),
            Err(error) => {
                free().push(index);
                Err(error)
            }
        }
    }

    /// The same on a plane of a release that serves objects in two groups: the embedded
    /// server shows itself as an old one for it. A real one is what it is.
    pub async fn of_old() -> Result<Self> {
        static OLD: OnceLock<Result<ControlPlane, String>> = OnceLock::new();
        if !is_embedded() {
            return Self::take().await;
        }
        Self::single(started(&OLD, || ControlPlane::start_embedded(Some(Release::V1_20)))?).await
    }

    async fn single(plane: &'static ControlPlane) -> Result<Self> {
        Ok(Self { plane, held: Held::Single { _turn: plane.exclusive().await } })
    }

    /// The plane.
    pub fn plane(&self) -> &'static ControlPlane {
        self.plane
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // The permit follows, when the plane can be had.
        if let Held::Shared { index, .. } = &self.held {
            free().push(*index);
        }
    }
}

fn free() -> MutexGuard<'static, Vec<usize>> {
    // A panic of another test says nothing about what the lock guards.
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The plane that is kept here, started by the first that asks.
pub(super) fn started(
    plane: &'static OnceLock<Result<ControlPlane, String>>,
    start: impl FnOnce() -> Result<ControlPlane>,
) -> Result<&'static ControlPlane> {
    plane
        .get_or_init(|| start().map_err(|error| format!("{error:#}")))
        .as_ref()
        .map_err(|error| anyhow!("no control plane: {error}"))
}
