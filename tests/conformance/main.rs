//! What a collector must do, seen from outside: the scenarios of references
//! and resources.

#[path = "../support/mod.rs"]
mod support;

mod cluster_scoped;
mod etcd;
mod references;
mod references_churn;
mod references_identity;
mod references_kinds;
mod resources;
mod resources_crd;
mod stage;
