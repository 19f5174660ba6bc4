//! A Kubernetes API server inside the process: for the demo, the simulation and
//! the tests.
//!
//! It is faithful in all that a garbage collector can notice (discovery, versions,
//! lists and watches, patches, deletion with its policies and finalizers, custom
//! resources) and is nothing else: no admission, no authorization, no validation
//! beyond metadata, no controllers. What a refusal does to a client can be tried all
//! the same: see [`guards`]. It refuses what a real server would do in three cases:
//! server-side apply, bodies in YAML or in protobuf (but for what `protobuf` reads),
//! and all subresources but `status` and `finalize`, although discovery shows them.
//!
//! [`Embedded`] is the handle. It is a `tower::Service`, so that a client talks to
//! it without a socket and under a paused clock; the same service can be put on a
//! loopback address for `kubectl`.
//!
//! Inside there is one plain value, [`Server`](server::Server): a request and the
//! time go in, an answer comes out, and nothing else happens. The clock, the
//! bodies and the streams are the shell's ([`service`]).
//!
//! | room | what lives there |
//! |---|---|
//! | [`call`] | what a request asks for: target, verb, options, form of the answer |
//! | [`resources`] | which types there are: built in, or from custom resource definitions; discovery |
//! | [`store`] | objects, the one resource version, history, compaction, snapshots |
//! | [`reads`] | get, list, watch; metadata only and tables |
//! | [`writes`] | create, update, patch, delete: the rules of metadata |
//! | [`server`], `dispatch` | which of them answers |
//! | [`guards`] | who may be put in the way of requests, where a test wants it |
//! | [`schedule`], [`namespaces`] | what falls due later; the stand-in for the namespace controller |
//! | [`metrics`] | what it counts |
//! | [`service`] | the handle, its clock, and streams of watches |
//! | [`http`] | the same on an address, by HTTP or HTTPS |
//!
//! It uses nothing else of this crate, so that what is tested against it is not
//! tested against itself.

pub mod call;
mod dispatch;
pub mod guards;
pub mod http;
pub mod metrics;
pub mod namespaces;
pub mod object;
mod openapi;
mod other;
mod protobuf;
pub mod reads;
pub mod resources;
pub mod schedule;
pub mod server;
pub mod service;
pub mod settings;
pub mod status;
pub mod store;
pub mod time;
pub mod writes;

pub use http::{Scheme, ServeError, Serving};
pub use service::Embedded;
pub use settings::{Release, Settings};
