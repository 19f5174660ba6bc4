//! The clock of the caller's runtime, which a test may have paused.

use std::convert::Infallible;
use std::sync::mpsc::{Sender, channel};
use std::time;

use tokio::runtime::Handle;
use tokio::time::Instant;

/// Holds a paused clock of tokio until the result is dropped. Such a clock jumps to the next timer as soon as its
/// runtime has nothing to do, unless a blocking task runs. tokio does not know that the caller waits for
/// other threads, so every timeout around the wait would end at once.
pub fn held() -> Option<Sender<Infallible>> {
    let runtime = Handle::try_current().ok()?;
    let (clock, start) = (Instant::now(), time::Instant::now());
    while start.elapsed().is_zero() {}
    let is_paused = clock == Instant::now();
    is_paused.then(|| {
        let (end, ended) = channel();
        runtime.spawn_blocking(move || ended.recv());
        end
    })
}
