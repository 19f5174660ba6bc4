//! The tests of `main.rs`, against the embedded server. Left out:
//!
//! - `inflight`: what is wrong there is a limit that kube-apiserver is started with.

mod absence;
mod bookmarks;
mod conflicts;
mod discovery;
#[path = "../hostile/discovery.rs"]
mod discovery_omits;
mod disorder;
mod foreground;
mod hanging;
#[path = "../hostile/late_looks.rs"]
mod late_looks;
mod orphan_late;
mod orphan_many;
mod orphan_rounds;
mod outages;
mod patches;
mod preconditions;
mod races;
mod refusals;
mod restore;
#[path = "../hostile/restore.rs"]
mod restore_raised;
mod stage;
mod startup;
mod throttling;
mod watches;
