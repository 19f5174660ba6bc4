//! A frame of a watch.

use super::wire::{Fields, Malformed, Once};
use super::{METADATA_VERSION, Typed, object};
use crate::watch::{EventError, EventType, EventView};

/// Reads a frame: the type of the event, and its object, which has its own type.
///
/// # Errors
///
/// It is not an event of a known type, or its object is not metadata.
pub fn read_event(frame: &[u8]) -> Result<EventView<'_>, EventError> {
    let fault = |error: Malformed| EventError(error.to_string());
    let (event_type, typed) = parts(frame).map_err(fault)?;
    let is_metadata = &*typed.kind == "PartialObjectMetadata" && &*typed.api_version == METADATA_VERSION;
    let is_status = &*typed.kind == "Status" && &*typed.api_version == "v1";
    let read_object = || object::object(typed.raw).map_err(EventError);
    match event_type {
        EventType::Object(now) if is_metadata => Ok(EventView::Object { now, view: read_object()? }),
        EventType::Bookmark if is_metadata => {
            object::bookmark(typed.raw).map(EventView::Bookmark).map_err(fault)
        }
        EventType::Error if is_status => object::status(typed.raw).map(EventView::Error).map_err(fault),
        EventType::Object(_) | EventType::Bookmark | EventType::Error => {
            Err(EventError("the object of the event is not metadata".into()))
        }
    }
}

fn parts(frame: &[u8]) -> Result<(EventType, Typed<'_>), Malformed> {
    let (mut event_type, mut embedded) = (Once::default(), Once::default());
    let mut fields = Fields::of(frame);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => event_type.set(value.bytes()?)?,
            2 => embedded.set(value.bytes()?)?,
            _ => {}
        }
    }
    let event_type = std::str::from_utf8(event_type.required()?)
        .ok()
        .and_then(EventType::parse)
        .ok_or(Malformed("is an event of an unknown type"))?;
    // A `runtime.RawExtension`.
    let mut raw = Once::default();
    let mut fields = Fields::of(embedded.required()?);
    while let Some((number, value)) = fields.next()? {
        if number == 1 {
            raw.set(value.bytes()?)?;
        }
    }
    Ok((event_type, Typed::read(raw.required()?)?))
}
