//! A connection whose other side must take what is sent to it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// How much of an answer the other side has to take in the time that it is given, at
/// least: one byte now and then would hold a place for ever.
const LEAST: usize = 64 << 10;

/// Fails when too little can be written for a while. An answer may be as long as it
/// likes: it has to move.
pub(super) struct Patient<S, F> {
    inner: S,
    patience: Duration,
    /// What was written since the other side was first waited for; `None` when it is
    /// not.
    waits: Option<usize>,
    timer: Pin<Box<Sleep>>,
    /// Called whenever all is written.
    flushed: F,
}

impl<S: AsyncWrite + Unpin, F: FnMut() + Unpin> Patient<S, F> {
    pub(super) fn new(inner: S, patience: Duration, flushed: F) -> Self {
        Self { inner, patience, waits: None, timer: Box::pin(sleep(patience)), flushed }
    }

    /// `written` says how much that is.
    fn poll<T>(
        &mut self,
        context: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
        written: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(done) = poll(Pin::new(&mut self.inner), context) {
            let written = done.as_ref().map_or(0, written);
            self.waits = self.waits.map(|sum| sum.saturating_add(written)).filter(|sum| *sum < LEAST);
            return Poll::Ready(done);
        }
        if self.waits.is_none() {
            self.waits = Some(0);
            self.timer.as_mut().reset(Instant::now() + self.patience);
        }
        ready!(self.timer.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "nobody takes the answer")))
    }
}

impl<S: AsyncRead + Unpin, F: Unpin> AsyncRead for Patient<S, F> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin, F: FnMut() + Unpin> AsyncWrite for Patient<S, F> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll(context, |inner, context| inner.poll_write(context, buffer), |written| *written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll(
            context,
            |inner, context| inner.poll_write_vectored(context, buffers),
            |written| *written,
        )
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let done = this.poll(context, |inner, context| inner.poll_flush(context), |()| LEAST);
        if let Poll::Ready(Ok(())) = done {
            (this.flushed)();
        }
        done
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll(context, |inner, context| inner.poll_shutdown(context), |()| LEAST)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// How long an answer is written for that is taken at this rate, and how that ends.
    async fn taken(part: usize, pause: Duration) -> (io::Result<()>, Duration) {
        let (ours, mut theirs) = duplex(LEAST);
        let mut ours = Patient::new(ours, PATIENCE, || ());
        let start = Instant::now();
        let takes = async {
            let mut part = vec![0; part];
            loop {
                sleep(pause).await;
                if theirs.read_exact(&mut part).await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::select! {
            sent = ours.write_all(&[b'x'; 10 * LEAST]) => (sent, start.elapsed()),
            () = takes => unreachable!(),
        }
    }

    #[tokio::test]
    async fn an_answer_that_nobody_takes_is_given_up() {
        tokio::time::pause();
        let (sent, after) = taken(1, 10 * PATIENCE).await;
        assert_eq!(
            (sent.unwrap_err().kind(), after.as_secs()),
            (io::ErrorKind::TimedOut, PATIENCE.as_secs())
        );
    }

    #[tokio::test]
    async fn an_answer_that_is_taken_by_drops_is_given_up_as_soon() {
        tokio::time::pause();
        for part in [1, LEAST / 20] {
            let (sent, after) = taken(part, PATIENCE / 10).await;
            assert_eq!(
                (sent.unwrap_err().kind(), after.as_secs()),
                (io::ErrorKind::TimedOut, PATIENCE.as_secs())
            );
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_taken_slowly_is_not() {
        tokio::time::pause();
        let (sent, after) = taken(LEAST, PATIENCE - Duration::from_secs(1)).await;
        sent.unwrap();
        assert!(after > 8 * PATIENCE, "{after:?}");
    }

    #[tokio::test]
    async fn it_is_told_when_all_is_written() {
        let (ours, mut theirs) = duplex(4);
        let mut flushes = 0;
        let mut ours = Patient::new(ours, PATIENCE, || flushes += 1);
        let mut answer = [0; 8];
        let (sent, read) = tokio::join!(ours.write_all(b"01234567"), theirs.read_exact(&mut answer));
        sent.and(read).unwrap();
        ours.flush().await.unwrap();
        drop(ours);
        assert_eq!(flushes, 1);
    }
}
