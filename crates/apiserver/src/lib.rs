//! A Kubernetes API server inside the process, for tests, simulations and demos of
//! controllers. The README has an example and says what it does not do.
//!
//! It reproduces all that a garbage collector can notice: discovery, resource versions,
//! lists and watches, patches, deletion with its policies and finalizers, custom
//! resources. It validates nothing beyond metadata and runs no controllers. [`guards`]
//! refuses requests as webhooks and roles would.
//!
//! [`ApiServer`] is the handle. It is a `tower::Service`, so a client talks to it without
//! a socket and under a paused clock. The same service can listen on an address.
//!
//! [`Server`](server::Server) is a plain value: it takes a request and the time, and
//! returns an answer. The clock, the bodies and the streams belong to `service`.
//!
//! | module | contents |
//! |---|---|
//! | [`call`] | what a request asks for: target, verb, options, form of the answer |
//! | [`server`] | the state, the settings, and the answers |
//! | `dispatch` | routing of a request to one of the following |
//! | [`resources`] | the served types, built in or custom; discovery |
//! | [`store`] | objects, the resource version, history, compaction, snapshots |
//! | `reads` | get, list, watch; metadata only and tables |
//! | `writes` | create, update, patch, delete; the rules of metadata |
//! | `controllers` | work that falls due after a change; the namespace controller |
//! | [`guards`] | refusals that a test asks for |
//! | `service` | the handle, its clock, and streams of watches |
//! | [`http`] | the server on an address, by HTTP or HTTPS |
//!
//! It depends on no other crate of kube-gc: what is tested against it must not be tested
//! against itself.

#![forbid(unsafe_code)]
#![warn(unnameable_types)]

pub mod call;
mod controllers;
mod dispatch;
mod documents;
pub mod guards;
#[cfg(feature = "serve")]
pub mod http;
pub mod object;
mod protobuf;
mod reads;
pub mod resources;
pub mod server;
mod service;
pub mod status;
pub mod store;
#[cfg(test)]
mod tests;
mod writes;

#[cfg(feature = "serve")]
pub use http::{Scheme, Serving};
pub use server::{Release, Settings};
pub use service::ApiServer;
