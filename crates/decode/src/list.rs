//! Reads a list while it arrives.
//!
//! The first list comes in one piece from the server's watch cache, and may have hundreds of
//! megabytes. The readers find the items in the stream of chunks and pass them on one by
//! one, so that they buffer at most one item.

use serde::de::IgnoredAny;

use super::protobuf::ListParser;
use super::{Encoding, Keyed, Text, keyed_or_default, read_json};
use kube_gc_core::object::ResourceVersion;

/// A list without its items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    pub resource_version: Option<ResourceVersion>,
    /// The continue token; empty on the last page.
    pub next: String,
}

impl Envelope {
    /// Reads a JSON list whose items were taken out.
    fn from_json(json: &[u8]) -> Result<Self, String> {
        #[derive(serde::Deserialize)]
        struct List<'a> {
            #[serde(borrow, default)]
            kind: Text<'a>,
            #[serde(borrow, default, deserialize_with = "keyed_or_default")]
            metadata: Metadata<'a>,
            /// The scanner has removed the items that it recognizes. Remaining ones have a form that
            /// it does not know, and must not read as an empty list.
            #[serde(default, rename = "items")]
            _items: Option<[IgnoredAny; 0]>,
        }
        #[derive(Default, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Metadata<'a> {
            #[serde(borrow)]
            resource_version: Text<'a>,
            #[serde(borrow, rename = "continue")]
            next: Text<'a>,
        }
        let Keyed(list): Keyed<List<'_>> = read_json(json)?;
        // A single object would otherwise read as an empty list, and all objects would count as
        // gone.
        if !list.kind.ends_with("List") {
            return Err("the response is not a list".into());
        }
        Ok(Self {
            resource_version: ResourceVersion::parse(&list.metadata.resource_version),
            next: list.metadata.next.to_string(),
        })
    }
}

/// The greatest length of an item, and of the list without its items. etcd accepts at most a
/// few MiB.
pub(super) const LONGEST: usize = 16 << 20;

pub(super) fn part_too_long() -> String {
    format!("a part of the list is longer than {LONGEST} bytes")
}

/// Receives the bytes of each item; an error ends the list.
pub type OnItem<'a> = dyn FnMut(&[u8]) -> Result<(), String> + 'a;

/// Reads a list.
#[derive(Debug)]
pub enum ListReader {
    Json(ListScanner),
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

    /// Reads a list that has arrived.
    ///
    /// # Errors
    ///
    /// As of [`feed`](Self::feed) and [`finish`](Self::finish).
    pub fn read(encoding: Encoding, body: &[u8], on_item: &mut OnItem<'_>) -> Result<Envelope, String> {
        let mut reader = Self::new(encoding);
        reader.feed(body, on_item)?;
        reader.finish()
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
    /// The error of `on_item`, or the body is not a list.
    pub fn feed(&mut self, chunk: &[u8], on_item: &mut OnItem<'_>) -> Result<(), String> {
        match self {
            Self::Json(scanner) => scanner.feed(chunk, on_item),
            Self::Protobuf(parser) => parser.feed(chunk, on_item),
        }
    }

    /// The envelope as far as it is known before the first item. Servers write it first, so a list
    /// that is too old is found before its items are read.
    pub fn preview(&self) -> Option<Envelope> {
        let envelope = match self {
            Self::Json(scanner) => scanner.preview(),
            Self::Protobuf(parser) => parser.envelope.clone(),
        };
        envelope.filter(|envelope| envelope.resource_version.is_some())
    }

    /// The envelope, after the end of the body.
    ///
    /// # Errors
    ///
    /// The body ended early, or it is not a list.
    pub fn finish(self) -> Result<Envelope, String> {
        match self {
            Self::Json(scanner) => scanner.finish(),
            Self::Protobuf(parser) => parser.finish(),
        }
    }
}

#[derive(Debug, Default)]
enum Section {
    /// Outside the items.
    #[default]
    Around,
    /// In the `items` array, between items.
    Between,
    /// In an item.
    Item,
}

/// Splits a JSON list into its items and the rest.
#[derive(Debug, Default)]
pub struct ListScanner {
    section: Section,
    /// Open braces and brackets: those of the list outside items, those of the item inside.
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The list without its items.
    around: Vec<u8>,
    /// The length of the part of `around` before the items.
    head: Option<usize>,
    /// The position in `around` of the last string at the top level of the list.
    key: (usize, usize),
    /// The beginning of an item that the end of a chunk cut.
    torn: Vec<u8>,
}

impl ListScanner {
    fn feed(&mut self, chunk: &[u8], on_item: &mut OnItem<'_>) -> Result<(), String> {
        let mut item_start = 0;
        let mut at = 0;
        while at < chunk.len() {
            if self.in_string && !self.escaped && matches!(self.section, Section::Item) {
                // Most bytes are in strings: skip them at once.
                match memchr::memchr2(b'"', b'\\', &chunk[at..]) {
                    Some(steps) => at += steps,
                    None => break,
                }
            }
            let byte = chunk[at];
            match self.section {
                Section::Around => self.around(byte)?,
                Section::Between => match byte {
                    b'{' => (self.section, self.depth, item_start) = (Section::Item, 1, at),
                    b']' => {
                        (self.section, self.depth) = (Section::Around, 1);
                        self.around.push(byte);
                    }
                    b',' | b' ' | b'\t' | b'\r' | b'\n' => {}
                    _ => return Err("an item of the list is no object".into()),
                },
                Section::Item => {
                    if self.item_ends(byte) {
                        self.section = Section::Between;
                        let end = &chunk[item_start..=at];
                        if self.torn.is_empty() {
                            on_item(end)?;
                        } else {
                            self.torn.extend_from_slice(end);
                            on_item(&std::mem::take(&mut self.torn))?;
                        }
                    }
                }
            }
            at += 1;
        }
        if matches!(self.section, Section::Item) {
            self.torn.extend_from_slice(&chunk[item_start..]);
        }
        if self.torn.len() > LONGEST || self.around.len() > LONGEST {
            return Err(part_too_long());
        }
        Ok(())
    }

