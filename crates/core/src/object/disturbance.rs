//! A break of the watches, which voids what was proved before.

use super::ResourceVersion;

/// The latest break of the watches. The store may have been restored from a backup during it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disturbance {
    /// Grows with each disturbance, and is 0 before the first. What was proved or decided under a
    /// smaller number is void.
    pub number: u64,
    /// The version at which the store was found afterwards, if known.
    pub found: Option<ResourceVersion>,
}

impl Disturbance {
    /// Whether an event with this version happened after the disturbance, or there was none.
    #[must_use]
    pub fn is_before(&self, version: Option<&ResourceVersion>) -> bool {
        let found = self.found.as_ref();
        self.number == 0 || found.zip(version).is_some_and(|(found, version)| version >= found)
    }
}
