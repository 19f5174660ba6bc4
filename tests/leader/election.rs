//! The history of the Lease, by a watch.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::TryStreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, WatchEvent, WatchParams};
use kube_gc_client::Clock;
use tokio::task::JoinHandle;
use tokio::time::timeout;

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
            timeout(Duration::from_secs(1), self.watching)
                .await??
                .context("the watch of the lease failed")?;
        } else {
            self.watching.abort();
        }
        Ok(terms)
    }
}
