//! Node collection: what `kube-gc node` reads from a node and does to it.
//!
//! The rules are pure functions in the crate `kube_gc_node`. This module fetches what they need and
//! carries out what they decide. It never decides by itself.
//!
//! | module | content |
//! |---|---|
//! | `run` | the loop: passes, again and again |
//! | `settings` | the settings of the rules, where everything is, and whether a kubelet runs here |
//! | `collector` | one node: its runtime, its files, and what the API server says about its pods |
//! | `look` | everything that a plan needs, at one time |
//! | `unlisted` | what lists over CRI lack |
//! | `act` | carries out a plan, step by step |
//! | `remove` | looks at a container, sandbox or log, and removes it |
//! | `image` | looks at an image and what may use it, and removes it |
//! | `view` | what a container runtime says, as plain data |
//! | `files` | logs and symlinks; removes them without following a symlink |
//! | `disk` | how full the file system of the images is |
//! | `report` | a plan and what came of it, for people and programs |
//! | `state` | the ages of images, which survive a restart |

/// Makes a note of a gap as `format!` makes a text.
macro_rules! note {
    ($kind:literal $($arguments:tt)*) => {
        $crate::node::Note { kind: $kind, says: $crate::node::report::Says::Gap, text: format!($kind $($arguments)*) }
    };
}

mod act;
mod collector;
mod disk;
mod files;
mod image;
mod look;
mod remove;
mod report;
pub mod run;
mod settings;
mod state;
mod unlisted;
mod view;

pub use collector::{NodeCollector, NodeError, PodSource, blocking, now};
#[cfg(any(test, feature = "demo"))]
pub use disk::Disk;
pub use look::Look;
pub use report::{Note, PassResult, Report, amount, why_dry};
pub use settings::{Asked, NodeOptions};
pub use state::StateFile;

#[cfg(test)]
mod tests;
