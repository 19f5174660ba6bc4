//! The entry point of the memory test: reads the body of a list with the calls that the
//! collector makes.

use crate::{Encoding, FactsReader, ListReader};
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
