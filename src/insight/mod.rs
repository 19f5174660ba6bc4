//! Where the answers of `kube-gc tree`, `explain`, `check`, `plan` and `stuck` come from: lists and
//! reads of the API server, or a running collector. The rules are in `crates/insight`.
//! Nothing here writes.

mod answer;
mod check;
mod collector;
mod error;
mod glob;
mod lists;
mod object;
mod of_collector;
mod plan;
#[cfg(test)]
mod schemas;
mod selection;
mod session;
mod source;
mod standing;
mod stuck;
mod watch;

pub use answer::{ExplainAnswer, Hidden, NodeExtra, TreeAnswer, TreeQuery};
pub use check::{CheckAnswer, CheckQuery};
pub use collector::{Collector, CollectorError, Credentials, Decision, Stuck};
pub use error::InsightError;
pub use glob::TypeFilter;
pub use lists::Watcher;
pub use object::ObjectArgument;
pub use plan::{PlanAnswer, PlanArgument};
pub use session::Session;
pub use source::{From, Source, SourceChoice};
pub use stuck::{StuckAnswer, StuckQuery};
