//! The rules of the mailbox one by one, a naive model, and fairness.

mod fairness;
mod model;
mod rules;

use std::sync::Arc;

use super::{Backoff, Completion, FlowKey, Mailbox, Time};
use crate::object::{HashSeed, Namespace};

/// A key of a namespace, or cluster-scoped.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TestKey {
    pub(super) namespace: Option<Namespace>,
    pub(super) number: u32,
}

impl FlowKey for TestKey {
    fn flow(&self) -> Option<&Namespace> {
        self.namespace.as_ref()
    }
}

/// Key `number` of a namespace. The empty namespace stands for cluster-scoped keys.
pub(super) fn key(namespace: &str, number: u32) -> TestKey {
    TestKey { namespace: Namespace::parse(namespace), number }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    Failed,
    Parked,
}

pub(super) type TestMailbox = Mailbox<TestKey, Reason>;

pub(super) fn mailbox() -> TestMailbox {
    Mailbox::new(Backoff::default(), HashSeed::new(1))
}

pub(super) const fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

pub(super) fn retry(reason: Reason) -> Completion<Reason> {
    Completion::Retry { reason, error: Arc::from("it failed") }
}

pub(super) fn park(reason: Reason) -> Completion<Reason> {
    Completion::Park { at_most: std::time::Duration::MAX, reason, error: Arc::from("it waits") }
}

pub(super) fn defer(millis: u64) -> Completion<Reason> {
    Completion::Defer {
        after: std::time::Duration::from_millis(millis),
        reason: Reason::Parked,
        error: Arc::from("another one failed"),
    }
}

pub(super) fn retry_after(millis: u64) -> Completion<Reason> {
    Completion::RetryAfter {
        after: std::time::Duration::from_millis(millis),
        reason: Reason::Failed,
        error: Arc::from("too many requests"),
    }
}
