//! The manifests of `deploy/` on a real API server, and the collector as they run
//! it: in a file system that holds what its image and its volumes hold, as their
//! user, with their service account.

mod scenes;

mod credentials;
mod manifests;
mod protected;
mod rights;
mod standing;

use kube_gc_testkit::harness::Module;

/// What there is beside the scenarios of the policies, which the plain overlay plays, too.
pub const ALL: &[Module] = &[
    credentials::SCENARIOS,
    manifests::SCENARIOS,
    protected::SCENARIOS,
    rights::SCENARIOS,
    standing::SCENARIOS,
];
