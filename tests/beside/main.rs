//! A dry run beside the garbage collector of Kubernetes itself: whatever that one does,
//! ours would have done, and nothing else, through all scenarios of the policies.

#[path = "../support/mod.rs"]
mod support;

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
