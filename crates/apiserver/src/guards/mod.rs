//! Guards, for tests and simulations: the parts that a real server leaves to webhooks and roles.
//!
//! By default, this server has neither admission nor authorization. To test how a client handles a
//! rejection, set one of these guards:
//!
//! - [`ApiServer::admit_by`](super::ApiServer::admit_by): a function that may deny each update, patch and
//!   deletion that would otherwise succeed, also in a dry run. It
//!   stands in for validating webhooks. The server reads no webhook configurations,
//!   sends no requests, mutates nothing, and does not ask about creations.
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

use super::call::{Call, Target, Verb};
use super::status::Status;
use super::store::Store;

pub use admission::{Admission, Denial, Operation, Review};
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

    /// Rejects writes that the admission function denies.
    pub(super) fn admit<'a>(&self, review: impl FnOnce() -> Review<'a>) -> Result<(), Status> {
        let Some(admission) = &self.admission else { return Ok(()) };
        admission.ask(&review())
    }
}
