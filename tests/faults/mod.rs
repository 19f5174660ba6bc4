//! The behaviour of the collector when the API server rejects requests, fails, or is late, and when
//! clients change objects between a decision and its effect. Also the limits to the harm that one tenant,
//! one webhook or one client of a listener can do, which `docs/security.md` lists.
//!
//! Each scenario puts a [proxy](kube_gc_testkit::proxy) between the collector and the API server.
//! With it, a scenario sees every request, and holds or changes selected ones. Scenarios wait for
//! conditions, never for time, and count requests, lines and bytes.

mod absence;
mod answers;
mod conflicts;
mod discovery;
mod fat;
mod foreground;
mod hanging;
mod idle;
mod orphans;
mod outages;
mod patches;
mod preconditions;
mod refusals;
pub mod restore;
pub mod stage;
mod startup;
mod streaming;
mod unreachable;
mod watches;
mod webhook;

use kube_gc_testkit::harness::Module;

/// The scenarios for any API server.
pub const ON_ANY_SERVER: &[Module] = &[
    absence::SCENARIOS,
    answers::SCENARIOS,
    conflicts::SCENARIOS,
    discovery::SCENARIOS,
    foreground::SCENARIOS,
    hanging::SCENARIOS,
    orphans::SCENARIOS,
    outages::SCENARIOS,
    patches::SCENARIOS,
    preconditions::SCENARIOS,
    refusals::SCENARIOS,
    restore::SCENARIOS,
    startup::SCENARIOS,
    watches::SCENARIOS,
];

/// The scenarios for a server that streams lists.
pub const ON_A_NEW_SERVER: &[Module] = &[streaming::SCENARIOS];

/// The scenarios that need a real API server. They take minutes, because a tenant sends very much.
pub const HOSTILE: &[Module] = &[fat::SCENARIOS, idle::SCENARIOS, unreachable::SCENARIOS, webhook::SCENARIOS];
