//! Writes lines of the log to standard error in batches.
//!
//! A collector that deletes two thousand objects a second logs as many lines. If each thread
//! wrote its own lines, each line would cost a system call and wake the reader, on CPUs that
//! the API server may need.

use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// How long a batch collects lines.
const BATCH_DELAY: Duration = Duration::from_millis(5);
/// A batch of this size is written immediately.
const BATCH_BYTES: usize = 32 * 1024;
/// The capacity of the buffer. If it is full, logging blocks; no line is lost.
const MAX_BUFFERED_BYTES: usize = 256 * 1024;
/// How long [`LogWriter::flush`] waits if nobody reads standard error.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// A buffer of lines and the thread that writes them. Clones share both.
#[derive(Clone, Debug, Default)]
pub struct LogWriter(Arc<Shared>);

/// The state that loggers and the thread share.
#[derive(Debug, Default)]
pub struct Shared {
    buffer: Mutex<Buffer>,
    /// Wakes the thread: there are lines to write.
    has_lines: Condvar,
    /// Wakes loggers and flushes: lines were written.
    was_written: Condvar,
}

#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// The bytes added and the bytes written since the start.
    added: u64,
    written: u64,
    /// A flush is waiting, so the thread must not wait for more lines.
    urgent: bool,
    /// The thread has ended.
    ended: bool,
}

impl LogWriter {
    /// Starts the thread, which lives as long as the process.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn to(output: impl Write + Send + 'static) -> io::Result<Self> {
        let lines = Self::default();
        let shared = Arc::clone(&lines.0);
        thread::Builder::new().name("log".to_owned()).spawn(move || shared.write_to(output))?;
        Ok(lines)
    }

    /// Waits until all earlier lines are written, but at most two seconds.
    pub fn flush(&self) {
        self.flush_for(FLUSH_TIMEOUT);
    }

    fn flush_for(&self, timeout: Duration) {
        let mut buffer = self.0.lock();
        let goal = buffer.added;
        buffer.urgent = true;
        self.0.has_lines.notify_one();
        let unwritten = |buffer: &mut Buffer| buffer.written < goal && !buffer.ended;
        drop(self.0.was_written.wait_timeout_while(buffer, timeout, unwritten));
    }

    /// The number of bytes in the buffer.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.0.lock().bytes.len()
    }
}

impl Shared {
    /// Adds one line, or several that belong together.
    fn add(&self, bytes: &[u8]) {
        let mut buffer = self.lock();
        while buffer.bytes.len() >= MAX_BUFFERED_BYTES && !buffer.ended {
            buffer = self.was_written.wait(buffer).unwrap_or_else(PoisonError::into_inner);
        }
        if buffer.ended {
            // If this fails, too, there is nowhere to report it.
            let _ = io::stderr().write_all(bytes);
            return;
        }
        let before = buffer.bytes.len();
        buffer.bytes.extend_from_slice(bytes);
        buffer.added += bytes.len() as u64;
        if before == 0 || (before < BATCH_BYTES && buffer.bytes.len() >= BATCH_BYTES) {
            self.has_lines.notify_one();
        }
    }

    /// The loop of the thread.
    fn write_to(&self, mut output: impl Write) {
        let _guard = EndGuard(self);
        let mut taken = Vec::new();
        let mut buffer = self.lock();
        loop {
            let empty = |buffer: &mut Buffer| buffer.bytes.is_empty();
            buffer = self.has_lines.wait_while(buffer, empty).unwrap_or_else(PoisonError::into_inner);
            let few = |buffer: &mut Buffer| buffer.bytes.len() < BATCH_BYTES && !buffer.urgent;
            let collected = self.has_lines.wait_timeout_while(buffer, BATCH_DELAY, few);
            buffer = collected.unwrap_or_else(PoisonError::into_inner).0;
            buffer.urgent = false;
            mem::swap(&mut buffer.bytes, &mut taken);
            drop(buffer);
            // If the log cannot be written, there is nowhere to report it.
            let _ = output.write_all(&taken).and_then(|()| output.flush());
            buffer = self.lock();
            buffer.written += taken.len() as u64;
            taken.clear();
            self.was_written.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Buffer> {
        // A panic cannot leave a half-written line in the buffer.
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes all waiting threads when the thread of the writer ends.
struct EndGuard<'a>(&'a Shared);

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.was_written.notify_all();
    }
}

impl Write for &Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add(bytes);
        Ok(bytes.len())
    }

    /// Does not wait, because the thread writes the lines soon.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for LogWriter {
    type Writer = &'w Shared;

    fn make_writer(&'w self) -> Self::Writer {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Reports each write, and completes it when the test allows it.
    struct Output {
        given: Sender<Vec<u8>>,
        let_on: Receiver<()>,
    }

    impl Write for Output {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.given.send(bytes.to_vec());
            // Without a sender, writes complete at once.
            let _ = self.let_on.recv();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn lines() -> (LogWriter, Receiver<Vec<u8>>, Sender<()>) {
        let ((given, written), (writes, let_on)) = (channel(), channel());
        (LogWriter::to(Output { given, let_on }).unwrap(), written, writes)
    }

    #[test]
    fn lines_that_come_during_a_write_go_together_with_the_next() {
        let (lines, written, writes) = lines();
        lines.0.add(b"first\n");
        assert_eq!(written.recv().unwrap(), b"first\n");
        lines.0.add(b"second\n");
        lines.0.add(b"third\n");
        assert_eq!(lines.buffered(), "second\nthird\n".len());
        writes.send(()).unwrap();
        assert_eq!(written.recv().unwrap(), b"second\nthird\n");
        assert_eq!(lines.buffered(), 0);
    }

    #[test]
    fn what_was_logged_is_written_when_the_flush_is_over() {
        let (lines, written, writes) = lines();
        drop(writes);
        lines.0.add(b"last words\n");
        lines.flush_for(Duration::MAX);
        assert_eq!(written.try_recv().unwrap(), b"last words\n");
    }

    #[test]
    fn a_reader_that_does_not_read_holds_up_no_end() {
        let (lines, written, _writes) = lines();
        lines.0.add(b"unread\n");
        lines.flush_for(Duration::from_millis(1));
        drop(written);
    }

    #[test]
    fn whoever_logs_more_than_can_wait_waits_and_nothing_is_lost() {
        const LINE: [u8; 1000] = [b'x'; 1000];
        const MANY: usize = 3 * MAX_BUFFERED_BYTES / LINE.len();
        let (lines, written, writes) = lines();
        lines.0.add(&LINE);
        let mut bytes = written.recv().unwrap().len();
        let other = lines.clone();
        let adds = thread::spawn(move || {
            for _ in 1..MANY {
                other.0.add(&LINE);
                assert!(other.buffered() < MAX_BUFFERED_BYTES + LINE.len());
            }
        });
        while lines.buffered() < MAX_BUFFERED_BYTES {
            thread::yield_now();
        }
        drop(writes);
        adds.join().unwrap();
        lines.flush_for(Duration::MAX);
        bytes += written.try_iter().map(|written| written.len()).sum::<usize>();
        assert_eq!(bytes, MANY * LINE.len());
    }

    #[test]
    fn nobody_waits_for_a_thread_that_has_ended() {
        struct Broken;
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                panic!("on purpose")
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let lines = LogWriter::to(Broken).unwrap();
        lines.0.add(b"lost\n");
        lines.flush_for(Duration::MAX);
        assert!(lines.0.lock().ended);
        lines.0.add(b"written where it was to go\n");
        assert_eq!(lines.buffered(), 0, "nobody would take it from there");
    }
}
