//! The manifests of `deploy/` on a real API server, and the collector as they run it: with a file
//! system that has only the content of its image and volumes, as their user, and with their service
//! account.

mod scenes;

mod credentials;
mod finish_namespaces;
mod manifests;
mod node;
mod node_run;
mod protected;
mod rights;
mod small;

use kube_gc_testkit::harness::Module;

/// The scenarios in addition to those of the policies, which the plain overlay also runs.
pub const ALL: &[Module] = &[
    credentials::SCENARIOS,
    finish_namespaces::SCENARIOS,
    manifests::SCENARIOS,
    node::SCENARIOS,
    node_run::SCENARIOS,
    protected::SCENARIOS,
    rights::SCENARIOS,
    small::SCENARIOS,
];
