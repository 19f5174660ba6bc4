//! The signals that ask a process to end.

use tokio::signal::unix::{SignalKind, signal};

use super::error::{Error, ErrorKind};

/// Resolves with the name of the first signal that asks the process to end.
///
/// # Errors
/// The operating system does not let this process receive signals.
pub fn termination() -> Result<impl Future<Output = &'static str>, Error> {
    let failed = |error| Error::new(ErrorKind::Internal, format!("cannot listen for signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    })
}
