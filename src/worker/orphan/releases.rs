//! Limits how many dependents are released at a time, over all owners.

use std::sync::{Arc, Mutex, PoisonError};

use futures::{Stream, StreamExt as _};
use tokio::sync::Semaphore;

use crate::api::HangHook;

/// Permits for releases. Clones share them.
#[derive(Clone, Debug)]
pub struct Releases {
    permits: Arc<Semaphore>,
    count: usize,
}

impl Releases {
    /// This number of permits for concurrent releases.
    #[must_use]
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

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use futures::stream;
    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn owners_share_the_patch_slots_and_take_turns() {
        let releases = Releases::new(4);
        let (under_way, most, order) = (Cell::new(0), Cell::new(0), RefCell::new(Vec::new()));
        let release = async |owner: char| {
            under_way.set(under_way.get() + 1);
            most.set(most.get().max(under_way.get()));
            yield_now().await;
            under_way.set(under_way.get() - 1);
            order.borrow_mut().push(owner);
        };
        let of = |owner, count| releases.each(stream::iter(vec![owner; count]), &release).collect::<Vec<_>>();
        let (many, few) = tokio::join!(of('m', 1000), of('f', 10));
        assert_eq!((many.len(), few.len(), most.get()), (1000, 10, 4));
        let last = order.borrow().iter().rposition(|owner| *owner == 'f').expect("it was released");
        assert!(last < 100, "the few waited for {last}");
    }

    #[tokio::test]
    async fn a_cancelled_owner_returns_its_patch_slots() {
        let releases = Releases::new(2);
        let taken = Cell::new(0);
        let dependents = stream::iter(0..100).inspect(|_| taken.set(taken.get() + 1));
        let mut hanging = Box::pin(releases.each(dependents, async |_| std::future::pending::<()>().await));
        assert!(futures::poll!(hanging.next()).is_pending());
        assert!(taken.get() <= 3, "{} were taken for two places", taken.get());
        let mut waiting = Box::pin(releases.each(stream::iter([()]), async |()| ()));
        assert!(futures::poll!(waiting.next()).is_pending());
        drop(hanging);
        assert_eq!(waiting.next().await, Some(()));
    }
}
