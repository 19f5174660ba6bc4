//! The client of the API server. Only this module and the elector talk to one.
//!
//! [`Api`] sends single requests: look-ups, deletes and patches with their preconditions,
//! events, discovery. [`ListWatch`] follows one resource type. Both return
//! [`ObjectFacts`](kube_gc_core::object::ObjectFacts), and classify errors by what a caller
//! must know ([`ErrorClass`]). An object's body is never logged; the server's error message
//! is.

mod bulkhead;
mod call;
mod client;
mod clock;
mod concurrency;
mod connect;
mod connection;
mod connection_error;
mod delete;
mod discovery;
mod error;
mod error_chain;
mod event;
mod event_recorder;
mod finalizer;
mod forward;
mod high_water;
mod inspect;
mod jitter;
mod list;
mod list_watch;
mod media_type;
mod namespaces;
mod pagination;
mod patch;
mod path;
#[cfg(feature = "node")]
mod pods;
mod rate_limiter;
mod raw_metadata;
mod reachability;
mod read;
mod refusals;
mod restore_fence;
mod review;
mod settings;
mod strategic_merge;
mod streaming_lists;
mod table;
mod transport;
mod write_encoding;
mod write_gate;
mod write_slot;

#[cfg(test)]
pub(crate) mod scripted;

pub use bulkhead::HangHook;
pub use client::Api;
pub use clock::{Clock, Moment};
pub use connect::load_config;
pub use connection::{ConnectError, Connection};
pub use delete::Deleted;
#[cfg(feature = "fuzzing")]
pub(crate) use discovery::fuzzing;
pub use discovery::{ContentType, ContentTypes, Definition, Discovered, GroupFailure, Watchable};
pub use error::{ApiError, Effect, ErrorClass};
pub(crate) use error_chain::error_chain;
pub use event::{EVENT_MESSAGE_LIMIT, EventType};
pub use event_recorder::EventRecorder;
#[cfg(feature = "demo")]
pub use event_recorder::OWNER_REF_INVALID_NAMESPACE;
pub use finalizer::{Finalizer, FinalizerRemoval};
pub use forward::LabelledPod;
pub use high_water::HighWater;
pub(crate) use jitter::Jitter;
pub use kube_gc_decode::Encoding;
pub use list_watch::{ListWatch, Phase, Step, WatchStart};
pub use namespaces::{LiveNamespace, Page, PageItem};
pub use patch::{MANY_REFERENCES, Patched, References};
#[cfg(feature = "node")]
pub use pods::PodWatch;
pub use rate_limiter::RateLimiter;
pub use read::AbsenceProof;
pub use read::LookupResult;
pub use restore_fence::RestoreFence;
pub use review::{Access, Bearer, ReviewError, Reviews, User};
#[cfg(any(test, feature = "internals"))]
pub use settings::WallClock;
pub use settings::{
    ApiSettings, FIELD_MANAGER, RequestObserver, USER_AGENT, Verb, WatchProtocol, WatchSettings,
};
#[cfg(test)]
pub use write_gate::GateClosed;
pub use write_gate::{ReplicaRole, WriteGate};
pub use write_slot::{WriteSlot, WriteVerb};
