//! Releases dependents: removes their references to an owner that orphans its dependents.

use std::sync::{Arc, Mutex, PoisonError};

use futures::{Stream, StreamExt as _};
use tokio::sync::Semaphore;

use crate::worker::WorkContext;
use crate::worker::decision::DecisionLine;
use crate::worker::interrupted::Interrupted;
use kube_gc_client::{ErrorClass, HangHook, Patched, References};
use kube_gc_core::graph::ExpectedChange;
use kube_gc_core::object::{Identity, ObjectFacts};

/// How often one dependent is tried before its owner is retried.
const TRIES: u32 = 3;

/// Removes the references of a dependent to an owner. Only the uid of the dependent must be the
/// same, whatever else has changed.
///
/// # Errors
/// When the API server denies the patch or fails. A dependent that is gone is no error.
pub async fn orphan_dependent(
    context: &WorkContext,
    owner: &Identity,
    dependent: &Identity,
    references: &References,
) -> Result<(), Interrupted> {
    let line =
        DecisionLine { owner: Some(owner), ..DecisionLine::new(&context.decisions, dependent, "orphan") };
    let mut tries = 0;
    let patched = loop {
        tries += 1;
        let patched = context.api.remove_references(dependent, references, None).await;
        match &patched {
            Err(error) if error.class == ErrorClass::Conflict && tries < TRIES => {}
            _ => break patched,
        }
    };
    line.finish(&patched);
    if patched.as_ref().is_err_and(|error| error.class == ErrorClass::DryRun) {
        // Treated as done, so that a dry run also decides what follows.
        return Ok(());
    }
    if let Patched::Changed(ObjectFacts { resource_version: Some(version), .. }) = patched? {
        context.graph.expect(&dependent.key(), ExpectedChange::Version(version));
    }
    Ok(())
}

/// Permits for releases. Clones share them.
#[derive(Clone, Debug)]
pub struct Releases {
    permits: Arc<Semaphore>,
    count: usize,
}

impl Releases {
    /// This number of permits for concurrent releases.
    pub fn new(count: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(count)), count }
    }

    /// Releases each dependent as soon as there is a permit. Only the next dependent is taken from
    /// the stream. Owners get permits in turn, so that one with many dependents does not delay
    /// another.
    pub fn each<D, F: Future>(
        &self,
        dependents: impl Stream<Item = D>,
        release: impl Fn(D) -> F,
    ) -> impl Stream<Item = F::Output> {
        dependents
            .then(move |dependent| async move {
                (Arc::clone(&self.permits).acquire_owned().await.ok(), dependent)
            })
            .map(move |(permit, dependent)| {
                // Given back when the request hangs, or else when it has ended.
                let permit = Arc::new(Mutex::new(permit));
                let shared = Arc::clone(&permit);
                let give_back = move || drop(shared.lock().unwrap_or_else(PoisonError::into_inner).take());
                let release = HangHook::scope(give_back, release(dependent));
                async move {
                    let released = release.await;
                    drop(permit);
                    released
                }
            })
            .buffer_unordered(self.count)
    }
}
