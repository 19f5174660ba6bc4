//! The moment from which on what was known before counts no more.

use super::ResourceVersion;

/// Watches broke, or ended as if the store was another one: it may have been restored
/// from a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disturbance {
    /// Grows with each; 0: there was none. What was proved or decided under a smaller
    /// number is void.
    pub number: u64,
    /// The version at which the store was found since; `None`: nobody knows.
    pub found: Option<ResourceVersion>,
}

impl Disturbance {
    /// Whether what was seen at this version was seen afterwards, or there was none.
    #[must_use]
    pub fn is_before(&self, version: Option<&ResourceVersion>) -> bool {
        let found = self.found.as_ref();
        self.number == 0 || found.zip(version).is_some_and(|(found, version)| version >= found)
    }
}
