//! A dry run beside the garbage collector of Kubernetes itself: whatever that one does,
//! ours would have done, and nothing else, through all scenarios of the policies.
//!
//! At its end each scenario fails if there was a disagreement or a line in the log that anybody
//! should look at. What kube-controller-manager does not master is named in [`Weakness`].
//!
//! [`Weakness`]: kube_gc_testkit::controller_manager::Weakness

mod alone;
mod restarts;

use kube_gc_testkit::harness::Module;

/// What there is beside the scenarios of the policies.
pub const ALL: &[Module] = &[alone::SCENARIOS, restarts::SCENARIOS];
