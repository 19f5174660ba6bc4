//! The container runtime interface (CRI), as node collection uses it.
//!
//! | Module | Contents |
//! |---|---|
//! | [`messages`] | the messages of CRI v1, generated from the definition |
//! | [`rpc`] | the calls: their names, requests and responses |
//! | [`endpoint`] | sockets: parsing, and the one to use when none is named |
//! | [`client`] | calls with deadlines, and lists that are too long for one message |
//! | [`error`] | what can go wrong, for people |
//! | `server` | a runtime inside the process, with faults on purpose (feature `server`) |
//! | `testing` | a real containerd for tests (feature `testing`) |
//!
//! Nothing else in kube-gc talks to a container runtime. Nothing here decides what to remove.

#![forbid(unsafe_code)]

pub mod client;
pub mod endpoint;
pub mod error;
pub mod messages;
pub mod rpc;

#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "testing")]
pub mod testing;

pub use client::{Client, Settings};
pub use endpoint::Endpoint;
pub use error::Error;
pub use rpc::{ApiVersion, Rpc};
