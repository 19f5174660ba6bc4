//! Faults on purpose.

use std::fmt;
use std::time::Duration;

use tonic::{Code, Status};

use super::world::World;
use crate::Rpc;

/// Changes the world; gets what the call is about.
pub type Change = Box<dyn FnMut(&mut World, &str) + Send>;

/// Something that goes wrong with calls of one kind.
#[derive(Debug)]
pub struct Fault {
    /// The calls.
    pub rpc: Rpc,
    /// Only those about this id or name.
    pub about: Option<String>,
    /// Only this one of them, counted from 1.
    pub nth: Option<usize>,
    /// What goes wrong.
    pub effect: Effect,
}

/// What goes wrong.
pub enum Effect {
    /// The call is never answered, and never carried out.
    Hang,
    /// The call is refused.
    Fail(Code, String),
    /// Something else happens right before the call.
    Before(Change),
    /// The server restarts before it answers.
    Restart {
        /// Whether the call was carried out.
        done: bool,
        /// How long nothing listens.
        down: Duration,
    },
}

impl Fault {
    /// A fault of all calls of a kind.
    pub fn every(rpc: Rpc, effect: Effect) -> Self {
        Self { rpc, about: None, nth: None, effect }
    }

    /// A fault of one call of a kind, counted from 1.
    pub fn nth(rpc: Rpc, number: usize, effect: Effect) -> Self {
        Self { rpc, about: None, nth: Some(number), effect }
    }

    /// A fault of the calls of a kind about one id or name.
    pub fn about(rpc: Rpc, about: &str, effect: Effect) -> Self {
        Self { rpc, about: Some(about.to_owned()), nth: None, effect }
    }
}

impl Effect {
    /// Something else happens right before the call.
    pub fn before(change: impl FnMut(&mut World, &str) + Send + 'static) -> Self {
        Self::Before(Box::new(change))
    }
}

impl fmt::Debug for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Effect")
    }
}

/// A fault, and how many calls have fitted so far.
#[derive(Debug)]
pub(super) struct Armed {
    pub(super) fault: Fault,
    pub(super) seen: usize,
}

/// What happens to one call: the effects of all faults together.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) hangs: bool,
    pub(super) fails: Option<Status>,
    pub(super) restart: Option<(bool, Duration)>,
}

/// Counts a call, makes the changes that come before it, and says what else happens to it.
pub(super) fn before(faults: &mut [Armed], world: &mut World, rpc: Rpc, about: &str) -> Plan {
    let mut plan = Plan::default();
    for Armed { fault, seen } in faults {
        if fault.rpc != rpc || fault.about.as_deref().is_some_and(|only| only != about) {
            continue;
        }
        *seen += 1;
        if fault.nth.is_some_and(|number| number != *seen) {
            continue;
        }
        match &mut fault.effect {
            Effect::Hang => plan.hangs = true,
            Effect::Fail(code, message) => plan.fails = Some(Status::new(*code, message.as_str())),
            Effect::Before(change) => change(world, about),
            Effect::Restart { done, down } => plan.restart = Some((*done, *down)),
        }
    }
    plan
}
