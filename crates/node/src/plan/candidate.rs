//! What goes, with what is needed to remove it and to look at it again.

use crate::images::Purpose;
use crate::view::ContainerState;
use crate::{Rule, Timestamp};

use super::What;

/// An item that goes, as it was when the plan was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What it is, and what it takes to remove it.
    pub target: Target,
    /// The rule that removes it.
    pub rule: Rule,
    /// Its size, if it is known.
    pub bytes: Option<u64>,
}

/// What is to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A container. Its log files and symlink go before it (C8).
    Container {
        /// The runtime's id.
        id: String,
        /// The name in the pod.
        name: String,
        /// The uid of its pod.
        uid: String,
        /// The state.
        state: ContainerState,
        /// When it was created.
        created_at: Timestamp,
        /// Whether it has to be stopped first (C7).
        stop_first: bool,
        /// The name of its symlink, if there is one.
        symlink: Option<String>,
    },
    /// A sandbox: it is stopped, then removed.
    Sandbox {
        /// The runtime's id.
        id: String,
        /// The uid of its pod.
        uid: String,
        /// When it was created.
        created_at: Timestamp,
    },
    /// A log directory, with all that is in it.
    LogDirectory {
        /// The name beneath the root of the pods' logs.
        name: String,
        /// The uid of its pod.
        uid: String,
    },
    /// A symlink to a log.
    LogSymlink {
        /// The name beneath the root of the symlinks.
        name: String,
    },
    /// An image.
    Image {
        /// The runtime's id.
        id: String,
        /// The runtime handler that it was pulled for.
        runtime_handler: Option<String>,
        /// Why it goes.
        purpose: Purpose,
    },
}

impl Candidate {
    /// What it is.
    #[must_use]
    pub const fn what(&self) -> What {
        match self.target {
            Target::Container { .. } => What::Container,
            Target::Sandbox { .. } => What::Sandbox,
            Target::LogDirectory { .. } => What::LogDirectory,
            Target::LogSymlink { .. } => What::LogSymlink,
            Target::Image { .. } => What::Image,
        }
    }

    /// The runtime's id, or the name of the directory or symlink.
    #[must_use]
    pub fn id(&self) -> &str {
        match &self.target {
            Target::Container { id, .. } | Target::Sandbox { id, .. } | Target::Image { id, .. } => id,
            Target::LogDirectory { name, .. } | Target::LogSymlink { name } => name,
        }
    }
}
