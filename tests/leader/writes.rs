//! The writes of replicas, and whether they were allowed.

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::leader::election::Term;
use crate::leader::replica::Replica;

/// The maximum delay, in microseconds, by which the test may see the release of the Lease later
/// than the next replica. Both see it through a busy server.
const SEEN_WITHIN: u64 = 10_000_000;

/// A write, as logged by the replica that sent it. Times are in microseconds since the start of the
/// machine.
#[derive(Clone, Debug)]
pub struct Write {
    pub by: String,
    pub what: String,
    /// When the gate was asked.
    pub checked: u64,
    /// The deadline of the Lease.
    pub deadline: u64,
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { by, what, checked, deadline } = self;
        write!(f, "{what} by {by} at {checked} µs, until {deadline} µs")
    }
}

impl Write {
    pub fn read(by: &str, line: &Value) -> Result<Self> {
        let micros = |field: &str| -> Result<u64> {
            let seconds = line[field].as_f64().with_context(|| format!("no {field}: {line}"))?;
            Ok(u64::try_from(Duration::try_from_secs_f64(seconds)?.as_micros())?)
        };
        Ok(Self {
            by: by.to_owned(),
            what: format!("{} {}", line["method"], line["path"]),
            checked: micros("checked_seconds")?,
            deadline: micros("deadline_seconds")?,
        })
    }
}

/// Checks the writes of some replicas. Prints their number, and the number of late ones.
pub fn judge(scenario: &str, replicas: &[Vec<Write>], terms: &[Term]) -> Result<()> {
    let mut writes: Vec<&Write> = replicas.iter().flatten().collect();
    writes.sort_by_key(|write| write.checked);
    let late: Vec<_> =
        writes.iter().filter(|write| write.checked >= write.deadline).map(ToString::to_string).collect();
    eprintln!("{scenario}: {} writes, {} of them checked after the deadline", writes.len(), late.len());
    ensure!(late.is_empty(), "after the deadline: {late:?}");
    ensure!(!writes.is_empty(), "nothing was written");

    // According to the Lease: the holder changed after all writes of the previous holder.
    for pair in terms.windows(2) {
        let [before, after] = pair else { continue };
        let Some(holder) = &before.holder else { continue };
        let until = after.seen;
        let again = terms.iter().any(|term| term.seen > until && term.holder.as_ref() == Some(holder));
        let after = writes.iter().find(|write| write.by == *holder && write.checked >= until && !again);
        ensure!(
            after.is_none(),
            "the lease had gone on at {until} µs: {}",
            after.map(ToString::to_string).unwrap_or_default()
        );
    }
    // According to the writes: a replica starts after the term of the other one ended or was
    // released.
    for pair in writes.windows(2) {
        let [one, other] = pair else { continue };
        let is = |term: &Term, write: &Write| term.holder.as_ref() == Some(&write.by);
        let given_back = terms.windows(3).any(|terms| {
            let [before, nobody, after] = terms else { return false };
            let in_turn = is(before, one) && nobody.holder.is_none() && is(after, other);
            in_turn && nobody.seen <= other.checked + SEEN_WITHIN
        });
        ensure!(one.by == other.by || given_back || one.deadline <= other.checked, "{one}, and then {other}");
    }
    Ok(())
}

/// All writes of these replicas so far.
pub fn of(replicas: &[&Replica]) -> Result<Vec<Vec<Write>>> {
    replicas.iter().map(|replica| replica.writes()).collect()
}
