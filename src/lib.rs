//! kube-gc: a garbage collector for Kubernetes.
//!
//! When an object is deleted, something has to delete its dependents, orphan them, or keep the
//! object until they are gone. In most clusters kube-controller-manager does that. This library
//! does it inside any process: next to a bare API server, in tests of a controller, or in a control
//! plane of your own. The binary of the same name runs it as a process of its own.

pub mod actors;
pub mod api;
mod app;
mod cli;
pub mod config;
#[cfg(feature = "demo")]
mod demo;
pub mod http;
pub mod introspect;
pub mod leader;
pub mod telemetry;
pub mod worker;

#[cfg(feature = "benching")]
#[doc(hidden)]
pub mod benching;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;

/// The binary: parses the arguments of this process and returns its exit code.
#[doc(hidden)]
#[must_use]
pub fn main() -> std::process::ExitCode {
    cli::main()
}
