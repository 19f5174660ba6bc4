//! What tests hold this crate and node collection against: a real containerd, and the kubelet's own
//! garbage collectors.
//!
//! [`Containerd`] has its own configuration, directories and socket, on a file system of its own, and is
//! gone when the test ends. It needs root, because containers do. Where something is not there, [`can_run`]
//! lets a test be skipped by its name and says why. [`Kubelet`] needs no root.

mod archive;
mod containerd;
mod kubelet;
mod pods;

pub use archive::{Archive, Layer};
pub use containerd::{Containerd, can_run};
pub use kubelet::{Kubelet, KubeletOutcome, KubeletPass, KubeletRules};
pub use pods::Pod;
