//! Admission: a function that may deny, change and delay writes.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use serde_json::{Value, json};

use crate::object::Object;
use crate::resources::ResourceName;
use crate::status::Status;

/// The kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// POST.
    Create,
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
    /// The stored object. Of a creation, the new object, which has its uid and its
    /// `creationTimestamp`.
    pub object: &'a Object,
    /// The state that a creation or an update would write.
    pub new: Option<&'a Value>,
}

impl Review<'_> {
    /// The denial of a ValidatingAdmissionPolicy.
    #[must_use]
    pub fn denied_by_policy(&self, policy: &str, binding: &str, message: &str) -> Verdict {
        let why = format!(
            "ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {message}"
        );
        let mut status = Status::forbidden(&self.resource, self.object.name(), &why);
        (status.code, status.reason) = (422, "Invalid");
        status.details.get_or_insert_default()["causes"] = json!([{"message": why}]);
        Verdict::Deny(status)
    }
}

/// The denial of a webhook.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Denial {
    /// The name of the webhook to report.
    pub webhook: String,
    /// The HTTP code; 400 by default.
    pub code: Option<u16>,
    /// The reason, such as `NotFound`; may be empty.
    pub reason: &'static str,
    /// The message.
    pub message: String,
    /// `details`, if any: whatever the webhook says.
    pub details: Option<Value>,
}

impl Denial {
    pub(super) fn into_status(self) -> Status {
        let Self { webhook, code, reason, message, details } = self;
        // A client would not take a success code for a denial.
        let code = code.filter(|code| *code >= 400).unwrap_or(400);
        let why = match (message.as_str(), reason) {
            ("", "") => " without explanation".to_owned(),
            ("", why) | (why, _) => format!(": {why}"),
        };
        let message = format!("admission webhook \"{webhook}\" denied the request{why}");
        Status { details, ..Status::new(code, reason, message) }
    }
}

impl From<Denial> for Verdict {
    fn from(denial: Denial) -> Self {
        Self::Deny(denial.into_status())
    }
}

/// A decision that takes time.
pub type Later = Pin<Box<dyn Future<Output = Verdict> + Send>>;

/// A decision about a write.
pub enum Verdict {
    /// The write takes effect.
    Allow,
    /// It does not.
    Deny(Status),
    /// This state is written in place of [`Review::new`].
    Mutate(Value),
    /// The request waits. Meanwhile the server goes on, so the object may change or its namespace
    /// may end. A creation is not checked against its namespace again; an update or a deletion is
    /// decided again, with a new review if the object has changed.
    Wait(Later),
}

impl fmt::Debug for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow => f.write_str("Allow"),
            Self::Deny(status) => f.debug_tuple("Deny").field(status).finish(),
            Self::Mutate(new) => f.debug_tuple("Mutate").field(new).finish(),
            Self::Wait(_) => f.write_str("Wait"),
        }
    }
}

type Ask = dyn Fn(&Review<'_>) -> Verdict + Send + Sync;

/// The function that decides.
pub struct Admission(Box<Ask>);

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").finish_non_exhaustive()
    }
}

impl Admission {
    /// Uses this function. The server stands still for it, so it must not call the server. The
    /// future of [`Verdict::Wait`] may.
    pub fn new(ask: impl Fn(&Review<'_>) -> Verdict + Send + Sync + 'static) -> Self {
        Self(Box::new(ask))
    }

    pub(super) fn ask(&self, review: &Review<'_>) -> Verdict {
        (self.0)(review)
    }
}

/// The answer of admission: another state to write, or a denial.
type Answered = Result<Option<Value>, Status>;

/// A request that has begun: its number, and what admission has answered about it.
#[derive(Debug, Default)]
pub struct Begun {
    pub(crate) number: u64,
    /// The new object of a creation that had to wait.
    pub(crate) born: Option<Object>,
    /// The objects that admission was asked about, in the states that it was shown.
    answers: Vec<(Object, Answered)>,
}

impl Begun {
    /// A request with this number. The number 0 stands for the server itself.
    pub(crate) fn new(number: u64) -> Self {
        Self { number, ..Self::default() }
    }

    /// Whether the request has waited.
    pub(crate) const fn has_waited(&self) -> bool {
        !self.answers.is_empty()
    }

    /// What admission has answered about this state of this object.
    pub(crate) fn answer(&self, object: &Object) -> Option<Answered> {
        let of = |known: &Object| {
            known.uid() == object.uid() && known.resource_version() == object.resource_version()
        };
        self.answers.iter().find(|(known, _)| of(known)).map(|(_, answer)| answer.clone())
    }
}

/// A question to admission whose answer takes time.
pub(crate) struct Asked {
    pub(crate) operation: Operation,
    pub(crate) object: Object,
    pub(crate) later: Later,
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").field("operation", &self.operation).finish_non_exhaustive()
    }
}

/// A request that waits for admission.
#[derive(Debug)]
pub struct Waiting {
    pub(crate) begun: Begun,
    pub(crate) asked: Asked,
}

impl Waiting {
    /// Waits for the answer. Then the request can be
    /// [resumed](crate::server::Server::resume).
    pub async fn answered(self) -> Begun {
        let Self { mut begun, asked: Asked { operation, object, mut later } } = self;
        let answer = loop {
            match later.await {
                Verdict::Wait(again) => later = again,
                Verdict::Allow => break Ok(None),
                Verdict::Mutate(new) => break Ok(Some(new)),
                Verdict::Deny(status) => break Err(status),
            }
        };
        if operation == Operation::Create {
            begun.born = Some(object.clone());
        }
        begun.answers.push((object, answer));
        begun
    }
}
