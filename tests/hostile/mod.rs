//! What one tenant, one webhook, one restored store or one client of the health port
//! may do to the others: `docs/security.md` says which limits these scenarios show.
//!
//! Where it matters the collector runs behind a [proxy](kube_gc_testkit::proxy). They count
//! requests, lines and bytes, and compare with a quiet run beside; they do not compare with a
//! clock.

mod discovery;
mod fat;
mod flooding;
mod idle;
mod late_looks;
mod outage;
mod restore;
mod webhook;

use kube_gc_testkit::harness::Module;

/// The scenarios that any API server can play.
pub const ON_ANY_SERVER: &[Module] = &[discovery::SCENARIOS, late_looks::SCENARIOS, restore::SCENARIOS];

/// The scenarios that need a real one.
pub const ON_A_REAL_SERVER: &[Module] =
    &[fat::SCENARIOS, flooding::SCENARIOS, idle::SCENARIOS, outage::SCENARIOS, webhook::SCENARIOS];
