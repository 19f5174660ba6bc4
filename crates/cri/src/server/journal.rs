//! What was asked.

use tonic::Code;

use crate::{ApiVersion, Rpc};

/// A call that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The call.
    pub rpc: Rpc,
    /// The version of the interface that it came by.
    pub api: ApiVersion,
    /// The id or name that it was about; empty for lists.
    pub about: String,
    /// What came of it: nothing yet for a call that hangs, or whose connection ended before the answer.
    pub outcome: Option<Code>,
}
