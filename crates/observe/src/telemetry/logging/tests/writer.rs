use std::sync::mpsc::{Receiver, Sender, channel};

use tracing_subscriber::fmt::MakeWriter as _;

use super::super::*;

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

fn add(lines: &LogWriter, bytes: &[u8]) {
    lines.make_writer().write_all(bytes).unwrap();
}

#[test]
fn lines_that_come_during_a_write_go_together_with_the_next() {
    let (lines, written, writes) = lines();
    add(&lines, b"first\n");
    assert_eq!(written.recv().unwrap(), b"first\n");
    add(&lines, b"second\n");
    add(&lines, b"third\n");
    assert_eq!(lines.buffered(), "second\nthird\n".len());
    writes.send(()).unwrap();
    assert_eq!(written.recv().unwrap(), b"second\nthird\n");
    assert_eq!(lines.buffered(), 0);
}

#[test]
fn what_was_logged_is_written_when_the_flush_is_over() {
    let (lines, written, writes) = lines();
    drop(writes);
    add(&lines, b"last words\n");
    lines.flush_for(Duration::MAX);
    assert_eq!(written.try_recv().unwrap(), b"last words\n");
}

#[test]
fn a_reader_that_does_not_read_holds_up_no_end() {
    let (lines, written, _writes) = lines();
    add(&lines, b"unread\n");
    lines.flush_for(Duration::from_millis(1));
    drop(written);
}

#[test]
fn whoever_logs_more_than_can_wait_waits_and_nothing_is_lost() {
    const LINE: [u8; 1000] = [b'x'; 1000];
    const MANY: usize = 3 * MAX_BUFFERED_BYTES / LINE.len();
    let (lines, written, writes) = lines();
    add(&lines, &LINE);
    let mut bytes = written.recv().unwrap().len();
    let other = lines.clone();
    let adds = thread::spawn(move || {
        for _ in 1..MANY {
            add(&other, &LINE);
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
