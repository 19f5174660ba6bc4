//! The way of the log's lines to standard error: many with one write.
//!
//! A collector that deletes two thousand objects a second logs as many lines. Were each written
//! by whoever logs it, each would cost a system call and wake the reader, on processors that
//! the API server may have a use for.

use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// How long a line waits for others that go with it.
const COLLECTED_FOR: Duration = Duration::from_millis(5);
/// With so many bytes no line waits any longer.
const ENOUGH: usize = 32 * 1024;
/// How many bytes may wait. Whoever logs more waits until they are written: nothing is lost.
const BOUND: usize = 256 * 1024;
/// How long [`Lines::flush`] waits for a reader that does not read.
const PATIENCE: Duration = Duration::from_secs(2);

/// Lines that wait to be written, and the thread that writes them.
#[derive(Clone, Debug, Default)]
pub struct Lines(Arc<Shared>);

/// Where lines are put.
#[derive(Debug, Default)]
pub struct Shared {
    waiting: Mutex<Waiting>,
    /// For the thread: there is something to do.
    filled: Condvar,
    /// For all others: something was written.
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// How many bytes have come, and how many of these were written, since the start.
    come: u64,
    written: u64,
    /// Somebody waits for them.
    urgent: bool,
    /// The thread has ended.
    orphaned: bool,
}

impl Lines {
    /// Starts the thread, which lives as long as the process.
    ///
    /// # Errors
    /// There can be no thread.
    pub fn to(output: impl Write + Send + 'static) -> io::Result<Self> {
        let lines = Self::default();
        let shared = Arc::clone(&lines.0);
        thread::Builder::new().name("log".to_owned()).spawn(move || shared.write_to(output))?;
        Ok(lines)
    }

    /// Waits until all that was logged before is written, but for no longer than a reader can be
    /// expected to take.
    pub fn flush(&self) {
        self.flush_within(PATIENCE);
    }

    fn flush_within(&self, patience: Duration) {
        let mut waiting = self.0.lock();
        let goal = waiting.come;
        waiting.urgent = true;
        self.0.filled.notify_one();
        let unwritten = |waiting: &mut Waiting| waiting.written < goal && !waiting.orphaned;
        drop(self.0.emptied.wait_timeout_while(waiting, patience, unwritten));
    }

    /// How many bytes wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.lock().bytes.len()
    }
}

impl Shared {
    /// One line, or what belongs together.
    fn add(&self, bytes: &[u8]) {
        let mut waiting = self.lock();
        while waiting.bytes.len() >= BOUND && !waiting.orphaned {
            waiting = self.emptied.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        if waiting.orphaned {
            // Nobody can be told of it, if this fails, too.
            let _ = io::stderr().write_all(bytes);
            return;
        }
        let before = waiting.bytes.len();
        waiting.bytes.extend_from_slice(bytes);
        waiting.come += bytes.len() as u64;
        if before == 0 || (before < ENOUGH && waiting.bytes.len() >= ENOUGH) {
            self.filled.notify_one();
        }
    }

    /// The thread.
    fn write_to(&self, mut output: impl Write) {
        let _orphans = Orphans(self);
        let mut taken = Vec::new();
        let mut waiting = self.lock();
        loop {
            let empty = |waiting: &mut Waiting| waiting.bytes.is_empty();
            waiting = self.filled.wait_while(waiting, empty).unwrap_or_else(PoisonError::into_inner);
            let few = |waiting: &mut Waiting| waiting.bytes.len() < ENOUGH && !waiting.urgent;
            let collected = self.filled.wait_timeout_while(waiting, COLLECTED_FOR, few);
            waiting = collected.unwrap_or_else(PoisonError::into_inner).0;
            waiting.urgent = false;
            mem::swap(&mut waiting.bytes, &mut taken);
            drop(waiting);
            // Where the log itself cannot be written, there is nowhere to say so.
            let _ = output.write_all(&taken).and_then(|()| output.flush());
            waiting = self.lock();
            waiting.written += taken.len() as u64;
            taken.clear();
            self.emptied.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Bytes are whole whoever has panicked.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets nobody wait for a thread that has ended.
struct Orphans<'a>(&'a Shared);

impl Drop for Orphans<'_> {
    fn drop(&mut self) {
        self.0.lock().orphaned = true;
        self.0.emptied.notify_all();
    }
}

impl Write for &Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add(bytes);
        Ok(bytes.len())
    }

    /// Does not wait: lines are written soon.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for Lines {
    type Writer = &'w Shared;

    fn make_writer(&'w self) -> Self::Writer {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Says what it is given, and writes it when it is let.
    struct Output {
        given: Sender<Vec<u8>>,
        let_on: Receiver<()>,
    }

    impl Write for Output {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.given.send(bytes.to_vec());
            // Nobody there: it is let.
            let _ = self.let_on.recv();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn lines() -> (Lines, Receiver<Vec<u8>>, Sender<()>) {
        let ((given, written), (writes, let_on)) = (channel(), channel());
        (Lines::to(Output { given, let_on }).unwrap(), written, writes)
    }

    #[test]
    fn lines_that_come_during_a_write_go_together_with_the_next() {
        let (lines, written, writes) = lines();
        lines.0.add(b"first\n");
        assert_eq!(written.recv().unwrap(), b"first\n");
        lines.0.add(b"second\n");
        lines.0.add(b"third\n");
        assert_eq!(lines.waiting(), "second\nthird\n".len());
        writes.send(()).unwrap();
        assert_eq!(written.recv().unwrap(), b"second\nthird\n");
        assert_eq!(lines.waiting(), 0);
    }

    #[test]
    fn what_was_logged_is_written_when_the_flush_is_over() {
        let (lines, written, writes) = lines();
        drop(writes);
        lines.0.add(b"last words\n");
        lines.flush_within(Duration::MAX);
        assert_eq!(written.try_recv().unwrap(), b"last words\n");
    }

    #[test]
    fn a_reader_that_does_not_read_holds_up_no_end() {
        let (lines, written, _writes) = lines();
        lines.0.add(b"unread\n");
        lines.flush_within(Duration::from_millis(1));
        drop(written);
    }

    #[test]
    fn whoever_logs_more_than_can_wait_waits_and_nothing_is_lost() {
        const LINE: [u8; 1000] = [b'x'; 1000];
        const MANY: usize = 3 * BOUND / LINE.len();
        let (lines, written, writes) = lines();
        lines.0.add(&LINE);
        let mut bytes = written.recv().unwrap().len();
        let other = lines.clone();
        let adds = thread::spawn(move || {
            for _ in 1..MANY {
                other.0.add(&LINE);
                assert!(other.waiting() < BOUND + LINE.len());
            }
        });
        while lines.waiting() < BOUND {
            thread::yield_now();
        }
        drop(writes);
        adds.join().unwrap();
        lines.flush_within(Duration::MAX);
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
        let lines = Lines::to(Broken).unwrap();
        lines.0.add(b"lost\n");
        lines.flush_within(Duration::MAX);
        assert!(lines.0.lock().orphaned);
        lines.0.add(b"written where it was to go\n");
        assert_eq!(lines.waiting(), 0, "nobody would take it from there");
    }
}
