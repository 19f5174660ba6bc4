//! What the integration tests and the benchmarks of this repository use, by module. It promises
//! nothing to anybody else.

#![allow(missing_docs, reason = "each item is documented where it is defined")]

pub mod actors {
    pub use crate::actors::{DiscoverySettings, Placement, on_fatal};
}

pub mod app {
    pub use crate::app::controller::{Controller, ControllerSettings};
}

pub mod api {
    pub use crate::api::{
        Api, ApiSettings, Clock, Deleted, Discovered, Encoding, ErrorClass, Finalizer, FinalizerRemoval,
        HighWater, ListWatch, LookupResult, Patched, References, ReplicaRole, Step, WallClock, WatchProtocol,
        WatchSettings, WatchStart, WriteGate, load_config,
    };
}

pub mod config {
    pub use crate::config::Loader;
}

pub mod http {
    pub use crate::http::{IdleQuery, IdleReport};
}

pub mod introspect {
    pub use crate::introspect::CollectorStatus;
}

#[cfg(feature = "node")]
pub mod node {
    pub use crate::node::{NodeCollector, NodeOptions, PassResult, PodSource, StateFile, now};
}

pub mod worker {
    pub use crate::worker::DecisionLines;
}

pub mod telemetry {
    pub use crate::telemetry::{Exporter, labels, names};
}
