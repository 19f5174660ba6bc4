//! The rules one by one, and all of them together against random histories and a naive model.

mod absence;
mod attaching;
mod below;
mod catalogs;
mod flooding;
mod foreground;
mod growth;
mod histories;
mod large;
mod listing;
mod members;
mod memory;
mod model;
mod restores;
mod shared_uids;
mod stuck;
mod updates;
mod views;
mod writes;

use std::num::NonZeroU16;
use std::sync::Arc;

use super::testing::world::{Obj, catalog, resource};
use super::*;
use crate::object::{HashSeed, ResourceVersion};

/// A partition with a synced monitor of ConfigMaps, without the consistency checks after each step.
struct Bed {
    partition: Partition,
    out: Effects,
}

impl Bed {
    fn new(id: PartitionId) -> Self {
        let sharding = Sharding::new(NonZeroU16::MIN, HashSeed::new(5));
        let mut partition = Partition::new(id, sharding, Arc::clone(catalog()));
        let out = Effects::default();
        let (resource, epoch, deletes_prove) = (resource("configmaps"), Epoch(1), DeletesProve::Absence);
        partition.monitor_started(&resource, epoch, deletes_prove);
        let mut bed = Self { partition, out };
        bed.events(&[
            WatchEvent::Init { resource_version: None },
            WatchEvent::InitDone { resource_version: ResourceVersion::parse("1") },
        ]);
        bed
    }

    fn events(&mut self, events: &[WatchEvent]) {
        self.partition.apply_events(&resource("configmaps"), Epoch(1), events, &mut self.out);
    }

    fn see(&mut self, object: &Obj) {
        self.events(&[WatchEvent::Apply(object.facts.clone())]);
    }
}
