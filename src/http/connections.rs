//! The open connections of one listener, and which of them is closed when there are
//! too many.
//!
//! Anybody who reaches a listener can open connections and send nothing, so a
//! connection is accepted at once and another one is closed for it. The source with
//! the most connections loses its oldest: an attacker takes places from itself, not
//! from the kubelet, whose probe comes from the node's address. Where many sources
//! have one connection each, the oldest of all goes. A new connection is thus closed
//! only after [`MAX_CONNECTIONS`] newer ones, which is enough to send a request.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use crate::config::Listener;
use crate::telemetry::record::{http_connection_evicted, http_connections};

/// Connections that a listener has open at a time. Probes, a scraper and some people
/// need a handful. Two listeners with as many leave room for the connections to the
/// API server where a process may have 1,024 open files.
pub(super) const MAX_CONNECTIONS: usize = 256;

/// Requests under way from one source, probes not counted: a part of
/// [`MAX_REQUESTS`](super::front::MAX_REQUESTS), so that a source cannot take all.
pub(super) const MAX_REQUESTS_PER_SOURCE: usize = 16;

/// Where connections come from: an IPv4 address, or an IPv6 network of 64 bits, which
/// is what one machine has at its disposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Source(IpAddr);

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
            }
            address => address,
        })
    }
}

/// The connections of one listener. Clones share everything.
#[derive(Clone, Debug)]
pub(super) struct Connections(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    listener: Listener,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// Orders everything that happens.
    next: u64,
    open: BTreeMap<u64, Connection>,
    sources: HashMap<Source, Count>,
}

/// Of one source.
#[derive(Debug, Default)]
struct Count {
    open: usize,
    requests: usize,
}

#[derive(Debug)]
struct Connection {
    source: Source,
    /// When it was accepted, or its last request began or ended.
    since: u64,
    /// Held by the request under way, unless it is a probe: such a connection is not
    /// evicted. There are fewer of these than there are places.
    permit: Option<OwnedSemaphorePermit>,
    eviction: CancellationToken,
}

impl Connections {
    pub(super) fn new(listener: Listener) -> Self {
        Self(Arc::new(Shared { listener, table: Mutex::default() }))
    }

    /// A place for a new connection, for which another one may have to go.
    pub(super) fn admit(&self, source: Source) -> Arc<Place> {
        let eviction = CancellationToken::new();
        let mut table = self.0.table();
        let ticket = table.add(source, eviction.clone());
        if table.open.len() > MAX_CONNECTIONS {
            self.evict(&mut table);
        }
        self.0.count(&table);
        drop(table);
        Arc::new(Place {
            shared: Arc::clone(&self.0),
            source,
            ticket,
            eviction,
            began: CancellationToken::new(),
            answered: AtomicBool::new(false),
        })
    }

    /// Closes one connection: there are no files left in this process.
    pub(super) fn make_room(&self) {
        let mut table = self.0.table();
        self.evict(&mut table);
        self.0.count(&table);
    }

    fn evict(&self, table: &mut Table) {
        let Some(ticket) = table.victim() else { return };
        if let Some(connection) = table.remove(ticket) {
            connection.eviction.cancel();
            http_connection_evicted(self.0.listener.name());
        }
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn open(&self) -> usize {
        self.0.table().open.len()
    }
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        // A panic elsewhere leaves the table as it is between two changes.
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
        self.sources.entry(source).or_default().open += 1;
        ticket
    }

    fn remove(&mut self, ticket: u64) -> Option<Connection> {
        self.end_request(ticket);
        let connection = self.open.remove(&ticket)?;
        if let Some(count) = self.sources.get_mut(&connection.source) {
            count.open -= 1;
            if count.open == 0 {
                self.sources.remove(&connection.source);
            }
        }
        Some(connection)
    }

    /// The oldest of the source that has the most, or of several such sources.
    fn victim(&self) -> Option<u64> {
        let open = |source| self.sources.get(source).map_or(0, |count| count.open);
        let free = self.open.iter().filter(|(_, connection)| connection.permit.is_none());
        let (ticket, _) =
            free.max_by_key(|(_, connection)| (open(&connection.source), u64::MAX - connection.since))?;
        Some(*ticket)
    }

    /// Whether the source may have another request under way; if so, it has.
    fn begin_request(&mut self, ticket: u64, permit: OwnedSemaphorePermit) -> bool {
        // An answer to the request before may not have been handed over completely.
        self.end_request(ticket);
        let Some(connection) = self.open.get_mut(&ticket) else { return false };
        let count = self.sources.entry(connection.source).or_default();
        if count.requests == MAX_REQUESTS_PER_SOURCE {
            return false;
        }
        count.requests += 1;
        connection.permit = Some(permit);
        true
    }

    fn end_request(&mut self, ticket: u64) {
        let Some(connection) = self.open.get_mut(&ticket) else { return };
        if connection.permit.take().is_some()
            && let Some(count) = self.sources.get_mut(&connection.source)
        {
            count.requests -= 1;
        }
    }

    fn touch(&mut self, ticket: u64) {
        let now = self.now();
        if let Some(connection) = self.open.get_mut(&ticket) {
            connection.since = now;
        }
    }
}

/// The place of one connection. It is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    shared: Arc<Shared>,
    source: Source,
    ticket: u64,
    eviction: CancellationToken,
    /// The head of a request was read.
    began: CancellationToken,
    /// The answer is made, and may not have been handed over completely.
    answered: AtomicBool,
}

impl Place {
    /// Where the connection comes from.
    pub(super) const fn source(&self) -> Source {
        self.source
    }

    /// Resolves when the connection has to be closed for another one.
    pub(super) async fn evicted(&self) {
        self.eviction.cancelled().await;
    }

    /// Resolves if there is no request in this time.
    pub(super) async fn stays_silent(&self, limit: Duration) {
        if tokio::time::timeout(limit, self.began.cancelled()).await.is_ok() {
            std::future::pending::<()>().await;
        }
    }

    /// The head of a request was read.
    pub(super) fn request_begins(&self) {
        self.began.cancel();
        self.answered.store(false, Ordering::Relaxed);
        self.shared.table().touch(self.ticket);
    }

    /// The request under way is more than a probe, so the connection stays until its
    /// answer is handed over. False when there are too many of these from its source.
    pub(super) fn hold(&self, permit: OwnedSemaphorePermit) -> bool {
        self.shared.table().begin_request(self.ticket, permit)
    }

    /// All of the answer is made.
    pub(super) fn answer_ends(&self) {
        self.answered.store(true, Ordering::Relaxed);
    }

    /// All that there was to send is handed over to the system.
    pub(super) fn flushed(&self) {
        if self.answered.swap(false, Ordering::Relaxed) {
            let mut table = self.shared.table();
            table.end_request(self.ticket);
            table.touch(self.ticket);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.shared.table();
        drop(table.remove(self.ticket));
        self.shared.count(&table);
    }
}

#[cfg(test)]
mod tests;
