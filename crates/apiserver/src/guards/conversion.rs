//! Conversion of custom resources between versions, and its failure.

use std::fmt;

type Ask = dyn Fn() -> Result<(), String> + Send + Sync;

/// The function that decides whether objects can be converted.
pub struct Conversion(Box<Ask>);

impl fmt::Debug for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversion").finish_non_exhaustive()
    }
}

impl Conversion {
    /// Uses this function, which returns an error if the conversion fails. A successful conversion
    /// changes only the `apiVersion`. The server waits for the function, so it must not call the
    /// server.
    pub fn new(ask: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self(Box::new(ask))
    }

    pub(super) fn ask(&self) -> Result<(), String> {
        (self.0)()
    }
}
