//! What every command that runs a collector needs of the process.

use actix::System;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::signal::unix::{SignalKind, signal};

use super::Exit;
use super::failure::Failure;
use super::rest;
use crate::telemetry::logging;

/// The threads for what takes long, next to the one that carries all else.
#[derive(Clone, Debug)]
pub struct Threads {
    /// Some, as the settings say: for lists that are read, and pages that are written.
    pub lists: Handle,
    /// One, which looks after watches, and rests when there is much to look after.
    pub watches: Handle,
    /// One, which does nothing but keep the lease: whatever there is to do about objects, it is
    /// renewed in time.
    pub lease: Handle,
}

impl Threads {
    /// Those of the runtime that this is called on, for all.
    pub fn here() -> Self {
        Self { lists: Handle::current(), watches: Handle::current(), lease: Handle::current() }
    }
}

/// Runs this to its end on one thread, which carries the actors and all requests about
/// single objects: each takes a few microseconds between its waits, and to hand it from
/// thread to thread takes longer than to deal with it. So do most events of watches, which
/// have one thread, too. What does take long gets as many as `list_threads` says.
pub fn block_on<F: Future>(list_threads: usize, future: impl FnOnce(Threads) -> F) -> F::Output {
    let lists = Builder::new_multi_thread()
        .thread_name("lists")
        .worker_threads(list_threads.max(1))
        .enable_all()
        .build();
    let lists = or_exit(lists);
    let watches = Builder::new_multi_thread()
        .thread_name("watches")
        .worker_threads(1)
        .on_thread_unpark(rest::thread_wakes)
        .on_thread_park(rest::thread_parks)
        .enable_all()
        .build();
    let watches = or_exit(watches);
    let lease = Builder::new_multi_thread().thread_name("lease").worker_threads(1).enable_all().build();
    let lease = or_exit(lease);
    let future = future(Threads {
        lists: lists.handle().clone(),
        watches: watches.handle().clone(),
        lease: lease.handle().clone(),
    });
    let ended = System::with_tokio_rt(|| or_exit(Builder::new_current_thread().enable_all().build()))
        .block_on(future);
    // Nobody waits for what is left.
    lists.shutdown_background();
    watches.shutdown_background();
    lease.shutdown_background();
    ended
}

/// The same where the API server runs in this process, too: all threads carry everything.
pub fn block_on_all_threads<T>(future: impl Future<Output = T>) -> T {
    System::with_tokio_rt(|| or_exit(Builder::new_multi_thread().enable_all().build())).block_on(future)
}

fn or_exit(runtime: std::io::Result<Runtime>) -> Runtime {
    match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "the operating system gives no threads");
            logging::flush();
            std::process::exit(i32::from(Exit::Failure.code()))
        }
    }
}

/// Resolves with the name of the first signal that asks the process to end.
///
/// # Errors
/// When signals cannot be received.
pub fn ended_by_signal() -> Result<impl Future<Output = &'static str>, Failure> {
    let failed = |error| Failure::new(Exit::Failure, format!("signals cannot be received: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Fails if what keeps the lease waits for a thread that works on objects.
    #[test]
    fn the_lease_is_kept_while_the_thread_of_the_actors_is_busy() {
        let renewed = block_on(1, async |threads: Threads| {
            let (renews, renewed) = mpsc::channel();
            threads.lease.spawn(async move { renews.send(()) });
            // Nothing else is polled on this thread meanwhile.
            renewed.recv_timeout(Duration::from_secs(60))
        });
        assert_eq!(renewed, Ok(()));
    }
}
