//! The history of the Lease, by a watch, and whether the writes of replicas were allowed.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::TryStreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, WatchEvent, WatchParams};
use kube_gc_client::Clock;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::leader::replica::Stage;
use kube_gc_testkit::cluster::poll;

/// A holder of the Lease, and when it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// `None` if the Lease was released.
    pub holder: Option<String>,
    /// When this was seen, in microseconds since the start of the machine: a little after it
    /// happened.
    pub seen: u64,
}

/// Watches the lease of a stage.
pub struct Election {
    terms: Arc<Mutex<Vec<Term>>>,
    watching: JoinHandle<Result<()>>,
}

impl Election {
    pub fn watch(stage: &Stage) -> Self {
        let leases: Api<Lease> = Api::namespaced(stage.cluster.client().clone(), stage.ns.name());
        let terms: Arc<Mutex<Vec<Term>>> = Arc::default();
        let known = Arc::clone(&terms);
        let watching = tokio::spawn(async move {
            let events = leases.watch(&WatchParams::default().timeout(280), "0").await?;
            let mut events = pin!(events);
            while let Some(event) = events.try_next().await? {
                let (WatchEvent::Added(lease) | WatchEvent::Modified(lease)) = event else { continue };
                let holder = lease.spec.and_then(|spec| spec.holder_identity);
                // The name that the test chose, without the random part.
                let holder = holder.map(|holder| holder.split('_').next().unwrap_or_default().to_owned());
                let seen = u64::try_from(Clock::Boot.now().as_micros())?;
                let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                if known.last().is_none_or(|last| last.holder != holder) {
                    known.push(Term { holder, seen });
                }
            }
            Ok(())
        });
        Self { terms, watching }
    }

    /// The terms so far.
    pub fn terms(&self) -> Vec<Term> {
        self.terms.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Fails unless these held the Lease, one after another; "-" stands for nobody. The watch shows
    /// it with a short delay.
    pub async fn went_to(&self, expected: &[&str]) -> Result<()> {
        poll("the terms to be shown", async || {
            Ok(self.terms().len() >= expected.len() || self.watching.is_finished())
        })
        .await?;
        let terms = self.terms();
        let holders = terms.iter().map(|term| term.holder.as_deref().unwrap_or("-"));
        ensure!(holders.eq(expected.iter().copied()), "{terms:?}");
        Ok(())
    }

    /// Ends the watch. Returns the error if it had ended before.
    pub async fn end(self) -> Result<Vec<Term>> {
        let terms = self.terms();
        if self.watching.is_finished() {
            self.watching.await?.context("the watch of the lease failed")?;
        } else {
            self.watching.abort();
        }
        Ok(terms)
    }
}

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

/// Checks the writes of some replicas.
pub fn judge(replicas: &[Vec<Write>], terms: &[Term]) -> Result<()> {
    let mut writes: Vec<&Write> = replicas.iter().flatten().collect();
    writes.sort_by_key(|write| write.checked);
    let late: Vec<_> = writes.iter().filter(|write| write.checked >= write.deadline).collect();
    ensure!(late.is_empty(), "after the deadline: {late:?}");
    ensure!(!writes.is_empty(), "nothing was written");

    // According to the Lease: the holder changed after all writes of the previous holder.
    for pair in terms.windows(2) {
        let [before, after] = pair else { continue };
        let Some(holder) = &before.holder else { continue };
        let until = after.seen;
        let again = terms.iter().any(|term| term.seen > until && term.holder.as_ref() == Some(holder));
        let after = writes.iter().find(|write| write.by == *holder && write.checked >= until && !again);
        ensure!(after.is_none(), "the lease had gone on at {until} µs: {after:?}");
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
        ensure!(
            one.by == other.by || given_back || one.deadline <= other.checked,
            "{one:?}, and then {other:?}"
        );
    }
    Ok(())
}
