//! A connection whose other side must take what is sent to it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Fails when nothing can be written for a while. An answer may be as long as it
/// likes: it has to move.
pub(super) struct Patient<S> {
    inner: S,
    patience: Duration,
    /// Runs while a write waits.
    waits: bool,
    timer: Pin<Box<Sleep>>,
}

impl<S: AsyncWrite + Unpin> Patient<S> {
    pub(super) fn new(inner: S, patience: Duration) -> Self {
        Self { inner, patience, waits: false, timer: Box::pin(sleep(patience)) }
    }

    fn poll<T>(
        &mut self,
        context: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(done) = poll(Pin::new(&mut self.inner), context) {
            self.waits = false;
            return Poll::Ready(done);
        }
        if !self.waits {
            self.waits = true;
            self.timer.as_mut().reset(Instant::now() + self.patience);
        }
        ready!(self.timer.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "nobody takes the answer")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll(context, |inner, context| inner.poll_write(context, buffer))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll(context, |inner, context| inner.poll_write_vectored(context, buffers))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll(context, |inner, context| inner.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll(context, |inner, context| inner.poll_shutdown(context))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn an_answer_that_nobody_takes_is_given_up() {
        tokio::time::pause();
        let (ours, _theirs) = duplex(4);
        let mut ours = Patient::new(ours, PATIENCE);
        let start = Instant::now();
        let error = ours.write_all(b"0123456789").await.unwrap_err();
        assert_eq!((error.kind(), start.elapsed().as_secs()), (io::ErrorKind::TimedOut, 30));
    }

    #[tokio::test]
    async fn an_answer_that_is_taken_slowly_is_not() {
        tokio::time::pause();
        let (ours, mut theirs) = duplex(4);
        let mut ours = Patient::new(ours, PATIENCE);
        let slowly = async {
            let mut part = [0; 4];
            for _ in 0..5 {
                sleep(PATIENCE - Duration::from_secs(1)).await;
                theirs.read_exact(&mut part).await.unwrap();
            }
        };
        let (sent, ()) = tokio::join!(ours.write_all(&[b'x'; 20]), slowly);
        sent.unwrap();
    }
}
