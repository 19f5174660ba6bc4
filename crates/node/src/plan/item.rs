//! The items of a plan: what is told of each, and what it takes to remove it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Serialize;

use crate::view::{ContainerState, image_key};
use crate::{PodRef, Rule, Timestamp};

/// One item, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// What it is.
    pub what: What,
    /// The runtime's id, or the name of the directory or symlink.
    pub id: String,
    /// The name of the container, or a name of the image.
    pub name: Option<String>,
    /// The pod that it belongs to.
    pub pod: Option<PodRef>,
    /// What becomes of it.
    pub decision: Action,
    /// The rule that decided.
    pub rule: Rule,
    /// The reason, for people.
    pub reason: Cow<'static, str>,
    /// Its size, if it is known; that of an image is an estimate.
    pub bytes: Option<u64>,
    /// Its place among what goes, from 1 on. A symlink shares that of its container.
    pub order: Option<u32>,
    /// What else is known of it.
    #[serde(flatten)]
    pub details: Details,
}

/// What people want to know of an item beside the decision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// The names with tags of an image, at most [`MOST_TAGS`] of them.
    pub tags: Vec<String>,
    /// How many seconds ago a container or sandbox was created.
    pub created_seconds: Option<u64>,
    /// How many seconds ago an image was first seen.
    pub detected_seconds: Option<u64>,
    /// How many seconds ago an image was last seen in use.
    pub last_used_seconds: Option<u64>,
    /// The state of a container or sandbox.
    pub state: Option<&'static str>,
    /// Whether the runtime asks not to remove an image.
    pub pinned: bool,
    /// The runtime handler that an image was pulled for.
    pub runtime_handler: Option<String>,
    /// Whether an earlier pass could not remove it.
    pub has_failed: bool,
}

/// The most tags of an image that an entry has.
pub const MOST_TAGS: usize = 100;

/// What becomes of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It goes.
    Remove,
    /// It stays.
    Keep,
}

/// An item that goes, as it was when the plan was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What it is, and what it takes to remove it.
    pub target: Target,
    /// Its name for people: `NAMESPACE/POD/CONTAINER`, `NAMESPACE/POD`, the tags or a digest of the image; else the id.
    pub name: String,
    /// The rule that removes it.
    pub rule: Rule,
    /// Its size, if it is known.
    pub bytes: Option<u64>,
}

/// What is to be removed.
#[derive(Clone, Debug, PartialEq, Eq, strum::EnumDiscriminants)]
#[strum_discriminants(
    name(What),
    doc = "What an item is. Output, log and metrics have these names.",
    derive(PartialOrd, Ord, Hash, Serialize, strum::EnumCount, strum::IntoStaticStr),
    serde(rename_all = "snake_case"),
    strum(serialize_all = "snake_case")
)]
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
        /// All its names, by which it may be used and kept.
        names: BTreeSet<String>,
    },
}

impl Candidate {
    /// What it is.
    pub fn what(&self) -> What {
        What::from(&self.target)
    }

    /// The [`crate::view::Image::key`] of an image.
    pub fn image_key(&self) -> Option<Cow<'_, str>> {
        let Target::Image { id, runtime_handler, .. } = &self.target else { return None };
        Some(image_key(id, runtime_handler.as_deref()))
    }

    /// The runtime's id, or the name of the directory or symlink.
    pub fn id(&self) -> &str {
        match &self.target {
            Target::Container { id, .. } | Target::Sandbox { id, .. } | Target::Image { id, .. } => id,
            Target::LogDirectory { name, .. } | Target::LogSymlink { name } => name,
        }
    }
}
