//! A dry run beside the garbage collector of Kubernetes itself: whatever that one does,
//! ours would have done, and nothing else, through all scenarios of the policies.
//!
//! They are those of the conformance tests. That kube-controller-manager does the work, and
//! our binary only looks on, is decided by this binary's name. At its end each scenario
//! fails if there was a disagreement or a line in the log that anybody should look at. What
//! kube-controller-manager does not master is named in [`Weakness`].
//!
//! [`Weakness`]: kube_gc_testkit::controller_manager::Weakness

// Shared with the conformance tests, which use more of it.
#[path = "../conformance/outcome.rs"]
#[allow(dead_code)]
mod outcome;
#[path = "../conformance/policies.rs"]
mod policies;
#[path = "../conformance/policies_foreground.rs"]
mod policies_foreground;
#[path = "../conformance/policies_orphan.rs"]
mod policies_orphan;
#[path = "../conformance/stage.rs"]
#[allow(dead_code)]
mod stage;

mod alone;
mod restarts;
