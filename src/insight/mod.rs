//! Where the answers of `kube-gc tree`, `explain`, `check`, `plan` and `stuck` come from: lists and
//! reads of the API server. The rules are in `crates/core/src/insight`. Nothing here writes.

mod answer;
mod check;
mod error;
mod glob;
mod lists;
mod object;
mod plan;
mod session;
mod stuck;

pub use answer::{ExplainAnswer, NodeExtra, TreeAnswer, TreeQuery};
pub use check::{CheckAnswer, CheckQuery};
pub use error::InsightError;
pub use glob::TypeFilter;
pub use lists::Watcher;
pub use object::ObjectArgument;
pub use plan::{PlanAnswer, PlanArgument};
pub use session::Session;
pub use stuck::{StuckAnswer, StuckQuery};
