//! What the integration tests share: a real control plane, the collector's
//! own binary as a child process, and a client to write scenarios with.

// Every test binary compiles its own copy and uses a part of it.
#![allow(dead_code, unused_imports)]

pub mod backend;
pub mod cluster;
pub mod collector;
pub mod control_plane;
pub mod controller_manager;
pub mod deployment;
pub mod etcd;
pub mod proxy;
pub mod webhook;

pub use backend::Backend;
pub use cluster::{Cluster, Crd, Ns, Obj, Policy, RequestCounts, Scope};
pub use collector::{Collector, Options};
pub use control_plane::{ControlPlane, Info, Server, Turn};
pub use controller_manager::ControllerManager;
pub use webhook::{Verdict, Webhook};
