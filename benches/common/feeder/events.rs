//! The recent events of watches: small records, from which an event is generated when it is read.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::common::cluster::Number;

/// If the slowest reader is this far behind, writers wait.
const BEHIND: u64 = 10_000;
/// How many records are kept for resumed watches.
const KEPT: usize = 100_000;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    Added,
    Modified,
}

impl Happened {
    /// The type of the watch event.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
        }
    }
}

/// An event of a type.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    pub version: u64,
    pub number: Number,
    pub happened: Happened,
}

/// The events of one type.
#[derive(Debug, Default)]
pub struct Log {
    state: Mutex<State>,
    news: Notify,
    room: Notify,
}

#[derive(Debug, Default)]
struct State {
    records: VecDeque<Record>,
    /// The number of dropped records, and the version of the last of them.
    dropped: (u64, u64),
    /// How many records each reader has read, counted from the beginning.
    readers: BTreeMap<u64, u64>,
    next_reader: u64,
}

impl State {
    fn end(&self) -> u64 {
        self.dropped.0 + self.records.len() as u64
    }
}

/// A position in the events. Writers wait for it as long as it exists.
#[derive(Debug)]
pub struct Reader {
    log: std::sync::Arc<Log>,
    id: u64,
}

impl Log {
    fn state(&self) -> MutexGuard<'_, State> {
        // Each change replaces a whole record.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event, whose version is taken from `version` so that versions ascend. Waits while
    /// a reader is far behind.
    pub async fn add(&self, number: Number, happened: Happened, version: impl Fn() -> u64) -> u64 {
        loop {
            let room = self.room.notified();
            {
                let mut state = self.state();
                let end = state.end();
                if state.readers.values().all(|read| end - read < BEHIND) {
                    let version = version();
                    state.records.push_back(Record { version, number, happened });
                    if state.records.len() > KEPT
                        && let Some(oldest) = state.records.pop_front()
                    {
                        state.dropped = (state.dropped.0 + 1, oldest.version);
                    }
                    drop(state);
                    self.news.notify_waiters();
                    return version;
                }
            }
            room.await;
        }
    }

    /// A reader of the events after a version; `None` if they are no longer kept.
    pub fn read_after(self: std::sync::Arc<Self>, version: u64) -> Option<Reader> {
        let mut state = self.state();
        let (dropped, last) = state.dropped;
        if version < last {
            return None;
        }
        let read = dropped + state.records.partition_point(|record| record.version <= version) as u64;
        let id = state.next_reader;
        state.next_reader += 1;
        state.readers.insert(id, read);
        drop(state);
        Some(Reader { log: self, id })
    }
}

impl Reader {
    /// At most this many of the next events. If there are none, the store's version, which no
    /// earlier event will follow.
    pub fn take(&self, most: usize, present: impl Fn() -> u64) -> Result<Vec<Record>, u64> {
        let mut state = self.log.state();
        let read = state.readers.get(&self.id).copied().unwrap_or_default();
        // Less than `KEPT`.
        let skipped = (read - state.dropped.0) as usize;
        let taken: Vec<Record> = state.records.iter().skip(skipped).take(most).copied().collect();
        if taken.is_empty() {
            return Err(present());
        }
        state.readers.insert(self.id, read + taken.len() as u64);
        drop(state);
        self.log.room.notify_waiters();
        Ok(taken)
    }

    /// Resolves when there may be more events. Must be created before checking.
    pub fn news(&self) -> tokio::sync::futures::Notified<'_> {
        self.log.news.notified()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.log.state().readers.remove(&self.id);
        self.log.room.notify_waiters();
    }
}
