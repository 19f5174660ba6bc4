//! The limits are exact.

mod lease;
mod naive;
mod rules;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::{DeletionResult, Ledger, Limits, Refusal, Share, Ticket};
use crate::object::{GroupResource, Identity, Namespace, ResourceType, Uid, config_map};

const SECOND: Duration = Duration::from_secs(1);
const AT: SystemTime = SystemTime::UNIX_EPOCH;

fn rate(limit: u32) -> Limits {
    Limits { per_minute: NonZeroU32::new(limit), ..Limits::default() }
}

fn share(percent: u32, window: Duration, floor: u32) -> Limits {
    let share = NonZeroU32::new(percent).map(|percent| Share { percent, window, floor });
    Limits { share, ..Limits::default() }
}

/// An object of a type in a namespace.
fn object(resource: &str, namespace: &str, number: usize) -> Identity {
    let object = config_map(namespace, "x", "u");
    let group_resource = GroupResource::parse(resource);
    let resource = Arc::new(ResourceType { group_resource, ..ResourceType::clone(&object.resource) });
    Identity { resource, uid: Uid::parse(&format!("uid-{number}")).unwrap(), ..object }
}

fn pod(number: usize) -> Identity {
    object("pods", "", number)
}

impl Ledger {
    fn begin(&mut self, object: &Identity, population: u64, now: Duration) -> Result<Ticket, Refusal> {
        self.admit(object, population, (now, AT))
    }

    /// Deletes one object.
    fn delete(&mut self, object: &Identity, population: u64, now: Duration) -> Result<(), Refusal> {
        let ticket = self.begin(object, population, now)?;
        self.settle(ticket, DeletionResult::TookEffect, now);
        Ok(())
    }

    fn is_engaged(&self) -> bool {
        self.engaged().contains_key(&None)
    }
}

/// Why the brake engages.
fn reason<T>(answer: Result<T, Refusal>) -> String {
    match answer {
        Err(Refusal::Engages { why, .. }) => why,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it was admitted"),
    }
}
