//! What a client of the API server sees of the collector: the conformance
//! scenarios, each against a real control plane, the collector being the real
//! binary.

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
