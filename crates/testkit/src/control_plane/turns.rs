//! Assigns the control planes of a lane to its scenarios.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use anyhow::{Result, anyhow};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::super::deployment;
use super::{ControlPlane, Release};
use crate::environment::{self, Environment, Running};
use crate::{lock, shared};

type Shared = crate::Shared<ControlPlane>;

/// The control planes of a lane. A collector handles a whole cluster, so two concurrent scenarios
/// need two.
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

    /// The turns of a lane.
    fn of(running: &Running) -> &'static Self {
        let key = (running.environment, running.lane);
        lock(&ALL).entry(key).or_insert_with(|| Box::leak(Box::new(Self::new(running.planes))))
    }
}

/// Exclusive use of a control plane by one scenario, until this is dropped, even by a panic.
#[derive(Debug)]
pub struct Turn {
    plane: &'static ControlPlane,
    _held: Held,
}

#[derive(Debug)]
enum Held {
    /// A control plane for any scenario of the lane.
    Shared { _back: Back, _permit: OwnedSemaphorePermit },
    /// The only one of its kind: for scenarios that need an old release.
    Single { _turn: tokio::sync::MutexGuard<'static, ()> },
}

/// Returns a control plane when the turn ends.
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
    /// Waits for a control plane of the lane, and starts it when it is first used.
    pub async fn take() -> Result<Self> {
        let running = environment::running().ok_or_else(|| anyhow!("only scenarios take turns"))?;
        let pool = Pool::of(&running);
        let permit = Arc::clone(&pool.turns).acquire_owned().await?;
        let plane = lock(&pool.free).pop().ok_or_else(|| anyhow!("a turn without a control plane"))?;
        let back = Back { pool, plane };
        let plane = shared(plane, ControlPlane::start)?;
        // The permit is returned after the control plane.
        Ok(Self { plane, _held: Held::Shared { _back: back, _permit: permit } })
    }

    /// The same on a control plane of a release that serves objects in two groups: the embedded
    /// server emulates an old one. The release of a real server is fixed.
    pub async fn of_old() -> Result<Self> {
        static OLD: Shared = OnceLock::new();
        match environment::current() {
            Environment::Embedded(_) => {
                let plane = shared(&OLD, || ControlPlane::start_embedded(Release::V1_20))?;
                Ok(Self { plane, _held: Held::Single { _turn: plane.exclusive().await } })
            }
            _ => Self::take().await,
        }
    }

    /// The control plane.
    pub fn plane(&self) -> &'static ControlPlane {
        self.plane
    }
}

/// Stops the control planes of a lane when all its scenarios have ended. Idle servers use processor
/// time.
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
