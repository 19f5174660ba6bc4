//! The client of the API server. Only this crate and the elector talk to one.
//!
//! [`Api`] sends single requests: look-ups, deletes and patches with their preconditions,
//! events, discovery. [`ListWatch`] follows one resource type. Both return
//! [`ObjectFacts`](kube_gc_core::object::ObjectFacts), and classify errors by what a caller
//! must know ([`ErrorClass`]). An object's body is never logged; the server's error message
//! is.

#![allow(missing_docs, reason = "a comment has to say more than the name; the crate is not published")]

mod call;
mod client;
mod commands;
mod connect;
mod connection;
mod connection_error;
mod delete;
mod discovery;
mod error;
mod event;
#[cfg(feature = "forward")]
mod forward;
mod limits;
mod list;
mod list_watch;
mod namespaces;
mod order;
mod patch;
mod path;
#[cfg(feature = "node")]
mod pods;
mod protection;
mod reachability;
mod read;
mod restore_fence;
mod review;
mod settings;
#[cfg(any(test, feature = "test-util"))]
pub mod testing;
mod transport;
mod write_gate;

pub use client::{Api, WriteSlot};
pub use commands::LabelledPod;
pub use connect::load_config;
pub use connection::{ConnectError, Connection};
pub use connection_error::error_chain;
pub use delete::Deleted;
#[cfg(any(test, feature = "test-util"))]
#[doc(hidden)]
pub use discovery::testing as fuzzing;
pub use discovery::{ContentType, ContentTypes, Definition, Discovered, GroupFailure, Watchable};
pub use error::{ApiError, Effect, ErrorClass};
pub use event::{EventRecorder, EventType, OWNER_REF_INVALID_NAMESPACE};
pub use kube_gc_config::WatchProtocol;
pub use kube_gc_decode::Encoding;
pub use limits::{HangHook, RateLimiter};
pub use list_watch::{ListWatch, Phase, Step};
pub use namespaces::{LiveNamespace, Page, PageItem};
pub use order::{DeleteOrder, Ground};
pub use patch::{Finalizer, Patched, References};
pub use path::{encode, path_of};
#[cfg(feature = "node")]
pub use pods::PodWatch;
pub use read::{AbsenceProof, LookupResult};
pub use restore_fence::{HighWater, RestoreFence};
pub use review::Reviews;
pub use settings::{ApiSettings, FIELD_MANAGER, Jitter, USER_AGENT, Verb, WallClock, WatchSettings};
pub use write_gate::{Clock, GateClosed, ReplicaRole, WriteGate, WritePermit};
