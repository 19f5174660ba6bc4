//! The container runtime interface (CRI), as node collection uses it.
//!
//! | Module | Contents |
//! |---|---|
//! | [`messages`] | the messages of CRI v1, written by hand: only the fields that are used |
//! | [`rpc`] | the calls: their names, requests and responses |
//! | [`labels`] | labels and annotations, and the keys of the kubelet |
//! | [`endpoint`] | sockets: parsing, and the one to use when none is named |
//! | [`client`] | calls with deadlines, and lists that are too long for one message |
//! | `ability` | what a runtime can do, as far as its version says |
//! | [`status`] | what a verbose status says beyond its fields |
//! | [`error`] | what can go wrong, for people |
//! | `server` | a runtime inside the process, with faults on purpose (feature `server`) |
//! | `testing` | a real containerd for tests (feature `testing`) |
//!
//! Nothing else in kube-gc talks to a container runtime. Nothing here decides what to remove.

#![forbid(unsafe_code)]

mod ability;
pub mod client;
pub mod endpoint;
pub mod error;
pub mod labels;
pub mod messages;
pub mod rpc;
pub mod status;
mod text;

#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "testing")]
pub mod testing;

pub use client::{Client, Settings};
pub use endpoint::Endpoint;
pub use error::Error;
pub use rpc::{ApiVersion, Rpc};
