//! A dry run next to Kubernetes' own garbage collector. In all scenarios of the policies, our
//! collector would have done exactly what that one does.
//!
//! Each scenario fails in the end if there was a disagreement, or a log line that needs attention.
//! [`Weakness`] lists known defects of kube-controller-manager.
//!
//! [`Weakness`]: kube_gc_testkit::controller_manager::Weakness

mod alone;
mod restarts;

use kube_gc_testkit::harness::Module;

/// The scenarios in addition to those of the policies.
pub const ALL: &[Module] = &[alone::SCENARIOS, restarts::SCENARIOS];
