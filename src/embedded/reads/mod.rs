//! Get, list and watch, and the form in which objects are shown.

use super::resources::ResourceName;

/// A watch: where it stands in the history, and what it shows. It holds nothing
/// else, so a slow reader costs nothing.
#[derive(Clone, Debug)]
pub struct Watch {
    /// The type.
    pub resource: ResourceName,
    /// Changes up to this version were shown.
    pub shown: u64,
}
