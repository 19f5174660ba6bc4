//! What the state machine and its driver tell each other.

use std::time::Duration;

use crate::api::error::ApiError;
use kube_gc_core::object::ResourceVersion;

/// The next action of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Wait.
    Wait(Duration),
    /// Request a list or its next page.
    List(ListFrom),
    /// Request a list as the beginning of a watch that lasts this long: at this version or a later
    /// one, or at any version if nothing was seen before.
    Stream { not_older_than: Option<ResourceVersion>, lasting: Duration },
    /// Request the present version: a consistent list of one object.
    Check,
    /// Watch from this version on, for this long.
    Watch { from: Option<ResourceVersion>, lasting: Duration },
}

/// Which list to request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListFrom {
    /// Any version from the server's cache, because nothing was seen before. In one piece: pages
    /// are read from the store, and for a type with many objects, the version of the first page
    /// may be too old for a watch when the last page arrives (kube-rs/kube#1748).
    Cache,
    /// The server's cache, at this version or a later one.
    NotOlderThan(ResourceVersion),
    /// The present state of the store, in pages.
    Store,
    /// The page with this continue token.
    Page(String),
}

/// What a list's version means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListFreshness {
    /// The list is valid.
    Fresh,
    /// The list is older than what was seen, and is discarded.
    Stale,
    /// The store itself is older than what was seen: it was restored.
    Restored { seen: ResourceVersion, found: ResourceVersion },
}

/// How a watch ended.
#[derive(Clone, Debug)]
pub(super) enum End {
    /// The server closed it.
    Closed,
    /// It did not end in time, and nothing arrived.
    Silent,
    /// It was refused, broke, or ended with an ERROR event.
    Failed(ApiError),
}
