//! What the fuzz targets check: one function for each, which panics when the
//! bytes show a fault.
//!
//! `fuzz/` feeds them what libFuzzer comes up with; `tests/fuzz_corpora.rs` feeds
//! them the corpora and mutations of these, on the stable toolchain. They are
//! public for these two alone and promise nothing to anybody else.

pub use crate::api::fuzzing::discovery;
pub use crate::config::fuzzing::config;
pub use kube_gc_decode::fuzzing::{list, list_protobuf, object, watch, watch_protobuf};

/// A target: takes any bytes, panics when they show a fault.
pub type Target = fn(&[u8]);

/// All targets by name; each has its corpus in `fuzz/corpus/`.
pub const TARGETS: [(&str, Target); 7] = [
    ("object", object),
    ("list", list),
    ("list_protobuf", list_protobuf),
    ("watch", watch),
    ("watch_protobuf", watch_protobuf),
    ("discovery", discovery),
    ("config", config),
];
