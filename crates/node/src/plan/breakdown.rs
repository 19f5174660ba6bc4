//! What fills the file system of the images (B9).

use serde::Serialize;

use crate::pressure::Usage;
use crate::view::{ContainerState, RuntimeView};

use super::{Action, Entry, What};

/// Bytes by what they are for. Sizes of images count shared layers once for each image, so the sum
/// may be more than is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Breakdown {
    /// Images that something uses.
    pub in_use: u64,
    /// Images that nothing uses, and that go now or when space is needed.
    pub unused: u64,
    /// Images that nothing uses, and that stay nevertheless.
    pub kept: u64,
    /// The writable layers of containers that do not run.
    pub dead_containers: u64,
    /// Everything else.
    pub other: u64,
}

impl Breakdown {
    /// `images` are all entries of images, with whether something uses them and whether only the
    /// usage keeps them.
    pub(super) fn of<'a>(
        images: impl Iterator<Item = (&'a Entry, bool, bool)>,
        runtime: &RuntimeView,
        usage: Option<&Usage>,
    ) -> Self {
        let mut found = Self::default();
        for (entry, used, waits) in images.filter(|(entry, ..)| entry.what == What::Image) {
            let sum = match entry.decision {
                Action::Keep if used => &mut found.in_use,
                Action::Keep if !waits => &mut found.kept,
                Action::Keep | Action::Remove => &mut found.unused,
            };
            *sum = sum.saturating_add(entry.bytes.unwrap_or_default());
        }
        let dead = runtime.containers.iter().filter(|container| container.state != ContainerState::Running);
        let layers = dead.filter_map(|container| container.layer_bytes);
        found.dead_containers = layers.fold(0, u64::saturating_add);
        let known = [found.in_use, found.unused, found.kept, found.dead_containers];
        let known = known.into_iter().fold(0, u64::saturating_add);
        found.other = usage.map_or(0, |usage| usage.used().saturating_sub(known));
        found
    }
}
