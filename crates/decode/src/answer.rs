//! Lists, watches and their encodings.

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;

use super::list::ListScanner;
use super::protobuf::{self, FrameSplitter, ListParser};
use super::{DecodedEvent, Envelope, EventError, FactsReader, LineSplitter, ListError, ObjectView, Status};

/// The longest event. etcd accepts at most a few MiB.
const LONGEST_EVENT: usize = 16 << 20;

/// An encoding of requests and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Every server supports it.
    Json,
    /// Kubernetes' own servers support it. It takes less CPU and bandwidth.
    Protobuf,
}

impl Encoding {
    /// The encoding that an answer's headers declare, whatever was requested. Anything but
    /// protobuf is read as JSON.
    pub fn of(headers: &HeaderMap) -> Self {
        let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let essence = media_type.split(';').next().unwrap_or_default().trim();
        if essence.eq_ignore_ascii_case(protobuf::MEDIA_TYPE) { Self::Protobuf } else { Self::Json }
    }
}

/// Reads a list while it arrives.
#[derive(Debug)]
pub enum ListReader {
    /// From JSON.
    Json(ListScanner),
    /// From protobuf.
    Protobuf(ListParser),
}

impl ListReader {
    /// A reader at the beginning of a list.
    pub fn new(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Json => Self::Json(ListScanner::default()),
            Encoding::Protobuf => Self::Protobuf(ListParser::default()),
        }
    }

    /// The encoding that it reads.
    pub fn encoding(&self) -> Encoding {
        match self {
            Self::Json(_) => Encoding::Json,
            Self::Protobuf(_) => Encoding::Protobuf,
        }
    }

    /// Reads the next chunk, and calls `on_item` for each item that it completes.
    ///
    /// # Errors
    ///
    /// The body is not a list, or an item cannot be read.
    pub fn feed(&mut self, chunk: &[u8], on_item: &mut dyn FnMut(ObjectView<'_>)) -> Result<(), ListError> {
        match self {
            Self::Json(scanner) => scanner.read(chunk, on_item),
            Self::Protobuf(parser) => parser.feed(chunk, on_item),
        }
    }

    /// The envelope as far as it is known before the first item.
    pub fn preview(&self) -> Option<Envelope> {
        match self {
            Self::Json(scanner) => scanner.preview(),
            Self::Protobuf(parser) => parser.preview(),
        }
    }

    /// The envelope, after the end of the body.
    ///
    /// # Errors
    ///
    /// The body ended early, or it is not a list.
    pub fn finish(self) -> Result<Envelope, ListError> {
        match self {
            Self::Json(scanner) => scanner.finish(),
            Self::Protobuf(parser) => parser.finish(),
        }
    }
}

/// Reads a watch while it arrives.
#[derive(Debug)]
pub enum WatchReader {
    /// From lines of JSON.
    Json(LineSplitter),
    /// From frames of protobuf.
    Protobuf(FrameSplitter),
}

impl WatchReader {
    /// A reader at the beginning of a watch.
    pub fn new(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Json => Self::Json(LineSplitter::new(LONGEST_EVENT)),
            Encoding::Protobuf => Self::Protobuf(FrameSplitter::new(LONGEST_EVENT)),
        }
    }

    /// The encoding that it reads.
    pub fn encoding(&self) -> Encoding {
        match self {
            Self::Json(_) => Encoding::Json,
            Self::Protobuf(_) => Encoding::Protobuf,
        }
    }

    /// Adds the next chunk.
    pub fn feed(&mut self, chunk: &[u8]) {
        match self {
            Self::Json(lines) => lines.feed(chunk),
            Self::Protobuf(frames) => frames.feed(chunk),
        }
    }

    /// The next complete event.
    ///
    /// # Errors
    ///
    /// The next line or frame is not an event.
    pub fn next(&mut self, reader: &mut FactsReader) -> Result<Option<DecodedEvent>, EventError> {
        let fault = |error: &dyn std::error::Error| EventError(error.to_string());
        match self {
            Self::Json(lines) => {
                let line: Option<Bytes> = lines.next_line().map_err(|error| fault(&error))?;
                line.map(|line| DecodedEvent::read(&line, reader)).transpose()
            }
            Self::Protobuf(frames) => {
                let frame: Option<Bytes> = frames.next_frame().map_err(|error| fault(&error))?;
                frame.map(|frame| Ok(DecodedEvent::of(protobuf::read_event(&frame)?, reader))).transpose()
            }
        }
    }
}

impl Status {
    /// Reads a `Status`. A body that is not a `Status` gives an empty one.
    pub fn read(encoding: Encoding, body: &[u8]) -> Self {
        let read = match encoding {
            Encoding::Json => Self::read_json(body),
            Encoding::Protobuf => protobuf::read_status(body),
        };
        read.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_the_encoding_of_its_content_type() {
        let encoding = |content_type: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
            Encoding::of(&headers)
        };
        for protobuf in [
            "application/vnd.kubernetes.protobuf",
            "application/vnd.kubernetes.protobuf;stream=watch",
            "Application/vnd.kubernetes.Protobuf ; stream=watch",
        ] {
            assert_eq!(encoding(protobuf), Encoding::Protobuf, "{protobuf}");
        }
        for json in ["application/json", "application/json;stream=watch", "text/plain", ""] {
            assert_eq!(encoding(json), Encoding::Json, "{json}");
        }
        assert_eq!(Encoding::of(&HeaderMap::new()), Encoding::Json);
    }
}
