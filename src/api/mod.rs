//! The only room that talks to an API server.
//!
//! [`Api`] makes single requests: look-ups, deletes and patches with their
//! preconditions, events, discovery. [`ListWatch`] follows one resource type.
//! Both speak in [`ObjectFacts`](kube_gc_core::object::ObjectFacts) and sort what goes
//! wrong into what a caller must know ([`ErrorClass`]). No object's body is ever
//! logged; the server's own error message is.

mod accept;
pub(crate) mod benching;
mod bulkhead;
mod client;
mod clock;
mod concurrency;
mod connect;
mod decode;
mod delete;
mod discovery;
mod doubt;
mod error;
mod event;
mod finalizer;
pub(crate) mod fuzzing;
mod gate;
mod gate_layer;
mod jitter;
mod limiter;
mod list_watch;
mod live;
mod lost;
mod pages;
mod patch;
mod path;
mod reachability;
mod read;
mod review;
mod settings;
mod transport;
mod turn;

#[cfg(test)]
pub(crate) mod scripted;

pub use bulkhead::StepAside;
pub(crate) use client::chain as error_chain;
pub use client::{Api, Clients};
pub use clock::{Clock, Moment};
pub use connect::{ConnectError, ServerVersion, load_config};
pub use decode::Encoding;
pub use delete::Deleted;
pub use discovery::{Definition, Discovered, GroupFailure, Watchable};
pub use doubt::Doubts;
pub use error::{ApiError, ErrorClass};
pub use event::EventType;
pub use finalizer::{Finalizer, FinalizerRemoval};
pub use gate::{GateClosed, Permit, Standing, WriteGate};
pub(crate) use jitter::Jitter;
pub use list_watch::{HighWater, ListWatch, Phase, Sighting, Step, WatchStart};
pub use patch::{Patched, References};
pub use reachability::Outage;
pub use read::{Evidence, Listed, LookUp};
pub use review::{Access, Bearer, ReviewError, Reviews, User};
pub use settings::{
    ApiSettings, EVENT_COMPONENT, FIELD_MANAGER, RequestObserver, USER_AGENT, Unobserved, Verb, WallClock,
    WatchProtocol, WatchSettings,
};
pub use turn::{Turn, Write};
