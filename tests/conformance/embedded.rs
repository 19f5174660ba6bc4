//! The conformance scenarios of `main.rs`, against the embedded server.
//!
//! Not all can be played on it. Of those in `main.rs` these are left out:
//!
//! - `denials`: needs admission webhooks and roles; the embedded server lets
//!   everybody do everything.
//! - `references_aliases`: needs a release that serves Ingresses in two groups; the
//!   embedded server shows itself as a newer one here.
//! - `resources_webhook`: needs a conversion webhook that works at times; the embedded
//!   server calls none.

#[path = "../support/mod.rs"]
mod support;

mod outcome;
mod stage;

mod cluster_scoped;
mod counts;
mod policies;
mod policies_foreground;
mod policies_orphan;
mod references;
mod references_churn;
mod references_identity;
mod references_kinds;
mod references_races;
mod resources;
mod resources_aggregated;
mod resources_backend;
mod resources_broken;
mod resources_crd;
mod resources_many;
mod restart;
