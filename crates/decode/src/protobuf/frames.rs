//! Splits the body of a watch into frames.

use bytes::{Buf as _, Bytes, BytesMut};

/// The length prefix of each frame, in big-endian order.
const LENGTH: usize = 4;

/// A frame exceeds the limit. No event does, so the stream is not a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of the watch is longer than {0} bytes")]
pub struct FrameTooLong(usize);

/// Splits chunks into frames. Buffers at most one incomplete frame.
#[derive(Debug)]
pub struct FrameSplitter {
    buffer: BytesMut,
    limit: usize,
}

impl FrameSplitter {
    /// A splitter with this limit.
    pub fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), limit }
    }

    /// Adds the next chunk.
    pub fn feed(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next complete frame. An incomplete frame at the end of the stream is part of a lost
    /// event, and is dropped.
    ///
    /// # Errors
    ///
    /// The frame is too long.
    pub fn next_frame(&mut self) -> Result<Option<Bytes>, FrameTooLong> {
        let Some(length) = self.buffer.first_chunk::<LENGTH>() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(*length))
            .ok()
            .filter(|length| *length <= self.limit)
            .ok_or(FrameTooLong(self.limit))?;
        if self.buffer.len() - LENGTH < length {
            return Ok(None);
        }
        self.buffer.advance(LENGTH);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(splitter: &mut FrameSplitter) -> Vec<Bytes> {
        std::iter::from_fn(|| splitter.next_frame().unwrap()).collect()
    }

    fn framed(frame: &[u8]) -> Vec<u8> {
        [&u32::try_from(frame.len()).unwrap().to_be_bytes()[..], frame].concat()
    }

    #[test]
    fn an_incomplete_frame_waits_for_its_end() {
        let mut splitter = FrameSplitter::new(100);
        splitter.feed(b"\0\0\0\x03one\0\0\0\0\0\0\0\x03tw");
        assert_eq!(all(&mut splitter), [&b"one"[..], b""]);
        splitter.feed(b"o\0\0");
        assert_eq!(all(&mut splitter), ["two"]);
    }

    #[test]
    fn a_frame_that_is_too_long_is_an_error_before_it_arrives() {
        let mut splitter = FrameSplitter::new(10);
        splitter.feed(&framed(b"0123456789"));
        assert_eq!(all(&mut splitter).len(), 1);
        splitter.feed(b"\0\0\0\x0b");
        assert_eq!(splitter.next_frame(), Err(FrameTooLong(10)));
        // The beginning of JSON is a frame of two gigabytes.
        let mut splitter = FrameSplitter::new(16 << 20);
        splitter.feed(b"{\"type\":");
        assert!(splitter.next_frame().is_err());
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(
            frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 0..20),
            cuts in prop::collection::vec(1_usize..40, 1..50),
        ) {
            let body: Vec<u8> = frames.iter().flat_map(|frame| framed(frame)).collect();
            let mut splitter = FrameSplitter::new(1000);
            let mut seen = Vec::new();
            let mut rest = body.as_slice();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (chunk, more) = rest.split_at(rest.len().min(*cut));
                splitter.feed(chunk);
                seen.extend(all(&mut splitter));
                rest = more;
            }
            prop_assert_eq!(seen, frames);
        }
    }
}
