//! Who converts custom resources from one version to another, and how it is told that
//! nobody does.

use std::fmt;

type Ask = dyn Fn() -> Result<(), String> + Send + Sync;

/// Who is asked whether objects can be converted.
pub struct Conversion(Box<Ask>);

impl fmt::Debug for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversion").finish_non_exhaustive()
    }
}

impl Conversion {
    /// Asks this function, which says why not if it can not be done. What is converted
    /// changes nothing but its `apiVersion`. The server waits for it, so it must not talk
    /// to the server.
    pub fn new(ask: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self(Box::new(ask))
    }

    pub(super) fn ask(&self) -> Result<(), String> {
        (self.0)()
    }
}
