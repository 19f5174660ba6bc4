//! Node collection: what `kube-gc node` reads from a node and does to it.
//!
//! The rules are pure functions in the crate `kube_gc_node`. This module fetches what they need and
//! carries out what they decide. It never decides by itself.
//!
//! | module | content |
//! |---|---|
//! | `settings` | the settings of the rules, and where everything is |
//! | `collector` | one node: its runtime, its pods, its files |
//! | `look` | everything that a plan needs, at one time |
//! | `layers` | how much dead containers have written |
//! | `act` | carries out a plan, step by step |
//! | `blocking` | work that waits for the file system |
//! | `view` | what a container runtime says, as plain data |
//! | `files` | logs and symlinks; removes them without following a symlink |
//! | `disk` | how full the file system of the images is |
//! | `pods` | what the API server says about the pods of this node |
//! | `report` | a plan and what came of it, for people and programs |
//! | `state` | the ages of images, which survive a restart |
//! | `kubelet` | whether a kubelet runs here |

mod act;
mod blocking;
mod collector;
mod disk;
mod error;
mod files;
mod kubelet;
mod layers;
mod look;
mod pods;
mod report;
mod settings;
mod state;
mod view;

pub use act::PassOutcome;
pub use blocking::blocking;
pub use collector::{NodeCollector, now};
#[cfg(any(test, feature = "demo"))]
pub use disk::Disk;
pub use error::{NodeError, Problem};
pub use kubelet::Presence;
pub use look::Look;
pub use pods::PodSource;
pub use report::{PassResult, Report, why_dry};
pub use settings::NodeOptions;
pub use state::{Saved, StateFile};

#[cfg(test)]
mod tests;
