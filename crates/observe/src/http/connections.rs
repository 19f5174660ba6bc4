//! The open connections of one listener, and which of them is evicted when there are too
//! many.
//!
//! Any client that reaches a listener can open connections and send nothing. So the
//! listener accepts every new connection and, at the limit, evicts another one: the
//! oldest of the source with the most connections. An attacker thus evicts its own
//! connections and not that of the kubelet, whose probes come from the node's address.
//! If many sources have one connection each, the oldest connection of all is evicted. A
//! new connection is then evicted only after [`MAX_CONNECTIONS`] newer ones, which leaves
//! enough time to send a request.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use crate::access::Source;
use crate::telemetry::record::{http_connection_evicted, http_connections};
use kube_gc_config::Listener;

/// The most connections of a listener. Probes, a scraper and a few people need only a
/// handful. With a limit of 1,024 open files, two full listeners leave enough for the
/// connections to the API server.
pub(super) const MAX_CONNECTIONS: usize = 256;

/// The most requests in flight from one source, except probes. It is less than
/// [`MAX_REQUESTS`](super::middleware::MAX_REQUESTS), so that one source cannot use all.
pub(super) const MAX_REQUESTS_PER_SOURCE: usize = 16;

/// The connections of one listener.
#[derive(Debug)]
pub(super) struct Connections {
    listener: Listener,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// A logical clock: orders the events of all connections.
    next: u64,
    open: BTreeMap<u64, Connection>,
}

#[derive(Debug)]
struct Connection {
    source: Source,
    /// When it was accepted, or its last request began or ended.
    since: u64,
    /// Held by a request in flight, unless it is a probe. A connection with a permit is not
    /// evicted; there are fewer permits than connection slots.
    permit: Option<OwnedSemaphorePermit>,
    eviction: CancellationToken,
}

impl Connections {
    pub(super) fn new(listener: Listener) -> Arc<Self> {
        Arc::new(Self { listener, table: Mutex::default() })
    }

    /// A slot for a new connection. May evict another connection.
    pub(super) fn admit(self: &Arc<Self>, source: Source) -> Arc<ConnectionSlot> {
        let eviction = CancellationToken::new();
        let mut table = self.table();
        let ticket = table.add(source, eviction.clone());
        if table.open.len() > MAX_CONNECTIONS {
            self.evict(&mut table);
        }
        self.count(&table);
        drop(table);
        let (began, answered) = (CancellationToken::new(), AtomicBool::new(false));
        Arc::new(ConnectionSlot { connections: Arc::clone(self), source, ticket, eviction, began, answered })
    }

    /// Evicts one connection, when the process has no file descriptors left.
    pub(super) fn make_room(&self) {
        let mut table = self.table();
        self.evict(&mut table);
        self.count(&table);
    }

    fn evict(&self, table: &mut Table) {
        let Some(ticket) = table.victim() else { return };
        if let Some(connection) = table.open.remove(&ticket) {
            connection.eviction.cancel();
            http_connection_evicted(self.listener.name());
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // A panic cannot leave the table half-changed.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, table: &Table) {
        http_connections(self.listener.name(), table.open.len());
    }
}

impl Table {
    fn now(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn add(&mut self, source: Source, eviction: CancellationToken) -> u64 {
        let ticket = self.now();
        self.open.insert(ticket, Connection { source, since: ticket, permit: None, eviction });
        ticket
    }

    /// The oldest connection of the source, or sources, with the most connections.
    fn victim(&self) -> Option<u64> {
        let mut open: HashMap<Source, usize> = HashMap::new();
        for connection in self.open.values() {
            *open.entry(connection.source).or_default() += 1;
        }
        let free = self.open.iter().filter(|(_, connection)| connection.permit.is_none());
        let of_source = |connection: &Connection| open.get(&connection.source).copied();
        let (ticket, _) =
            free.max_by_key(|(_, connection)| (of_source(connection), u64::MAX - connection.since))?;
        Some(*ticket)
    }

    /// Counts another request of the connection's source; false if it has too many.
    fn begin_request(&mut self, ticket: u64, permit: OwnedSemaphorePermit) -> bool {
        // The previous response may not have been flushed completely.
        self.end_request(ticket);
        let Some(source) = self.open.get(&ticket).map(|connection| connection.source) else { return false };
        let in_flight = |other: &&Connection| other.source == source && other.permit.is_some();
        let is_room = self.open.values().filter(in_flight).count() < MAX_REQUESTS_PER_SOURCE;
        if let Some(connection) = self.open.get_mut(&ticket).filter(|_| is_room) {
            connection.permit = Some(permit);
        }
        is_room
    }

    fn end_request(&mut self, ticket: u64) {
        if let Some(connection) = self.open.get_mut(&ticket) {
            connection.permit = None;
        }
    }

    fn touch(&mut self, ticket: u64) {
        let now = self.now();
        if let Some(connection) = self.open.get_mut(&ticket) {
            connection.since = now;
        }
    }
}

/// The slot of one connection. Dropping it frees the slot.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    connections: Arc<Connections>,
    source: Source,
    ticket: u64,
    eviction: CancellationToken,
    /// The headers of a request were read.
    began: CancellationToken,
    /// The response is complete but may not have been flushed.
    answered: AtomicBool,
}

impl ConnectionSlot {
    /// The source of the connection.
    pub(super) const fn source(&self) -> Source {
        self.source
    }

    /// Resolves when the connection is evicted.
    pub(super) async fn evicted(&self) {
        self.eviction.cancelled().await;
    }

    /// Resolves if no request arrives within this time.
    pub(super) async fn stays_silent(&self, limit: Duration) {
        if tokio::time::timeout(limit, self.began.cancelled()).await.is_ok() {
            std::future::pending::<()>().await;
        }
    }

    /// Records that the headers of a request were read.
    pub(super) fn request_begins(&self) {
        self.began.cancel();
        self.answered.store(false, Ordering::Relaxed);
        self.connections.table().touch(self.ticket);
    }

    /// Protects the connection from eviction until the response is flushed: its request is
    /// not a probe. False if its source has too many such requests.
    pub(super) fn hold(&self, permit: OwnedSemaphorePermit) -> bool {
        self.connections.table().begin_request(self.ticket, permit)
    }

    /// Records that the response is complete.
    pub(super) fn answer_ends(&self) {
        self.answered.store(true, Ordering::Relaxed);
    }

    /// Records that all data was passed to the operating system.
    pub(super) fn flushed(&self) {
        if self.answered.swap(false, Ordering::Relaxed) {
            let mut table = self.connections.table();
            table.end_request(self.ticket);
            table.touch(self.ticket);
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut table = self.connections.table();
        table.open.remove(&self.ticket);
        self.connections.count(&table);
    }
}

#[cfg(test)]
mod tests;
