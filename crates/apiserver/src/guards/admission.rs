//! Who is asked about writes, and how a no is told.

use std::fmt;

use crate::object::Object;
use crate::resources::ResourceName;
use crate::status::Status;

/// What is about to happen to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It takes another state, or goes because the last finalizer does: PUT, PATCH.
    Update,
    /// It goes, or begins to: DELETE, of one or of a collection.
    Delete,
}

/// A write that is asked about.
#[derive(Clone, Debug)]
pub struct Review<'a> {
    /// What is about to happen.
    pub operation: Operation,
    /// The type, as the request names it.
    pub resource: ResourceName,
    /// `status` or `finalize`, if the request is about that.
    pub subresource: Option<&'a str>,
    /// The object as it is stored.
    pub object: &'a Object,
}

/// A no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The name of the webhook that would have said it.
    pub webhook: String,
    /// The HTTP code; without one it is 400.
    pub code: Option<u16>,
    /// Why not, for people.
    pub message: String,
}

impl Denial {
    pub(super) fn into_status(self) -> Status {
        let Self { webhook, code, message } = self;
        // What is no error would not be taken for a refusal.
        let code = code.filter(|code| *code >= 400).unwrap_or(400);
        let why = if message.is_empty() { " without explanation".to_owned() } else { format!(": {message}") };
        Status::new(code, "", format!("admission webhook \"{webhook}\" denied the request{why}"))
    }
}

type Ask = dyn Fn(&Review<'_>) -> Option<Denial> + Send + Sync;

/// Who is asked.
pub struct Admission(Box<Ask>);

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").finish_non_exhaustive()
    }
}

impl Admission {
    /// Asks this function. The server waits for it, so it must not talk to the server.
    pub fn new(ask: impl Fn(&Review<'_>) -> Option<Denial> + Send + Sync + 'static) -> Self {
        Self(Box::new(ask))
    }

    pub(super) fn ask(&self, review: &Review<'_>) -> Result<(), Status> {
        (self.0)(review).map_or(Ok(()), |denial| Err(denial.into_status()))
    }
}
