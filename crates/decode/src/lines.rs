//! Splits the body of a watch into lines.

use bytes::{Bytes, BytesMut};

/// A line exceeds the limit. No event does, so the stream is not a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line of the watch is longer than {0} bytes")]
pub struct LineTooLong(usize);

/// Splits chunks into lines. Buffers at most one incomplete line.
#[derive(Debug)]
pub struct LineSplitter {
    buffer: BytesMut,
    /// How far `buffer` was searched.
    searched: usize,
    limit: usize,
}

impl LineSplitter {
    /// A splitter with this limit.
    pub fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), searched: 0, limit }
    }

    /// Adds the next chunk.
    pub fn feed(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next complete line that is not blank, without its line break. An incomplete line at
    /// the end of the stream is part of a lost event, and is dropped.
    ///
    /// # Errors
    ///
    /// The line is too long.
    pub fn next_line(&mut self) -> Result<Option<Bytes>, LineTooLong> {
        loop {
            let Some(found) = memchr::memchr(b'\n', &self.buffer[self.searched..]) else {
                self.searched = self.buffer.len();
                return if self.searched > self.limit { Err(LineTooLong(self.limit)) } else { Ok(None) };
            };
            let end = self.searched + found;
            if end > self.limit {
                return Err(LineTooLong(self.limit));
            }
            let line = self.buffer.split_to(end + 1).freeze().slice(..end);
            self.searched = 0;
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(splitter: &mut LineSplitter) -> Vec<Bytes> {
        std::iter::from_fn(|| splitter.next_line().unwrap()).collect()
    }

    #[test]
    fn an_incomplete_line_waits_for_its_end_and_blank_ones_are_skipped() {
        let mut splitter = LineSplitter::new(100);
        splitter.feed(b"one\n\n \r\ntw");
        assert_eq!(all(&mut splitter), ["one"]);
        splitter.feed(b"o\nthree");
        assert_eq!(all(&mut splitter), ["two"]);
    }

    #[test]
    fn an_endless_line_is_an_error_and_does_not_grow_memory() {
        let mut splitter = LineSplitter::new(10);
        splitter.feed(b"0123456789");
        assert_eq!(splitter.next_line(), Ok(None));
        splitter.feed(b"0");
        assert_eq!(splitter.next_line(), Err(LineTooLong(10)));
        let mut splitter = LineSplitter::new(10);
        splitter.feed(b"0123456789x\n");
        assert!(splitter.next_line().is_err());
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(
            lines in prop::collection::vec("[a-z{}\"]{1,30}", 0..20),
            cuts in prop::collection::vec(1_usize..40, 1..50),
        ) {
            let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let mut splitter = LineSplitter::new(1000);
            let mut seen = Vec::new();
            let mut rest = body.as_bytes();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (chunk, more) = rest.split_at(rest.len().min(*cut));
                splitter.feed(chunk);
                seen.extend(all(&mut splitter));
                rest = more;
            }
            prop_assert_eq!(seen, lines);
        }
    }
}
