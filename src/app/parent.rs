//! The end of the parent process, for collectors that a test has started.

use std::time::Duration;

use rustix::process::{Pid, getppid};
use tokio::time::{MissedTickBehavior, interval};

/// How often to look for the parent. No system call that waits for its end is portable, and the
/// signal that Linux offers already comes when the thread ends that started this process.
const LOOKS_EVERY: Duration = Duration::from_millis(250);

/// The process that started this one.
#[derive(Debug)]
pub struct Parent(Option<Pid>);

impl Parent {
    /// The present parent. Call this early: the end of an earlier one is not noticed.
    pub fn present() -> Self {
        Self(getppid())
    }

    /// Resolves when the parent has ended: the system then gives its children to another process.
    pub async fn ends(self) {
        let mut looks = interval(LOOKS_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while getppid() == self.0 {
            looks.tick().await;
        }
    }
}
