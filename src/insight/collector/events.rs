//! Reads server-sent events.

use std::marker::PhantomData;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;

use super::client::Page;
use super::connection::CollectorError;
use super::endpoint::Endpoint;
use kube_gc_core::text::bounded;

/// The longest line of a stream.
const LONGEST: usize = 16 << 20;

/// The events of one name of a stream, which are pages.
#[derive(Debug)]
pub struct Events<A> {
    endpoint: Endpoint,
    body: Incoming,
    lines: Lines,
    name: &'static str,
    data: PhantomData<A>,
}

impl<A: DeserializeOwned> Events<A> {
    pub(super) fn new(endpoint: Endpoint, body: Incoming, name: &'static str) -> Self {
        Self { endpoint, body, lines: Lines::default(), name, data: PhantomData }
    }

    /// The next event. `None` at the end of the stream.
    ///
    /// # Errors
    ///
    /// The connection is lost, or the event is not understood.
    pub async fn next(&mut self) -> Result<Option<Page<A>>, CollectorError> {
        loop {
            while let Some((name, data)) = self.lines.event() {
                if name == self.name {
                    return Page::read(data.as_bytes()).map(Some).map_err(|error| {
                        CollectorError::OtherVersion { at: self.endpoint.to_string(), why: bounded(error) }
                    });
                }
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(self.endpoint.unreachable(&error)),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data()
                        && !self.lines.add(&bytes)
                    {
                        return Err(self.endpoint.unreachable(&"a line of its stream is too long"));
                    }
                }
            }
        }
    }
}

/// What has been read of a stream and makes no event yet.
#[derive(Debug, Default)]
struct Lines {
    text: Vec<u8>,
    name: String,
    data: String,
}

impl Lines {
    /// Adds bytes. False if a line is too long.
    fn add(&mut self, bytes: &[u8]) -> bool {
        self.text.extend_from_slice(bytes);
        self.text.len() + self.data.len() <= LONGEST
    }

    /// The next complete event: its name and its data.
    fn event(&mut self) -> Option<(String, String)> {
        loop {
            let end = memchr::memchr(b'\n', &self.text)?;
            let line: Vec<u8> = self.text.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\r', '\n']);
            if line.is_empty() {
                let event = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
                if !event.1.is_empty() {
                    return Some(event);
                }
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => value.clone_into(&mut self.name),
                "data" if self.data.is_empty() => value.clone_into(&mut self.data),
                "data" => {
                    self.data.push('\n');
                    self.data.push_str(value);
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_any_pieces() {
        let stream = "retry: 1000\r\nevent: a\r\ndata: 1\r\n\r\n: heartbeat\n\nevent:b\ndata:2\ndata: 3\n\ndata: 4\n\n";
        for size in 1..stream.len() {
            let mut lines = Lines::default();
            let mut events = Vec::new();
            for piece in stream.as_bytes().chunks(size) {
                assert!(lines.add(piece));
                events.extend(std::iter::from_fn(|| lines.event()));
            }
            let expected = [("a", "1"), ("b", "2\n3"), ("", "4")];
            assert_eq!(events, expected.map(|(name, data)| (name.to_owned(), data.to_owned())), "{size}");
        }
    }

    #[test]
    fn a_line_without_end_is_given_up() {
        let mut lines = Lines::default();
        assert!(lines.add(&vec![b'x'; LONGEST]));
        assert!(!lines.add(b"x"));
    }
}
