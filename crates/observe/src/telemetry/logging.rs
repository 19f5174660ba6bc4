//! The end of the log: the writer of its lines, and what has lines to write before the process exits.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use std::{mem, thread};

#[cfg(feature = "serve")]
mod subscriber;

#[cfg(feature = "serve")]
pub use subscriber::{LogError, init, subscriber, verbose_filter};

/// The writer of this process's log.
static WRITER: OnceLock<LogWriter> = OnceLock::new();

/// What has lines to write before the log ends.
static PENDING: Pending = Pending(Mutex::new(Vec::new()));

/// Something that collects before it logs.
pub trait PendingLines: Send + Sync {
    /// Logs what was collected so far, and from now on at once.
    fn write_lines(&self);
}

/// The collections that have not been written.
struct Pending(Mutex<Vec<Weak<dyn PendingLines>>>);

impl Pending {
    fn add(&self, lines: Weak<dyn PendingLines>) {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A process may start many collectors, one after the other.
        pending.retain(|lines| lines.strong_count() > 0);
        pending.push(lines);
    }

    fn write(&self) {
        // The lock must not be held while something is logged or dropped.
        let pending = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for lines in pending.iter().filter_map(Weak::upgrade) {
            lines.write_lines();
        }
    }
}

/// Registers something that has lines to write before the process exits.
pub fn before_end(lines: Weak<dyn PendingLines>) {
    PENDING.add(lines);
}

/// Waits until all lines are written. To be called before the process exits.
pub fn flush() {
    PENDING.write();
    if let Some(writer) = WRITER.get() {
        writer.flush();
    }
}

/// The number of bytes that wait to be written.
pub fn waiting() -> usize {
    WRITER.get().map_or(0, LogWriter::buffered)
}

/// The capacity of the buffer. If it is full, logging blocks; no line is lost.
const MAX_BUFFERED_BYTES: usize = 256 * 1024;
/// How long [`LogWriter::flush`] waits if nobody reads standard error.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// A buffer of lines, and the thread that writes them: whoever logs does not wait for the reader, as
/// long as there is room. Lines that come during a write go together with the next. Clones share both.
#[derive(Clone, Debug, Default)]
pub struct LogWriter(Arc<Shared>);

#[derive(Debug, Default)]
/// What the clones of a writer share.
pub struct Shared {
    buffer: Mutex<Buffer>,
    /// Lines were added or written.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// The bytes added and the bytes written since the start.
    added: u64,
    written: u64,
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
        let buffer = self.0.lock();
        let goal = buffer.added;
        drop(self.0.changed.wait_timeout_while(buffer, timeout, |buffer| buffer.written < goal));
    }

    /// The number of bytes in the buffer.
    pub fn buffered(&self) -> usize {
        self.0.lock().bytes.len()
    }
}

impl Shared {
    /// The loop of the thread.
    fn write_to(&self, mut output: impl Write) {
        let mut taken = Vec::new();
        let mut buffer = self.lock();
        loop {
            buffer = self.wait_while(buffer, |buffer| buffer.bytes.is_empty());
            mem::swap(&mut buffer.bytes, &mut taken);
            drop(buffer);
            // If the log cannot be written, there is nowhere to report it.
            let _ = output.write_all(&taken).and_then(|()| output.flush());
            buffer = self.lock();
            buffer.written += taken.len() as u64;
            taken.clear();
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Buffer> {
        // A panic cannot leave a half-written line in the buffer.
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while<'b>(
        &self,
        buffer: MutexGuard<'b, Buffer>,
        condition: impl Fn(&mut Buffer) -> bool,
    ) -> MutexGuard<'b, Buffer> {
        self.changed.wait_while(buffer, condition).unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for &Shared {
    /// Adds one line, or several that belong together.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_full = |buffer: &mut Buffer| buffer.bytes.len() >= MAX_BUFFERED_BYTES;
        let mut buffer = self.wait_while(self.lock(), is_full);
        buffer.bytes.extend_from_slice(bytes);
        buffer.added += bytes.len() as u64;
        self.changed.notify_all();
        Ok(bytes.len())
    }

    /// Does not wait, because the thread writes the lines soon.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
