//! Counting calls.

use std::sync::Arc;
use std::time::Duration;

use crate::{Error, Rpc};

/// A call that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    /// The call; [`Rpc::operation`] is the kubelet's `operation_type`.
    pub rpc: Rpc,
    /// What came of it; [`Error::reason`] is a word for a label.
    pub outcome: Result<(), &'a Error>,
    /// How long it took, until the last part of a streamed list.
    pub elapsed: Duration,
}

/// Is told about each call when it has ended. It runs on the caller's task, so it must not block.
pub type Observer = Arc<dyn Fn(&Operation<'_>) + Send + Sync>;
