//! A connection that fails if its peer stops reading.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// The bytes of a response that the peer must read within the timeout. Without a minimum, a
/// peer that reads one byte now and then could hold a connection slot forever.
const MIN_PROGRESS: usize = 64 << 10;

/// Fails if the peer reads too little within the timeout. A response may take any time in
/// total, as long as it makes progress.
pub(super) struct WriteTimeout<S, F> {
    inner: S,
    timeout: Duration,
    /// The bytes written since a write first blocked; `None` if no write blocks.
    progress: Option<usize>,
    timer: Pin<Box<Sleep>>,
    /// Called after each complete flush.
    flushed: F,
}

impl<S: AsyncWrite + Unpin, F: FnMut() + Unpin> WriteTimeout<S, F> {
    pub(super) fn new(inner: S, timeout: Duration, flushed: F) -> Self {
        Self { inner, timeout, progress: None, timer: Box::pin(sleep(timeout)), flushed }
    }

    /// Polls the connection; `written` returns the bytes that a result stands for.
    fn poll<T>(
        &mut self,
        context: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
        written: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(done) = poll(Pin::new(&mut self.inner), context) {
            let written = done.as_ref().map_or(0, written);
            self.progress =
                self.progress.map(|sum| sum.saturating_add(written)).filter(|sum| *sum < MIN_PROGRESS);
            return Poll::Ready(done);
        }
        if self.progress.is_none() {
            self.progress = Some(0);
            self.timer.as_mut().reset(Instant::now() + self.timeout);
        }
        ready!(self.timer.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read the response")))
    }
}

impl<S: AsyncRead + Unpin, F: Unpin> AsyncRead for WriteTimeout<S, F> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin, F: FnMut() + Unpin> AsyncWrite for WriteTimeout<S, F> {
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
        let done = this.poll(context, |inner, context| inner.poll_flush(context), |()| MIN_PROGRESS);
        if let Poll::Ready(Ok(())) = done {
            (this.flushed)();
        }
        done
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll(context, |inner, context| inner.poll_shutdown(context), |()| MIN_PROGRESS)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    /// Writes a response to a peer that reads at this rate; returns the result and the duration.
    async fn taken(part: usize, pause: Duration) -> (io::Result<()>, Duration) {
        let (ours, mut theirs) = duplex(MIN_PROGRESS);
        let mut ours = WriteTimeout::new(ours, TIMEOUT, || ());
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
            sent = ours.write_all(&[b'x'; 10 * MIN_PROGRESS]) => (sent, start.elapsed()),
            () = takes => unreachable!(),
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_not_read_is_cancelled() {
        tokio::time::pause();
        let (sent, after) = taken(1, 10 * TIMEOUT).await;
        assert_eq!((sent.unwrap_err().kind(), after.as_secs()), (io::ErrorKind::TimedOut, TIMEOUT.as_secs()));
    }

    #[tokio::test]
    async fn an_answer_that_is_read_too_slowly_is_cancelled_as_soon() {
        tokio::time::pause();
        for part in [1, MIN_PROGRESS / 20] {
            let (sent, after) = taken(part, TIMEOUT / 10).await;
            assert_eq!(
                (sent.unwrap_err().kind(), after.as_secs()),
                (io::ErrorKind::TimedOut, TIMEOUT.as_secs())
            );
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_read_slowly_is_not_cancelled() {
        tokio::time::pause();
        let (sent, after) = taken(MIN_PROGRESS, TIMEOUT - Duration::from_secs(1)).await;
        sent.unwrap();
        assert!(after > 8 * TIMEOUT, "{after:?}");
    }

    #[tokio::test]
    async fn the_end_of_an_answer_is_reported() {
        let (ours, mut theirs) = duplex(4);
        let mut flushes = 0;
        let mut ours = WriteTimeout::new(ours, TIMEOUT, || flushes += 1);
        let mut answer = [0; 8];
        let (sent, read) = tokio::join!(ours.write_all(b"01234567"), theirs.read_exact(&mut answer));
        sent.and(read).unwrap();
        ours.flush().await.unwrap();
        drop(ours);
        assert_eq!(flushes, 1);
    }
}
