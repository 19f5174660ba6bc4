//! What the tests of this repository share: a control plane, real or embedded, the
//! collector's own binary as a child process, a proxy between the two, a client to write
//! scenarios with, and the harness that runs them.

#![allow(
    missing_docs,
    missing_debug_implementations,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "only tests are built with it, and they may fail by panicking"
)]

pub mod backend;
pub mod cluster;
pub mod collector;
pub mod control_plane;
pub mod controller_manager;
pub mod deployment;
pub mod environment;
pub mod etcd;
pub mod harness;
pub mod object;
pub mod proxy;
pub mod schema;
pub mod target;
pub mod webhook;

pub use backend::Backend;
pub use cluster::{Cluster, Crd, Ns, Policy, RequestCounts, Scope};
pub use collector::{Collector, Options, Rest};
pub use control_plane::{ControlPlane, Info, Server, Turn};
pub use controller_manager::ControllerManager;
pub use environment::Environment;
pub use object::Obj;
pub use webhook::{Webhook, WebhookBehavior};
