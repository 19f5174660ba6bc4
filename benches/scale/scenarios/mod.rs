//! The measurements.

mod churn;
pub mod events;
mod growth;
mod namespace;
mod sizes;

use std::convert::Infallible;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use tokio::time::{Instant, sleep, sleep_until};

use crate::subject::Subject;

pub use self::churn::{Churn, churn};
pub use self::events::{Saturation, Updates, saturation, updates};
pub use self::growth::{Growth, growth};
pub use self::namespace::{Deletion, namespace};
pub use self::sizes::{Size, size};

/// A point of a curve: seconds since the beginning, and a value.
pub type Point = (f64, f64);

/// The length of a step at an even rate.
const STEP: Duration = Duration::from_millis(1);

/// Runs `turn` at this rate until the time is over, and returns the number of turns.
async fn paced<F>(per_second: u64, lasting: Duration, mut turn: impl FnMut(u64) -> F) -> u64
where
    F: Future<Output = ()>,
{
    let began = Instant::now();
    let mut done = 0;
    let mut step = 0;
    loop {
        // By the clock, so that a late step is made up for, even the last one.
        let elapsed = began.elapsed().min(lasting);
        let due = (elapsed.as_secs_f64() * per_second as f64) as u64;
        while done < due {
            turn(done).await;
            done += 1;
        }
        if elapsed == lasting {
            return done;
        }
        step += 1;
        sleep_until(began + STEP * step).await;
    }
}

/// Memory over time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Course {
    /// Resident bytes.
    pub resident: Vec<Point>,
    /// Bytes of the graph by its own account.
    pub graph: Vec<Point>,
}

impl Course {
    /// Reads memory at this interval until it is dropped or fails.
    async fn follow(&mut self, subject: &Subject, every: Duration) -> Result<Infallible> {
        let began = Instant::now();
        loop {
            let at = began.elapsed().as_secs_f64();
            self.resident.push((at, subject.resident()?));
            self.graph.push((at, subject.graph_bytes().await?));
            sleep(every).await;
        }
    }
}
