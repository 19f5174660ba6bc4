//! What every command that runs a collector needs of the process.

use actix::System;
use tokio::signal::unix::{SignalKind, signal};

use super::Exit;
use super::failure::Failure;

/// Runs this to its end, on a pool of threads that carries requests, decoding and
/// HTTP; actors run beside it and only coordinate.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = || match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "the operating system gives no threads");
            std::process::exit(i32::from(Exit::Failure.code()))
        }
    };
    System::with_tokio_rt(runtime).block_on(future)
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
