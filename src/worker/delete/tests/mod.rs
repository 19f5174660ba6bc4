//! What the world looks like when a request leaves, rather than when it was decided on.

mod aggregated;
mod last_look;
mod namespaces;
mod scene;
