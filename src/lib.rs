//! kube-gc: a garbage collector for Kubernetes.
//!
//! When an object is deleted, something must delete what it owned, or cut the
//! ties, or hold it back until its dependents are gone. This library is that
//! something; the binary of the same name runs it.
//!
//! Start with `ARCHITECTURE.md`. The rules are pure functions over plain data
//! ([`kube_gc_core`]); the actors that feed and obey them are thin ([`actors`]), and
//! only [`api`] talks to an API server.

pub mod actors;
pub mod api;
#[doc(hidden)]
pub mod benching;
pub mod cli;
pub mod config;
pub mod demo;
#[doc(hidden)]
pub mod fuzzing;
pub mod http;
pub mod introspect;
pub mod leader;
pub mod telemetry;
pub mod worker;
