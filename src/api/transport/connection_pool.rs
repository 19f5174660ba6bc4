//! Assigns streams to connections.
//!
//! Servers and proxies limit the streams of a connection. A request beyond the limit is not
//! refused: it waits silently until another stream ends. So streams are spread over several
//! connections. When a request gets no answer while others on the connection were answered,
//! the number of those shows the actual limit.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The connections in use. Clones share them.
pub struct ConnectionPool<C>(Arc<Inner<C>>);

struct Inner<C> {
    make: Box<dyn Fn() -> C + Send + Sync>,
    /// A request that is dropped earlier than this shows no limit.
    patience: Duration,
    state: Mutex<State<C>>,
}

struct State<C> {
    /// The greatest number of streams on one connection, as far as known.
    limit: usize,
    /// The oldest first.
    connections: Vec<Connection<C>>,
    next: u64,
}

struct Connection<C> {
    id: u64,
    client: C,
    /// Requests that were sent and have not ended.
    open: usize,
    /// How many of them were answered.
    answered: usize,
}

/// The stage of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Sent,
    Answered,
    Failed,
}

/// The slot of one stream on a connection. Dropping it frees the slot.
pub struct StreamSlot<C> {
    pool: ConnectionPool<C>,
    id: u64,
    since: Instant,
    stage: Stage,
}

impl<C> Clone for ConnectionPool<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C> fmt::Debug for StreamSlot<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamSlot").field("id", &self.id).field("stage", &self.stage).finish_non_exhaustive()
    }
}

impl<C> ConnectionPool<C> {
    fn state(&self) -> MutexGuard<'_, State<C>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Clone> ConnectionPool<C> {
    /// An empty pool. Connections are made when needed, for at most `limit` streams each.
    pub fn new(limit: usize, patience: Duration, make: impl Fn() -> C + Send + Sync + 'static) -> Self {
        let state = State { limit: limit.max(1), connections: Vec::new(), next: 0 };
        Self(Arc::new(Inner { make: Box::new(make), patience, state: Mutex::new(state) }))
    }

    /// A slot on the oldest connection that has one, to keep the number of connections small.
    /// Drops connections without streams.
    pub fn slot(&self) -> (C, StreamSlot<C>) {
        let mut state = self.state();
        let limit = state.limit;
        let free = state.connections.iter().position(|connection| connection.open < limit);
        let index = free.unwrap_or_else(|| {
            let id = state.next;
            state.next += 1;
            state.connections.push(Connection { id, client: (self.0.make)(), open: 0, answered: 0 });
            state.connections.len() - 1
        });
        let connection = &mut state.connections[index];
        connection.open += 1;
        let (client, id) = (connection.client.clone(), connection.id);
        state.connections.retain(|connection| connection.open > 0);
        (client, StreamSlot { pool: self.clone(), id, since: Instant::now(), stage: Stage::Sent })
    }
}

impl<C> StreamSlot<C> {
    /// The server has answered: the stream is open.
    pub fn answered(&mut self) {
        if self.stage == Stage::Sent {
            self.stage = Stage::Answered;
            if let Some(connection) =
                self.pool.state().connections.iter_mut().find(|connection| connection.id == self.id)
            {
                connection.answered += 1;
            }
        }
    }

    /// The request failed, which says nothing about the limit.
    pub fn failed(mut self) {
        self.stage = Stage::Failed;
    }
}

impl<C> Drop for StreamSlot<C> {
    fn drop(&mut self) {
        let is_long = self.since.elapsed() >= self.pool.0.patience;
        let mut state = self.pool.state();
        let State { limit, connections, .. } = &mut *state;
        let Some(connection) = connections.iter_mut().find(|connection| connection.id == self.id) else {
            return;
        };
        connection.open -= 1;
        match self.stage {
            Stage::Answered => connection.answered -= 1,
            Stage::Failed => {}
            // Dropped without an answer, while others were answered.
            Stage::Sent if is_long && connection.answered > 0 => *limit = (*limit).min(connection.answered),
            Stage::Sent => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(15);

    /// Connections are called by their number.
    fn pool(limit: usize) -> ConnectionPool<usize> {
        let made = AtomicUsize::new(0);
        ConnectionPool::new(limit, PATIENCE, move || made.fetch_add(1, Ordering::Relaxed))
    }

    fn open(pool: &ConnectionPool<usize>) -> (usize, StreamSlot<usize>) {
        let (name, mut slot) = pool.slot();
        slot.answered();
        (name, slot)
    }

    #[test]
    fn a_connection_is_filled_before_another_begins() {
        let pool = pool(3);
        let slots: Vec<_> = (0..7).map(|_| open(&pool)).collect();
        let names: Vec<usize> = slots.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, [0, 0, 0, 1, 1, 1, 2]);
    }

    #[test]
    fn the_end_of_a_stream_frees_its_place_and_empty_connections_are_closed() {
        let pool = pool(2);
        let mut slots: Vec<_> = (0..4).map(|_| open(&pool)).collect();
        drop(slots.remove(0));
        assert_eq!(open(&pool).0, 0, "of which the slot is free again at once");
        slots.truncate(1);
        assert_eq!(open(&pool).0, 0);
        assert_eq!(pool.state().connections.len(), 1, "the other one is closed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_waits_beside_open_ones_reveals_the_limit() {
        let pool = pool(10);
        let _open: Vec<_> = (0..4).map(|_| open(&pool)).collect();
        let waiting: Vec<_> = (0..3).map(|_| pool.slot()).collect();
        assert!(waiting.iter().all(|(name, _)| *name == 0));
        tokio::time::advance(PATIENCE).await;
        drop(waiting);
        let next: Vec<usize> = (0..5).map(|_| open(&pool)).map(|(name, _slot)| name).collect();
        assert_eq!(next, [1, 1, 1, 1, 1], "each had ended before the next began");
        let together: Vec<_> = (0..5).map(|_| open(&pool)).collect();
        assert_eq!(together.iter().map(|(name, _)| *name).collect::<Vec<_>>(), [1, 1, 1, 1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn waits_with_other_causes_reveal_no_limit() {
        let pool = pool(10);
        let silent: Vec<_> = (0..5).map(|_| pool.slot()).collect();
        tokio::time::advance(PATIENCE).await;
        drop(silent);
        let _open = open(&pool);
        let (_, failed) = pool.slot();
        tokio::time::advance(PATIENCE).await;
        failed.failed();
        let (_, no_longer_wanted) = pool.slot();
        drop(no_longer_wanted);
        assert_eq!(pool.state().limit, 10);
    }
}
