//! Records decisions: a count for each, and a line in the log for each or for many.

mod ended;
mod line;
mod owners;
mod record;
mod summaries;

pub use self::ended::Ended;
pub use self::line::{DecisionLine, DecisionRecorder};
pub use self::owners::LoggedOwners;
pub use self::record::{DecisionObserver, DecisionRecord, JudgedOwner, Occurrence};
pub use self::summaries::{DecisionLines, LoggedAs, Summaries};
