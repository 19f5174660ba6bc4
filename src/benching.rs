//! Reads the body of a list as the collector does, for the test of the memory of the graph. It
//! promises nothing to anybody else.

pub use kube_gc_decode::benching::list;
