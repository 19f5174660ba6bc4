//! How a worker hears that the request it waits for hangs.

use std::sync::Arc;

type Act = Arc<dyn Fn() + Send + Sync>;

tokio::task_local! {
    static ACT: Act;
}

/// What is to be done when a request hangs, for as long as a future runs.
#[derive(Debug)]
pub struct HangHook;

impl HangHook {
    /// Runs work, and does this whenever a request of it hangs; also what an outer scope
    /// does then.
    pub fn scope<F: Future>(
        act: impl Fn() + Send + Sync + 'static,
        work: F,
    ) -> impl Future<Output = F::Output> {
        let outer = ACT.try_with(Arc::clone).ok();
        let both: Act = match outer {
            None => Arc::new(act),
            Some(outer) => Arc::new(move || {
                act();
                outer();
            }),
        };
        ACT.scope(both, work)
    }

    /// A request hangs.
    pub(super) fn now() {
        // Whoever is no worker takes nobody's place.
        let _ = ACT.try_with(|act| act());
    }
}
