//! Reads a JSON list while it arrives.
//!
//! The first list comes in one piece from the server's watch cache, and may have hundreds of
//! megabytes. The scanner finds the items in the stream of chunks and passes them on one by
//! one, so that it buffers at most one item.

use serde::de::IgnoredAny;

use super::{Keyed, ObjectView, Text, json_fault, keyed_or_default};
use kube_gc_core::object::ResourceVersion;

/// Why a list cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ListError(pub String);

/// A list without its items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    /// The list's version.
    pub resource_version: Option<ResourceVersion>,
    /// The continue token; empty on the last page.
    pub next: String,
}

impl Envelope {
    /// Reads a JSON list whose items were taken out.
    pub(super) fn from_json(json: &[u8]) -> Result<Self, ListError> {
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
        let Keyed(list): Keyed<List<'_>> =
            serde_json::from_slice(json).map_err(|error| ListError(json_fault(&error)))?;
        // A single object would otherwise read as an empty list, and all objects would count as
        // gone.
        if !list.kind.ends_with("List") {
            return Err(ListError("the response is not a list".into()));
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

/// Splits a list into its items and the rest.
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

/// Receives the items.
trait ItemSink {
    /// Bytes that begin with an item, which may be incomplete. Reads it and returns its length,
    /// or `None` if it cannot.
    fn take_in_place(&mut self, rest: &[u8]) -> Option<usize>;

    /// An item that was not read in place.
    fn take(&mut self, item: &[u8]) -> Result<(), ListError>;
}

/// Receives each item as bytes.
#[cfg(any(test, feature = "internals"))]
struct ItemBytes<F>(F);

#[cfg(any(test, feature = "internals"))]
impl<F: FnMut(&[u8]) -> Result<(), ListError>> ItemSink for ItemBytes<F> {
    fn take_in_place(&mut self, _: &[u8]) -> Option<usize> {
        None
    }

    fn take(&mut self, item: &[u8]) -> Result<(), ListError> {
        self.0(item)
    }
}

/// Reads items in place, without finding their ends first.
struct Read<'a>(&'a mut dyn FnMut(ObjectView<'_>));

impl ItemSink for Read<'_> {
    fn take_in_place(&mut self, rest: &[u8]) -> Option<usize> {
        let mut views = serde_json::Deserializer::from_slice(rest).into_iter::<ObjectView<'_>>();
        // Usually the item is only incomplete. A real error is found again, and reported, once
        // the item is complete.
        let view = views.next()?.ok()?;
        let length = views.byte_offset();
        (self.0)(view);
        Some(length)
    }

    fn take(&mut self, item: &[u8]) -> Result<(), ListError> {
        let view = ObjectView::read(item).map_err(|error| ListError(json_fault(&error)))?;
        (self.0)(view);
        Ok(())
    }
}

impl ListScanner {
    /// Reads the next chunk, and calls `on_item` for each item that it completes.
    ///
    /// # Errors
    ///
    /// The error of `on_item`, or the body is not a list.
    #[cfg(any(test, feature = "internals"))]
    pub fn feed(
        &mut self,
        chunk: &[u8],
        on_item: impl FnMut(&[u8]) -> Result<(), ListError>,
    ) -> Result<(), ListError> {
        self.scan(chunk, &mut ItemBytes(on_item))
    }

    /// Reads the next chunk and its items: in place if the chunk contains the whole item.
    ///
    /// # Errors
    ///
    /// An item cannot be read, or the body is not a list.
    pub fn read(&mut self, chunk: &[u8], on_item: &mut dyn FnMut(ObjectView<'_>)) -> Result<(), ListError> {
        self.scan(chunk, &mut Read(on_item))
    }

    fn scan(&mut self, chunk: &[u8], taker: &mut impl ItemSink) -> Result<(), ListError> {
        let mut item_start = 0;
        let mut at = 0;
        while at < chunk.len() {
            if self.in_string && !self.escaped && matches!(self.section, Section::Item) {
                // Most bytes are in strings: skip them at once.
                match chunk[at..].iter().position(|byte| matches!(byte, b'"' | b'\\')) {
                    Some(steps) => at += steps,
                    None => break,
                }
            }
            let byte = chunk[at];
            match self.section {
                Section::Around => self.around(byte)?,
                Section::Between => match byte {
                    b'{' => match taker.take_in_place(&chunk[at..]) {
                        Some(length) => {
                            at += length;
                            continue;
                        }
                        None => (self.section, self.depth, item_start) = (Section::Item, 1, at),
                    },
                    b']' => {
                        (self.section, self.depth) = (Section::Around, 1);
                        self.around.push(byte);
                    }
                    b',' | b' ' | b'\t' | b'\r' | b'\n' => {}
                    _ => return Err(ListError("an item of the list is no object".into())),
                },
                Section::Item => {
                    if self.item_ends(byte) {
                        self.section = Section::Between;
                        let end = &chunk[item_start..=at];
                        if self.torn.is_empty() {
                            taker.take(end)?;
                        } else {
                            self.torn.extend_from_slice(end);
                            let result = taker.take(&self.torn);
                            self.torn.clear();
                            result?;
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
            return Err(ListError(format!("a part of the list is longer than {LONGEST} bytes")));
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

    fn around(&mut self, byte: u8) -> Result<(), ListError> {
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
                    self.depth.checked_sub(1).ok_or_else(|| ListError("the response is not JSON".into()))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The envelope as far as it is known before the first item. Go writes the metadata first,
    /// so a list that is too old is found before its items are read.
    pub fn preview(&self) -> Option<Envelope> {
        let mut text = self.around[..self.head?].to_vec();
        text.extend_from_slice(b"]}");
        Envelope::from_json(&text).ok().filter(|envelope| envelope.resource_version.is_some())
    }

    /// The envelope, after the end of the body.
    ///
    /// # Errors
    ///
    /// The body ended early, or it is not a list.
    pub fn finish(self) -> Result<Envelope, ListError> {
        if !matches!(self.section, Section::Around) {
            return Err(ListError("the list is cut off".into()));
        }
        Envelope::from_json(&self.around)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_gc_core::object::ResourceVersion;
    use proptest::prelude::*;

    fn scan(body: &[u8], cuts: &[usize]) -> Result<(Vec<String>, Envelope), ListError> {
        let mut scanner = ListScanner::default();
        let mut items = Vec::new();
        let mut rest = body;
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (chunk, more) = rest.split_at(rest.len().min(*cut));
            scanner.feed(chunk, |item| {
                items.push(String::from_utf8(item.to_vec()).unwrap());
                Ok(())
            })?;
            rest = more;
        }
        Ok((items, scanner.finish()?))
    }

    fn read(body: &[u8], cuts: &[usize]) -> Result<Vec<Option<ResourceVersion>>, ListError> {
        let (mut scanner, mut versions) = (ListScanner::default(), Vec::new());
        let mut rest = body;
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (chunk, more) = rest.split_at(rest.len().min(*cut));
            scanner.read(chunk, &mut |view| versions.push(view.resource_version()))?;
            rest = more;
        }
        scanner.finish().map(|_| versions)
    }

    const LIST: &str = r#"{ "kind":"PartialObjectMetadataList", "x":{"items":[1]},
        "metadata":{"resourceVersion":"12","continue":"abc\"d"}, "items" : [ {"a":"}]{\\\""} ,{"items":[{}]}],
        "after":[["y"]]}"#;

    #[test]
    fn items_come_out_whole_and_the_envelope_is_read() {
        let (items, envelope) = scan(LIST.as_bytes(), &[LIST.len()]).unwrap();
        assert_eq!(items, [r#"{"a":"}]{\\\""}"#, r#"{"items":[{}]}"#]);
        assert_eq!(envelope.resource_version, Some(ResourceVersion::number(12)));
        assert_eq!(envelope.next, "abc\"d");
    }

    #[test]
    fn a_list_without_items_is_empty() {
        for items in ["null", "[]"] {
            let body =
                format!(r#"{{"kind":"WidgetList","metadata":{{"resourceVersion":"1"}},"items":{items}}}"#);
            assert_eq!(scan(body.as_bytes(), &[7]).unwrap().0.len(), 0);
        }
    }

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
            assert!(scan(body.as_bytes(), &[100]).is_err(), "{body}");
        }
    }

    #[test]
    fn the_version_is_known_before_the_items() {
        let mut scanner = ListScanner::default();
        let start = br#"{"kind":"WidgetList","metadata":{"resourceVersion":"5"},"items":[{"a":"#;
        scanner.feed(start, |_| Ok(())).unwrap();
        assert_eq!(scanner.preview().unwrap().resource_version, Some(ResourceVersion::number(5)));
        let mut scanner = ListScanner::default();
        scanner.feed(br#"{"kind":"WidgetList","items":[{"a":"#, |_| Ok(())).unwrap();
        assert_eq!(scanner.preview(), None);
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(cuts in prop::collection::vec(1_usize..30, 1..60)) {
            prop_assert_eq!(scan(LIST.as_bytes(), &cuts), scan(LIST.as_bytes(), &[LIST.len()]));
        }

        #[test]
        fn items_are_read_wherever_a_chunk_ends(cuts in prop::collection::vec(1_usize..200, 1..60)) {
            let list = r#"{"kind":"WidgetList","metadata":{"resourceVersion":"9"},"items":[
                {"spec":{"a":-1.5e3,"b":"}]\""},"metadata":{"resourceVersion":"1","deletionGracePeriodSeconds":-30}},
                {}, {"metadata":{"labels":{"a":"\u00e4ä"},"resourceVersion":"3"}}]}"#;
            let expected = [Some(ResourceVersion::number(1)), None, Some(ResourceVersion::number(3))];
            prop_assert_eq!(read(list.as_bytes(), &cuts), Ok(expected.to_vec()));
        }

        #[test]
        fn an_item_that_cannot_be_read_is_an_error(cuts in prop::collection::vec(1_usize..60, 1..20)) {
            for item in [r#"{"metadata":["a"]}"#, r#"{"a" 1}"#, r#"{"metadata":{"uid":5}}"#, "{]}", "5"] {
                let list = format!(r#"{{"kind":"WidgetList","items":[{{}},{item},{{}}]}}"#);
                prop_assert!(read(list.as_bytes(), &cuts).is_err(), "{}", list);
            }
        }
    }
}
