//! The runtimes of a collector and their threads.

use actix::System;
use tokio::runtime::{Builder, Handle, Runtime};

use super::error::{Error, ErrorKind};

/// The runtimes for work that must not run on the actors' thread.
#[derive(Clone, Debug)]
pub struct Threads {
    /// Reads lists and writes pages, on as many threads as the settings say.
    pub lists: Handle,
    /// Reads watches, on one thread.
    pub watches: Handle,
    /// Renews the lease and does nothing else, on one thread, so that no other work delays a
    /// renewal.
    pub lease: Handle,
}

impl Threads {
    /// The current runtime, for all of them.
    #[cfg(any(feature = "demo", feature = "node"))]
    pub fn current() -> Self {
        Self { lists: Handle::current(), watches: Handle::current(), lease: Handle::current() }
    }
}

/// Builds the runtime that reads lists. `init` runs first on each of its threads.
pub fn list_runtime(threads: usize, init: impl Fn() + Send + Sync + 'static) -> std::io::Result<Runtime> {
    Builder::new_multi_thread()
        .thread_name("lists")
        .worker_threads(threads.max(1))
        .on_thread_start(init)
        .enable_all()
        .build()
}

/// Builds the runtime that reads watches. `init` runs first on its thread.
pub fn watch_runtime(init: impl Fn() + Send + Sync + 'static) -> std::io::Result<Runtime> {
    Builder::new_multi_thread()
        .thread_name("watches")
        .worker_threads(1)
        .on_thread_start(init)
        .enable_all()
        .build()
}

/// Runs a future to completion on the current thread, which also carries the actors and all
/// requests about single objects. Each of these takes a few microseconds between its waits, and
/// handing it to another thread would take longer than the work itself. Work that takes long
/// runs on the [`Threads`] that the future gets.
///
/// # Errors
/// The operating system provides no thread.
pub fn block_on<F: Future>(
    list_threads: usize,
    future: impl FnOnce(Threads) -> F,
) -> Result<F::Output, Error> {
    let (actors, others) = runtimes(list_threads).map_err(no_threads)?;
    let [lists, watches, lease] = others.each_ref().map(|runtime| runtime.handle().clone());
    let output = System::with_tokio_rt(|| actors).block_on(future(Threads { lists, watches, lease }));
    // Does not wait for tasks whose results are not needed.
    others.into_iter().for_each(Runtime::shutdown_background);
    Ok(output)
}

/// The runtime of the actors, and those of [`Threads`].
fn runtimes(list_threads: usize) -> std::io::Result<(Runtime, [Runtime; 3])> {
    let lists = list_runtime(list_threads, || {})?;
    let watches = watch_runtime(|| {})?;
    let lease = Builder::new_multi_thread().thread_name("lease").worker_threads(1).enable_all().build()?;
    let actors = Builder::new_current_thread().enable_all().build()?;
    Ok((actors, [lists, watches, lease]))
}

/// The same with everything on the current thread, for a process that is idle most of the time.
///
/// # Errors
/// The operating system provides no thread.
#[cfg(feature = "node")]
pub fn block_on_one_thread<F: Future>(future: impl FnOnce(Threads) -> F) -> Result<F::Output, Error> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        // They remove logs. The default of 512 is for work that waits longer.
        .max_blocking_threads(4)
        .build()
        .map_err(no_threads)?;
    Ok(System::with_tokio_rt(|| runtime).block_on(async { future(Threads::current()).await }))
}

/// The same for a process that also contains the API server: one runtime carries everything.
///
/// # Errors
/// The operating system provides no thread.
#[cfg(feature = "demo")]
pub fn block_on_one_runtime<T>(future: impl Future<Output = T>) -> Result<T, Error> {
    let runtime = Builder::new_multi_thread().enable_all().build().map_err(no_threads)?;
    Ok(System::with_tokio_rt(|| runtime).block_on(future))
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub fn no_threads(error: std::io::Error) -> Error {
    Error::new(
        ErrorKind::Internal,
        format!("cannot start a thread: {error}; raise the limit of threads or processes"),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Fails if the task that renews the lease waits for a thread that works on objects.
    #[test]
    fn the_lease_is_renewed_while_the_thread_of_the_actors_is_busy() {
        let renewed = block_on(1, async |threads: Threads| {
            let (renews, renewed) = mpsc::channel();
            threads.lease.spawn(async move { renews.send(()) });
            // Nothing else is polled on this thread meanwhile.
            renewed.recv_timeout(Duration::from_secs(60))
        });
        assert_eq!(renewed, Ok(Ok(())));
    }
}
