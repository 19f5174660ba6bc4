//! Tells a worker that the request it waits for hangs.

use std::sync::Arc;

type Hook = Arc<dyn Fn() + Send + Sync>;

tokio::task_local! {
    static HOOK: Hook;
}

/// A function that is called when a request hangs. It is set for the duration of a future.
#[derive(Debug)]
pub struct HangHook;

impl HangHook {
    /// Runs a future, and calls `hook` whenever one of its requests hangs. The hooks of outer
    /// scopes are called, too.
    pub fn scope<F: Future>(
        hook: impl Fn() + Send + Sync + 'static,
        work: F,
    ) -> impl Future<Output = F::Output> {
        let outer = HOOK.try_with(Arc::clone).ok();
        let both: Hook = match outer {
            None => Arc::new(hook),
            Some(outer) => Arc::new(move || {
                hook();
                outer();
            }),
        };
        HOOK.scope(both, work)
    }

    /// Calls the hooks of the current task.
    pub(super) fn call() {
        // Outside of a scope there is no hook.
        let _ = HOOK.try_with(|hook| hook());
    }
}
