//! What the benchmarks measure and nobody else outside calls: reading the bodies
//! of lists and watches. Public for `benches/` alone; it promises nothing to
//! anybody else.

pub use kube_gc_decode::benching::{list, watch, watch_protobuf};
