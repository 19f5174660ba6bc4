//! Limits to the harm that a tenant, a webhook, a restored store or a client of the health port can
//! do. `docs/security.md` lists the limits that these scenarios show.
//!
//! Where necessary, the collector runs behind a [proxy](kube_gc_testkit::proxy). Scenarios count
//! requests, lines and bytes, and compare with a quiet run instead of a clock.

mod discovery;
mod fat;
mod flooding;
mod idle;
mod late_looks;
mod outage;
pub mod restore;
mod walk;
mod webhook;

use kube_gc_testkit::harness::Module;

/// The scenarios for any API server.
pub const ON_ANY_SERVER: &[Module] = &[discovery::SCENARIOS, late_looks::SCENARIOS, restore::SCENARIOS];

/// The scenarios that need a real API server.
pub const ON_A_REAL_SERVER: &[Module] =
    &[fat::SCENARIOS, flooding::SCENARIOS, idle::SCENARIOS, outage::SCENARIOS, webhook::SCENARIOS];
