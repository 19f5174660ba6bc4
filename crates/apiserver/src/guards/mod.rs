//! Guards, for tests and simulations: the parts that a real server leaves to webhooks and roles.
//!
//! By default, this server has neither admission nor authorization. To test how a client handles a
//! rejection, set one of these guards:
//!
//! - [`ApiServer::admit_by`](super::ApiServer::admit_by): a function that may deny, change or delay each
//!   creation, update, patch and deletion that would otherwise succeed, also in a dry run. It
//!   stands in for webhooks and policies. The server reads no webhook configurations and
//!   sends no requests.
//! - [`ApiServer::restrict`](super::ApiServer::restrict): a bearer token identifies a user, whose access to objects is
//!   limited to the stored ClusterRoles that stored ClusterRoleBindings bind
//!   to the user. It stands in for RBAC, without groups, Roles, default roles and
//!   aggregated roles. Requests with another token or without one are not limited, nor are
//!   requests for discovery, health and metrics.
//! - [`ApiServer::convert_by`](super::ApiServer::convert_by): a function that is called whenever an object of a custom
//!   resource with a conversion webhook is needed in another version than the stored one.
//!   It stands in for those webhooks. Without it, they count as unreachable.
//!
//! Guards do not apply to the server's own writes.

mod admission;
mod conversion;
mod roles;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::Value;

use super::call::{Call, Target, Verb};
use super::status::Status;
use super::store::Store;

pub(crate) use admission::Asked;
pub use admission::{Admission, Begun, Denial, Later, Operation, Review, Verdict, Waiting};
pub use conversion::Conversion;

/// The guards that are set.
#[derive(Debug, Default)]
pub struct Guards {
    /// The admission function.
    pub admission: Option<Admission>,
    /// The restricted users, by token.
    pub users: BTreeMap<Box<str>, Box<str>>,
    /// The conversion function.
    pub conversion: Option<Conversion>,
    /// What the request in progress asks admission and must wait for.
    pub(crate) asked: Option<Asked>,
}

impl Guards {
    /// Rejects what the roles of the caller do not allow.
    pub(super) fn authorize(&self, store: &Store, call: &Call) -> Result<(), Status> {
        let Some(user) = self.users.get(&*call.token) else { return Ok(()) };
        let Target::Objects(path) = call.target() else { return Ok(()) };
        // Requests without a verb are rejected elsewhere.
        let Some(verb) = Verb::asked(call, path) else { return Ok(()) };
        roles::check(store, user, verb, path)
    }

    /// Converts an object by the webhook at this address.
    pub(super) fn convert(&self, webhook: &str) -> Result<(), String> {
        match &self.conversion {
            Some(conversion) => conversion.ask(),
            None => Err(format!("Post \"{webhook}?timeout=30s\": connection refused")),
        }
    }

    /// Asks the admission function about a write. Returns the state that it wants to be written, if
    /// it wants another. The error may mean that the request must wait: see
    /// [`asked`](Self::asked).
    pub(super) fn admit(&mut self, review: &Review<'_>) -> Result<Option<Value>, Status> {
        match self.admission.as_ref().map_or(Verdict::Allow, |admission| admission.ask(review)) {
            Verdict::Allow => Ok(None),
            Verdict::Mutate(new) => Ok(Some(new)),
            Verdict::Deny(status) => Err(status),
            Verdict::Wait(later) => {
                let (operation, object) = (review.operation, review.object.clone());
                self.asked = Some(Asked { operation, object, later });
                Err(Status::unnamed("the request waits for admission"))
            }
        }
    }
}
