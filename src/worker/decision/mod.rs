//! Records decisions: one log line and one count for each.

mod ended;
mod line;
mod record;

pub use self::ended::Ended;
pub use self::line::{DecisionLine, DecisionRecorder};
pub use self::record::{DecisionObserver, DecisionRecord, JudgedOwner};
