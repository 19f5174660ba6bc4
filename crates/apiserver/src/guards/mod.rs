//! Refusals, for tests and simulations: what a real server leaves to its webhooks
//! and its roles.
//!
//! By itself this server knows neither admission nor authorization: everybody may do
//! everything. Where it matters what a client makes of a refusal, two guards can be
//! put in its way, in the places where a real server has them:
//!
//! - [`Embedded::admit_by`]: a function that is asked about each update, patch and
//!   deletion when everything else speaks for it, also if that is only tried. It
//!   stands in for validating webhooks. Nobody reads webhook configurations here,
//!   nothing is sent anywhere, nothing is mutated, and creations are not asked about.
//! - [`Embedded::restrict`]: who shows a token is a certain user, and may do no more
//!   to objects than the stored ClusterRoles say that stored ClusterRoleBindings bind
//!   to that user. It stands in for RBAC. There are no groups, no Roles, no roles that
//!   every server has and none that are aggregated; other tokens, or none, may do
//!   everything, and so may everybody outside of objects: discovery, health, metrics.
//! - [`Embedded::convert_by`]: a function that is asked whenever an object of a custom
//!   resource with a conversion webhook is needed in another version than it is stored
//!   in. It stands in for those webhooks, which can not be reached otherwise.
//!
//! What the server does by itself is never refused. While no guard is set, nobody
//! looks at any of this.

mod admission;
mod conversion;
mod roles;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::Embedded;
use super::call::{Call, Target};
use super::dispatch::Verb;
use super::server::Server;
use super::status::Status;

pub use admission::{Admission, Denial, Operation, Review};
pub use conversion::Conversion;

/// The guards that are set: none, usually.
#[derive(Debug, Default)]
pub struct Guards {
    /// Who is asked about writes.
    pub admission: Option<Admission>,
    /// By token, the users that roles hold for.
    pub users: BTreeMap<Box<str>, Box<str>>,
    /// Who converts custom resources.
    pub conversion: Option<Conversion>,
}

impl Embedded {
    /// From now on this is asked about writes, or nobody is.
    pub fn admit_by(&self, admission: Option<Admission>) {
        self.with(|server| server.guards.admission = admission);
    }

    /// From now on this converts custom resources, or nobody does.
    pub fn convert_by(&self, conversion: Option<Conversion>) {
        self.with(|server| server.guards.conversion = conversion);
    }

    /// From now on who shows this bearer token is this user, who may do what stored
    /// roles allow. A service account is the user `system:serviceaccount:NAMESPACE:NAME`.
    pub fn restrict(&self, token: &str, user: &str) {
        self.with(|server| server.guards.users.insert(token.into(), user.into()));
    }
}

/// Refuses what the roles of the caller do not allow.
pub(super) fn authorize(server: &Server, call: &Call) -> Result<(), Status> {
    let Some(user) = server.guards.users.get(&*call.token) else { return Ok(()) };
    let Target::Objects(path) = call.target() else { return Ok(()) };
    // What no verb stands for is refused elsewhere.
    let Some(verb) = Verb::asked(call, path) else { return Ok(()) };
    roles::check(&server.store, user, verb, path)
}

/// Has an object converted by the webhook at this address.
pub(super) fn convert(server: &Server, webhook: &str) -> Result<(), String> {
    match &server.guards.conversion {
        Some(conversion) => conversion.ask(),
        None => Err(format!("Post \"{webhook}?timeout=30s\": connection refused")),
    }
}

/// Refuses what whoever is asked about writes says no to.
pub(super) fn admit<'a>(server: &Server, review: impl FnOnce() -> Review<'a>) -> Result<(), Status> {
    let Some(admission) = &server.guards.admission else { return Ok(()) };
    admission.ask(&review())
}
