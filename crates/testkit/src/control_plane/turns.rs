//! Whose turn it is on the control planes that the scenarios of a lane share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use anyhow::{Result, anyhow};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::super::deployment;
use super::{ControlPlane, Release};
use crate::environment::{self, Environment, Running};

type Shared = OnceLock<Result<ControlPlane, String>>;

/// The planes of a lane. Each collector looks after a whole cluster, so that two scenarios at
/// the same time need two.
#[derive(Debug)]
struct Pool {
    free: Mutex<Vec<&'static Shared>>,
    turns: Arc<Semaphore>,
}

static ALL: Mutex<BTreeMap<(Environment, &str), &Pool>> = Mutex::new(BTreeMap::new());

impl Pool {
    fn new(planes: usize) -> Self {
        let free = (0..planes).map(|_| &*Box::leak(Box::default())).collect();
        Self { free: Mutex::new(free), turns: Arc::new(Semaphore::new(planes)) }
    }

    /// The one of a lane of scenarios.
    fn of(running: &Running) -> &'static Self {
        let key = (running.environment, running.lane);
        lock(&ALL).entry(key).or_insert_with(|| Box::leak(Box::new(Self::new(running.planes))))
    }
}

/// A plane for one scenario alone, until this is dropped. A scenario that panics passes it on
/// like any other.
#[derive(Debug)]
pub struct Turn {
    plane: &'static ControlPlane,
    _held: Held,
}

#[derive(Debug)]
enum Held {
    /// One of those that serve any scenario of the lane.
    Shared { _back: Back, _permit: OwnedSemaphorePermit },
    /// The only one of its kind: for scenarios that need an old release, and where it is
    /// shared with the tests of the manifests.
    Single { _turn: tokio::sync::MutexGuard<'static, ()> },
}

/// Puts a plane back when the turn ends.
#[derive(Debug)]
struct Back {
    pool: &'static Pool,
    plane: &'static Shared,
}

impl Drop for Back {
    fn drop(&mut self) {
        lock(&self.pool.free).push(self.plane);
    }
}

impl Turn {
    /// Waits for a plane of the lane, and starts it if it has not been used.
    pub async fn take() -> Result<Self> {
        let running = environment::running().ok_or_else(|| anyhow!("only scenarios take turns"))?;
        if running.environment == Environment::Deployed {
            return Self::single(deployment::plane()?).await;
        }
        let pool = Pool::of(&running);
        let permit = Arc::clone(&pool.turns).acquire_owned().await?;
        let plane = lock(&pool.free).pop().ok_or_else(|| anyhow!("a turn without a plane"))?;
        let back = Back { pool, plane };
        let plane = started(plane, ControlPlane::start)?;
        // The permit follows, when the plane can be had.
        Ok(Self { plane, _held: Held::Shared { _back: back, _permit: permit } })
    }

    /// The same on a plane of a release that serves objects in two groups: the embedded
    /// server shows itself as an old one for it. A real one is what it is.
    pub async fn of_old() -> Result<Self> {
        static OLD: Shared = OnceLock::new();
        match environment::current() {
            Environment::Embedded(_) => {
                Self::single(started(&OLD, || ControlPlane::start_embedded(Release::V1_20))?).await
            }
            _ => Self::take().await,
        }
    }

    async fn single(plane: &'static ControlPlane) -> Result<Self> {
        Ok(Self { plane, _held: Held::Single { _turn: plane.exclusive().await } })
    }

    /// The plane.
    pub fn plane(&self) -> &'static ControlPlane {
        self.plane
    }
}

/// Stops the planes of a lane whose scenarios have all ended: servers cost processor time
/// when nobody asks them for anything.
pub(crate) fn end(environment: Environment, lane: &str) {
    if environment == Environment::Deployed {
        deployment::end();
    }
    let pool = lock(&ALL).get(&(environment, lane)).copied();
    let planes = pool.map(|pool| lock(&pool.free).clone()).unwrap_or_default();
    for plane in planes.into_iter().filter_map(OnceLock::get).flatten() {
        plane.end();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic of another scenario says nothing about what the lock guards.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The plane that is kept here, started by the first that asks.
pub(super) fn started(
    plane: &'static Shared,
    start: impl FnOnce() -> Result<ControlPlane>,
) -> Result<&'static ControlPlane> {
    plane
        .get_or_init(|| start().map_err(|error| format!("{error:#}")))
        .as_ref()
        .map_err(|error| anyhow!("no control plane: {error}"))
}
