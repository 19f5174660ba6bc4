//! The manifests of `deploy/` on a real API server, and the collector as they run
//! it: in a file system that holds what its image and its volumes hold, as their
//! user, with their service account.

#[path = "../support/mod.rs"]
mod support;

#[path = "../http/client.rs"]
mod client;
mod installation;
mod pod;
mod scenes;

mod credentials;
mod manifests;
mod protected;
mod rights;
