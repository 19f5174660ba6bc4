//! The rules of the mailbox one by one, and a naive model.

mod model;
mod rules;

use super::{Backoff, Completion, Mailbox, Time, Wait};
use crate::object::{HashSeed, Key, Namespace, config_map};

/// Key `number` of a namespace. The empty namespace stands for cluster-scoped keys.
pub(super) fn key(namespace: &str, number: u32) -> Key {
    config_map(namespace, "x", &number.to_string()).key()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    Failed,
    Parked,
}

pub(super) type TestMailbox = Mailbox<Reason>;

pub(super) fn mailbox() -> TestMailbox {
    Mailbox::new(Backoff::default(), HashSeed::new(1))
}

pub(super) const fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

pub(super) fn retry(reason: Reason) -> Completion<Reason> {
    Completion::retry(reason, "it failed")
}

pub(super) fn park(reason: Reason) -> Completion<Reason> {
    Completion::later(reason, Wait::Woken(Time::MAX), "it waits")
}

pub(super) fn defer(millis: u64) -> Completion<Reason> {
    Completion::later(Reason::Parked, Wait::Untried(at(millis)), "another one failed")
}

pub(super) fn retry_after(millis: u64) -> Completion<Reason> {
    Completion::later(Reason::Failed, Wait::RetryAfter(at(millis)), "too many requests")
}
