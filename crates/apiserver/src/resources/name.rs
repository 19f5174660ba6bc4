//! The name of a type.

use std::fmt;
use std::sync::Arc;

/// Group and plural, which name a type in every version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceName {
    /// Empty for the core group.
    pub group: Arc<str>,
    /// The plural, such as `configmaps`.
    pub plural: Arc<str>,
}

impl ResourceName {
    /// The name with this group and plural.
    #[must_use]
    pub fn new(group: &str, plural: &str) -> Self {
        Self { group: group.into(), plural: plural.into() }
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plural)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}
