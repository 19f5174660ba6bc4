//! The events of watches: small records, from which an event is generated when it is read.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::time::sleep;

use crate::common::cluster::Number;

/// If the slowest reader is this far behind, writers wait.
const BEHIND: usize = 10_000;
/// How long they wait until they look again.
const PAUSE: Duration = Duration::from_millis(1);

/// An event of a type.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    pub version: u64,
    pub number: Number,
    /// The type of the watch event.
    pub happened: &'static str,
}

/// The events of one type.
#[derive(Debug)]
pub struct Log {
    sender: broadcast::Sender<Record>,
    /// The version of the last event. Locked while one is added, so that versions ascend.
    last: Mutex<u64>,
}

/// What a watch has not sent yet.
pub type Reader = broadcast::Receiver<Record>;

impl Default for Log {
    fn default() -> Self {
        Self { sender: broadcast::channel(2 * BEHIND).0, last: Mutex::new(0) }
    }
}

impl Log {
    /// Adds an event at the version that `next` returns. Waits while a reader is far behind.
    pub async fn add(&self, number: Number, happened: &'static str, next: impl Fn() -> u64) -> u64 {
        while self.sender.len() >= BEHIND {
            sleep(PAUSE).await;
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = next();
        // Without a watch, nobody is told.
        let _ = self.sender.send(Record { version: *last, number, happened });
        *last
    }

    /// A reader of the events after a version; `None` if there were some, which are not kept.
    pub fn read_after(&self, version: u64) -> Option<Reader> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        (version >= *last).then(|| self.sender.subscribe())
    }

    /// The present version, if a reader has everything up to it.
    pub fn passed(&self, reader: &Reader, present: impl Fn() -> u64) -> Option<u64> {
        let _last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        reader.is_empty().then(present)
    }
}
