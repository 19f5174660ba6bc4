//! What is there, as plain data.
//!
//! Whoever fills these in does not judge: text is passed on as it came, however odd it is.

mod files;
mod pods;
mod runtime;

pub use files::{Files, LogDirectory, LogSymlink, SymlinkState};
pub use pods::{Answer, Listed, Phase, Pod, PodView, Proof};
pub use runtime::{Container, ContainerState, Extent, Image, RuntimeView, Sandbox, SandboxState};
