//! Entry points of the benchmarks: reads the bodies of lists and watches with the calls that
//! the collector makes.

use crate::{DecodedEvent, Encoding, FactsReader, ListReader, WatchReader};
use kube_gc_core::object::ObjectFacts;

/// The facts of the items in a JSON list.
///
/// # Errors
///
/// It cannot be read.
pub fn list<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Result<Vec<ObjectFacts>, String> {
    let (mut list, mut reader) = (ListReader::new(Encoding::Json), FactsReader::default());
    let mut batch = Vec::new();
    for chunk in chunks {
        list.feed(chunk, &mut |item| {
            batch.extend(reader.read(Encoding::Json, item)?.object);
            Ok(())
        })?;
    }
    list.finish()?;
    Ok(batch)
}

/// The facts of the objects in a JSON watch.
///
/// # Errors
///
/// It cannot be read.
pub fn watch<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Result<Vec<ObjectFacts>, String> {
    objects_of(WatchReader::new(Encoding::Json), chunks)
}

/// The facts of the objects in a protobuf watch.
///
/// # Errors
///
/// It cannot be read.
pub fn watch_protobuf<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Result<Vec<ObjectFacts>, String> {
    objects_of(WatchReader::new(Encoding::Protobuf), chunks)
}

fn objects_of<'a>(
    mut events: WatchReader,
    chunks: impl Iterator<Item = &'a [u8]>,
) -> Result<Vec<ObjectFacts>, String> {
    let mut reader = FactsReader::default();
    let mut batch = Vec::new();
    for chunk in chunks {
        events.feed(chunk);
        while let Some(event) = events.next_event()? {
            if let DecodedEvent::Object(_, object) = event {
                batch.extend(reader.read(events.encoding(), &object)?.object);
            }
        }
    }
    Ok(batch)
}
