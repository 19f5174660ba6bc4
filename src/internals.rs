//! What the integration tests of this repository use of the binary's own modules. It promises nothing
//! to anybody else.

#![allow(missing_docs, reason = "each item is documented where it is defined")]

pub mod app {
    pub use crate::app::controller::{Controller, Setup};
}

pub mod introspect {
    pub use crate::introspect::{CollectorStatus, IdleQuery, IdleReport};
}

#[cfg(feature = "node")]
pub mod node {
    pub use crate::node::{NodeCollector, PassResult, PodSource, now};
}
