//! The messages: `PartialObjectMetadata` and `Status`.

use serde::de::IgnoredAny;

use super::text;
use super::wire::{Fields, Malformed, Once};
use crate::object::{FinalizersView, MetadataView, ObjectView, Owners, ReferenceView};
use crate::status::{Cause, Details};
use crate::watch::INITIAL_EVENTS_END;
use crate::{Bookmark, Keyed, Status, Text};
use kube_gc_core::object::ResourceVersion;

/// Reads an object. If it cannot be read, the error contains its name.
pub fn object(message: &[u8]) -> Result<ObjectView<'_>, String> {
    let mut metadata = Once::default();
    let mut fields = Fields::of(message);
    let outer = loop {
        match fields.next() {
            Ok(Some((1, value))) => match value.bytes().and_then(|bytes| metadata.set(bytes)) {
                Ok(()) => {}
                Err(error) => break Err(error),
            },
            Ok(Some(_)) => {}
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let bytes = metadata.get().unwrap_or_default();
    outer
        .and_then(|()| read_metadata(bytes))
        .map(|metadata| ObjectView { metadata })
        .map_err(|error| format!("{error}{}", whose(bytes)))
}

/// `ObjectMeta`.
fn read_metadata(message: &[u8]) -> Result<MetadataView<'_>, Malformed> {
    let (mut name, mut namespace) = (Once::default(), Once::default());
    let (mut uid, mut resource_version) = (Once::default(), Once::default());
    let (mut deleted, mut grace) = (Once::default(), Once::default());
    let (mut owners, mut finalizers) = (Owners::default(), FinalizersView::default());
    let mut fields = Fields::of(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => name.set(value.bytes()?)?,
            3 => namespace.set(value.bytes()?)?,
            5 => uid.set(value.bytes()?)?,
            6 => resource_version.set(value.bytes()?)?,
            9 => deleted.set(value.bytes()?)?,
            10 => grace.set(value.number()?.cast_signed())?,
            13 => owners.add(&reference(value.bytes()?)?),
            14 => finalizers.add(&text(value.bytes()?)),
            _ => {}
        }
    }
    Ok(MetadataView {
        name: name.text(),
        namespace: namespace.text(),
        uid: uid.text(),
        resource_version: resource_version.text(),
        owner_references: owners,
        finalizers,
        // The zero time is an empty message in protobuf, and `null` in JSON.
        deletion_timestamp: deleted.get().filter(|timestamp| !timestamp.is_empty()).map(|_| IgnoredAny),
        deletion_grace_period_seconds: grace.get(),
    })
}

/// Reads the object of a bookmark.
pub fn bookmark(message: &[u8]) -> Result<Bookmark, Malformed> {
    let (mut metadata, mut version, mut end) = (Once::default(), Once::default(), Once::default());
    let mut fields = Fields::of(message);
    while let Some((number, value)) = fields.next()? {
        if number == 1 {
            metadata.set(value.bytes()?)?;
        }
    }
    let mut fields = Fields::of(metadata.get().unwrap_or_default());
    while let Some((number, value)) = fields.next()? {
        match number {
            6 => version.set(value.bytes()?)?,
            12 => {
                let (key, value) = annotation(value.bytes()?)?;
                if &*key == INITIAL_EVENTS_END {
                    end.set(value)?;
                }
            }
            _ => {}
        }
    }
    Ok(Bookmark {
        version: ResourceVersion::parse(&version.text()),
        ends_list: end.get().is_some_and(|value| &*value == "true"),
    })
}

/// An entry of a map of strings.
fn annotation(message: &[u8]) -> Result<(Text<'_>, Text<'_>), Malformed> {
    let (mut key, mut content) = (Once::default(), Once::default());
    let mut fields = Fields::of(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => key.set(value.bytes()?)?,
            2 => content.set(value.bytes()?)?,
            _ => {}
        }
    }
    Ok((key.text(), content.text()))
}

/// `OwnerReference`.
fn reference(message: &[u8]) -> Result<ReferenceView<'_>, Malformed> {
    let (mut api_version, mut kind) = (Once::default(), Once::default());
    let (mut name, mut uid) = (Once::default(), Once::default());
    let (mut controller, mut blocks) = (Once::default(), Once::default());
    let mut fields = Fields::of(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => kind.set(value.bytes()?)?,
            3 => name.set(value.bytes()?)?,
            4 => uid.set(value.bytes()?)?,
            5 => api_version.set(value.bytes()?)?,
            6 => controller.set(value.flag()?)?,
            7 => blocks.set(value.flag()?)?,
            _ => {}
        }
    }
    Ok(ReferenceView {
        api_version: api_version.text(),
        kind: kind.text(),
        name: name.text(),
        uid: uid.text(),
        controller: controller.get(),
        block_owner_deletion: blocks.get(),
    })
}

/// The name in metadata that cannot be read completely, for an error message.
fn whose(metadata: &[u8]) -> String {
    let mut fields = Fields::of(metadata);
    let (mut namespace, mut name) = (None, None);
    while let Ok(Some((number, value))) = fields.next() {
        match (number, value.bytes()) {
            (1, Ok(bytes)) => name = Some(text(bytes)),
            (3, Ok(bytes)) if !bytes.is_empty() => namespace = Some(text(bytes)),
            _ => {}
        }
    }
    match (namespace, name) {
        (None, None) => String::new(),
        (namespace, name) => {
            let parts: Vec<&str> = [&namespace, &name].into_iter().flatten().map(|part| &**part).collect();
            format!(" (the metadata of {:?})", parts.join("/"))
        }
    }
}

/// `Status`.
pub fn status(message: &[u8]) -> Result<Status, Malformed> {
    let (mut words, mut reason) = (Once::default(), Once::default());
    let (mut details, mut code) = (Once::default(), Once::default());
    let mut fields = Fields::of(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            3 => words.set(value.bytes()?)?,
            4 => reason.set(value.bytes()?)?,
            5 => details.set(value.bytes()?)?,
            6 => code.set(value.number()?)?,
            _ => {}
        }
    }
    let code = code.get().unwrap_or_default();
    Ok(Status {
        message: words.text().to_string(),
        code: u16::try_from(code).map_err(|_| Malformed("has an invalid status code"))?,
        reason: reason.text().to_string(),
        details: read_details(details.get().unwrap_or_default())?,
    })
}

fn read_details(message: &[u8]) -> Result<Details, Malformed> {
    let (mut name, mut group, mut kind) = (Once::default(), Once::default(), Once::default());
    let (mut causes, mut retry_after) = (Vec::new(), Once::default());
    let mut fields = Fields::of(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => name.set(value.bytes()?)?,
            2 => group.set(value.bytes()?)?,
            3 => kind.set(value.bytes()?)?,
            4 => causes.push(Keyed(cause(value.bytes()?)?)),
            5 => retry_after.set(value.number()?)?,
            _ => {}
        }
    }
    Ok(Details {
        name: name.text().to_string(),
        group: group.text().to_string(),
        kind: kind.text().to_string(),
        causes,
        // An `int32`: a negative one comes as a huge number.
        retry_after_seconds: retry_after.get().filter(|seconds| i32::try_from(*seconds).is_ok()).unwrap_or(0),
    })
}

fn cause(message: &[u8]) -> Result<Cause, Malformed> {
    let (mut reason, mut field) = (Once::default(), Once::default());
    let mut fields = Fields::of(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => reason.set(value.bytes()?)?,
            3 => field.set(value.bytes()?)?,
            _ => {}
        }
    }
    Ok(Cause { reason: reason.text().to_string(), field: field.text().to_string() })
}
