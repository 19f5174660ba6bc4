//! What passes could not remove, so that it comes last.

use std::collections::HashSet;

use super::{Plan, What};
use crate::pass::{Outcome, Record};

/// What earlier passes could not remove, or what is listed although the runtime has said that it is gone. It comes
/// last, so that it starves nothing else.
#[derive(Clone, Debug, Default)]
pub struct Tried(HashSet<(What, String)>);

impl Tried {
    /// Enters what came of a pass, and forgets what its plan no longer found.
    pub fn update(&mut self, plan: &Plan, records: &[Record]) {
        let failed = |record: &&Record| matches!(record.outcome, Outcome::Failed(_));
        let new =
            records.iter().filter(failed).map(|Record { candidate, .. }| (candidate.what(), candidate.id()));
        let known = plan.entries.iter().map(|entry| (entry.what, entry.id.as_str()));
        let known = known.filter(|(what, id)| self.has_failed(*what, id));
        self.0 = known.chain(new).map(|(what, id)| (what, id.to_owned())).collect();
    }

    /// Whether an earlier pass could not remove this.
    pub fn has_failed(&self, what: What, id: &str) -> bool {
        // Usually there is nothing in it, and nothing to copy then.
        !self.0.is_empty() && self.0.contains(&(what, id.to_owned()))
    }
}