    /// Tracks quotes; true while the byte belongs to a string.
    fn string(&mut self, byte: u8) -> bool {
        if !self.in_string {
            self.in_string = byte == b'"';
            return self.in_string;
        }
        if self.escaped {
            self.escaped = false;
        } else if byte == b'\\' {
            self.escaped = true;
        } else if byte == b'"' {
            self.in_string = false;
        }
        true
    }

    fn item_ends(&mut self, byte: u8) -> bool {
        if !self.string(byte) {
            match byte {
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth -= 1,
                _ => {}
            }
        }
        self.depth == 0
    }

    fn around(&mut self, byte: u8) -> Result<(), String> {
        let was_in_string = self.in_string;
        let in_string = self.string(byte);
        if in_string && self.depth == 1 {
            if !was_in_string {
                self.key.0 = self.around.len();
            }
            self.key.1 = self.around.len() + 1;
        }
        self.around.push(byte);
        if in_string {
            return Ok(());
        }
        match byte {
            b'[' if self.depth == 1 && &self.around[self.key.0..self.key.1] == b"\"items\"" => {
                self.section = Section::Between;
                self.head = Some(self.around.len());
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth =
                    self.depth.checked_sub(1).ok_or_else(|| "the response is not JSON".to_owned())?;
            }
            _ => {}
        }
        Ok(())
    }

    fn preview(&self) -> Option<Envelope> {
        let mut text = self.around[..self.head?].to_vec();
        text.extend_from_slice(b"]}");
        Envelope::from_json(&text).ok()
    }

    fn finish(self) -> Result<Envelope, String> {
        if !matches!(self.section, Section::Around) {
            return Err("the list is cut off".into());
        }
        Envelope::from_json(&self.around)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decoded, fuzzing};

    fn read(body: &str) -> Result<Envelope, String> {
        let on_item = &mut |item: &[u8]| Decoded::read(Encoding::Json, item).map(drop);
        ListReader::read(Encoding::Json, body.as_bytes(), on_item)
    }

    const LIST: &str = r#"{ "kind":"PartialObjectMetadataList", "x":{"items":[1]},
        "metadata":{"resourceVersion":"12","continue":"abc\"d"}, "items" : [ {"a":"}]{\\\""} ,{"items":[{}]}],
        "after":[["y"]]}"#;

    #[test]
    fn an_incomplete_list_is_an_error() {
        for body in [
            "",
            "{}",
            "[]",
            "null",
            "]",
            r#"{"kind":"Widget","metadata":{}}"#,
            r#"{"kind":"WidgetList","items":[{"a":1}"#,
            r#"{"kind":"WidgetList","items":[{"a":"#,
            r#"{"kind":"WidgetList","items":[null]}"#,
            r#"{"kind":"WidgetList","items":[]"#,
            r#"["WidgetList",{"resourceVersion":"7"}]"#,
            r#"{"kind":"WidgetList","metadata":["7"],"items":[]}"#,
            r#"{"kind":"WidgetList","items":{"a":1}}"#,
            r#"{"kind":"WidgetList","items":[{"a":1}],"items":[]}"#,
            r#"{"kind":"WidgetList","\u0069tems":[{"a":1}]}"#,
        ] {
            assert!(read(body).is_err(), "{body}");
        }
    }

    #[test]
    fn the_version_is_known_before_the_items() {
        let preview = |start: &[u8]| {
            let mut scanner = ListReader::new(Encoding::Json);
            scanner.feed(start, &mut |_| Ok(())).unwrap();
            scanner.preview()
        };
        let start = br#"{"kind":"WidgetList","metadata":{"resourceVersion":"5"},"items":[{"a":"#;
        assert_eq!(preview(start).unwrap().resource_version, Some(ResourceVersion::number(5)));
        assert_eq!(preview(br#"{"kind":"WidgetList","items":[{"a":"#), None);
    }

    #[test]
    fn a_list_is_read_in_any_chunks_as_from_its_tree() {
        fuzzing::list(LIST.as_bytes());
        assert_eq!(read(LIST).unwrap().next, "abc\"d");
        let items = ["[]", "null", r#"[{"metadata":["a"]}]"#, r#"[{},{"a" 1}]"#, "[{]}]", "[5]"];
        for items in items.into_iter().chain([r#"[{"metadata":{"uid":5}},{}]"#]) {
            let list =
                format!(r#"{{"kind":"WidgetList","metadata":{{"resourceVersion":"1"}},"items":{items}}}"#);
            fuzzing::list(list.as_bytes());
            assert_eq!(read(&list).is_ok(), matches!(items, "[]" | "null"), "{list}");
        }
    }
}
