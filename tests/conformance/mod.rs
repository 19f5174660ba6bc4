//! The behaviour of the collector as seen by clients of the API server.
//!
//! Some scenarios need features of a real server. The embedded one replaces webhooks and roles by
//! its guards, and emulates an old release that serves Ingresses in two groups.

pub mod outcome;
pub mod stage;
pub mod user;

mod births;
mod brake;
mod counts;
pub mod policies;
mod policies_foreground;
mod policies_orphan;
mod references;
mod references_identity;
mod references_kinds;
mod resources;
mod resources_backend;
mod resources_crd;
mod resources_many;
mod restart;
mod stuck;

use kube_gc_testkit::harness::Module;

/// Dependents under each deletion policy.
pub const POLICIES: &[Module] =
    &[policies::SCENARIOS, policies_foreground::SCENARIOS, policies_orphan::SCENARIOS];

/// The same with a collector that is restarted in the middle.
pub const RESTARTS: &[Module] = &[restart::SCENARIOS];

/// Very many objects or types.
pub const LARGE: &[Module] = &[counts::SCENARIOS, resources_many::SCENARIOS];

/// All other scenarios.
pub const OTHERS: &[Module] = &[
    births::SCENARIOS,
    brake::SCENARIOS,
    references::SCENARIOS,
    references_identity::SCENARIOS,
    references_kinds::SCENARIOS,
    resources::SCENARIOS,
    resources_backend::SCENARIOS,
    resources_crd::SCENARIOS,
    stuck::SCENARIOS,
];
