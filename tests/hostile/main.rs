//! What one tenant, one webhook, one restored store or one client of the health port
//! may do to the others: `docs/security.md` says which limits these tests show.
//!
//! Each runs the collector against a real API server, where it matters behind a
//! [proxy](kube_gc_testkit::proxy). They count requests, lines and bytes, and compare with a
//! quiet run beside; they do not compare with a clock.

mod discovery;
mod restore;
#[path = "../faults/stage.rs"]
#[allow(dead_code)]
mod stage;

#[path = "../http/client.rs"]
mod client;

mod fat;
mod flooding;
mod idle;
mod late_looks;
mod outage;
mod webhook;
