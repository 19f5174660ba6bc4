//! Reading the bodies of lists and watches, without what surrounds it: the calls
//! that [`ListWatch`](super::ListWatch) makes, for the benchmarks.

use super::decode::{FactsReader, LineSplitter, ListError, ListScanner, WatchLine};
use crate::object::ObjectFacts;

/// The facts of a list's items.
///
/// # Errors
///
/// It cannot be read.
pub fn list<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Result<Vec<ObjectFacts>, String> {
    let (mut scanner, mut reader) = (ListScanner::default(), FactsReader::default());
    let mut batch = Vec::new();
    for chunk in chunks {
        let read = scanner.read(chunk, |view| batch.extend(reader.facts(view)));
        read.map_err(|ListError(message)| message)?;
    }
    scanner.finish().map_err(|ListError(message)| message)?;
    Ok(batch)
}

/// The facts of the objects in a watch's events.
///
/// # Errors
///
/// It cannot be read.
pub fn watch<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Result<Vec<ObjectFacts>, String> {
    let (mut lines, mut reader) = (LineSplitter::new(usize::MAX), FactsReader::default());
    let mut batch = Vec::new();
    for chunk in chunks {
        lines.feed(chunk);
        while let Some(line) = lines.next_line().map_err(|error| error.to_string())? {
            match WatchLine::read(&line, &mut reader).map_err(|error| error.0)? {
                WatchLine::Added(facts) | WatchLine::Modified(facts) | WatchLine::Deleted(facts) => {
                    batch.push(facts);
                }
                WatchLine::Nameless(_) | WatchLine::Bookmark(_) | WatchLine::Error(_) => {}
            }
        }
    }
    Ok(batch)
}
