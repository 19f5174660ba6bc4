//! A real containerd for tests: its own process, configuration, directories and socket, on a file
//! system of its own, and gone when the test ends.
//!
//! It needs root, because containers do. [`missing`] says what is not there, so that a test can be
//! skipped by name and say why.

mod archive;
mod containerd;
mod pods;

pub use archive::{Archive, Layer};
pub use containerd::{Containerd, Options, missing};
pub use pods::{ContainerSpec, Pod};
