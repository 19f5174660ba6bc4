//! Admission: a function that may deny writes.

use std::fmt;

use crate::object::Object;
use crate::resources::ResourceName;
use crate::status::Status;

/// The kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// PUT or PATCH, including one that removes the last finalizer.
    Update,
    /// DELETE of an object, or of each object of a collection.
    Delete,
}

/// A write to admit or deny.
#[derive(Clone, Debug)]
pub struct Review<'a> {
    /// The kind of the write.
    pub operation: Operation,
    /// The type, as named in the request.
    pub resource: ResourceName,
    /// `status` or `finalize`, if the request names one.
    pub subresource: Option<&'a str>,
    /// The stored object.
    pub object: &'a Object,
}

/// The denial of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The name of the webhook to report.
    pub webhook: String,
    /// The HTTP code; 400 by default.
    pub code: Option<u16>,
    /// The message.
    pub message: String,
}

impl Denial {
    pub(super) fn into_status(self) -> Status {
        let Self { webhook, code, message } = self;
        // A client would not take a success code for a denial.
        let code = code.filter(|code| *code >= 400).unwrap_or(400);
        let why = if message.is_empty() { " without explanation".to_owned() } else { format!(": {message}") };
        Status::new(code, "", format!("admission webhook \"{webhook}\" denied the request{why}"))
    }
}

type Ask = dyn Fn(&Review<'_>) -> Option<Denial> + Send + Sync;

/// The function that decides.
pub struct Admission(Box<Ask>);

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").finish_non_exhaustive()
    }
}

impl Admission {
    /// Uses this function. The server waits for it, so it must not call the server.
    pub fn new(ask: impl Fn(&Review<'_>) -> Option<Denial> + Send + Sync + 'static) -> Self {
        Self(Box::new(ask))
    }

    pub(super) fn ask(&self, review: &Review<'_>) -> Result<(), Status> {
        (self.0)(review).map_or(Ok(()), |denial| Err(denial.into_status()))
    }
}
