//! The conformance scenarios of `main.rs`, against the embedded server.
//!
//! All of them. What it has in place of a real server's means: for webhooks and roles
//! its guards, for an old release that serves Ingresses in two groups itself as one.

mod outcome;
mod stage;
mod user;

mod brake;
mod cluster_scoped;
mod counts;
mod denials;
mod policies;
mod policies_foreground;
mod policies_orphan;
mod references;
mod references_aliases;
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
mod resources_webhook;
mod restart;
mod stuck;
