//! Records decisions: one log line and one count for each.

mod ended;
mod line;
mod owners;
mod record;

pub use self::ended::Ended;
pub use self::line::{DecisionLine, DecisionRecorder};
pub use self::owners::{LoggedOwners, owner_reference};
pub use self::record::{DecisionObserver, DecisionRecord, Heard, JudgedOwner};
