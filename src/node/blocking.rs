//! Work that waits for the file system, away from the thread of everything else.

use tokio::sync::oneshot;

/// Runs something on a thread that may wait, and returns what it returns. A panic becomes an error.
///
/// The runtime gets a boxed closure, so the program has the code for such a task once, and not once for
/// each kind of work.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let (done, result) = oneshot::channel();
    let work: Box<dyn FnOnce() + Send> = Box::new(move || drop(done.send(work())));
    let ended = tokio::task::spawn_blocking(work).await;
    ended.map_err(|error| format!("a task failed unexpectedly: {error}"))?;
    result.await.map_err(|_| "a task ended without a result".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_the_work_returns_is_returned() {
        assert_eq!(blocking(|| 7).await, Ok(7));
    }

    #[tokio::test]
    async fn a_panic_is_an_error() {
        let error = blocking(|| -> u8 { panic!("on purpose") }).await.unwrap_err();
        assert!(error.contains("unexpectedly"), "{error}");
    }
}
