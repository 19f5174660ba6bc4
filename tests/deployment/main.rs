//! The manifests of `deploy/` on a real API server, and the collector as they run
//! it: in a file system that holds what its image and its volumes hold, as their
//! user, with their service account.
//!
//! Under the plain overlay it plays the scenarios of all policies: those of the conformance
//! tests. That it is started in its pod there, and by no kubeconfig, is decided by this
//! binary's name.

// Shared with the conformance tests, which use more of it.
#[path = "../conformance/outcome.rs"]
#[allow(dead_code)]
mod outcome;
#[path = "../conformance/policies.rs"]
mod policies;
#[path = "../conformance/policies_foreground.rs"]
mod policies_foreground;
#[path = "../conformance/policies_orphan.rs"]
mod policies_orphan;
#[path = "../conformance/restart.rs"]
mod restart;
#[path = "../conformance/stage.rs"]
#[allow(dead_code)]
mod stage;

#[path = "../http/client.rs"]
mod client;
mod scenes;

mod credentials;
mod manifests;
mod protected;
mod rights;
mod standing;
