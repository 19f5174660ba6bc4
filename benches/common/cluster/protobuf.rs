//! Watch events in Kubernetes' protobuf.

use super::content::{Created, annotations, api_version, created, labels};
use super::names::{name, namespace, uid};
use super::shape::BUILT_IN;
use super::{Cluster, Number};

/// The first of March 2026, in seconds since 1970.
const MARCH: u64 = 1_772_323_200;

/// Appends the frame of an event about an object at a version.
pub fn event(out: &mut Vec<u8>, cluster: &Cluster, number: Number, happened: &str, version: u64) {
    let mut metadata = Vec::with_capacity(640);
    let mut text = String::with_capacity(64);
    let mut put = |metadata: &mut Vec<u8>, field: u8, write: &dyn Fn(&mut String)| {
        text.clear();
        write(&mut text);
        bytes(metadata, field, text.as_bytes());
    };
    put(&mut metadata, 1, &|out| name(out, cluster, number));
    bytes(&mut metadata, 2, b"");
    let is_namespaced = cluster.resource(number).is_namespaced();
    put(&mut metadata, 3, &|out| {
        if is_namespaced {
            namespace(out, cluster, number);
        }
    });
    bytes(&mut metadata, 4, b"");
    put(&mut metadata, 5, &|out| uid(out, number));
    bytes(&mut metadata, 6, version.to_string().as_bytes());
    integer(&mut metadata, 7, 1);
    let Created { day, hour, minute, second } = created(number);
    let mut time = Vec::with_capacity(8);
    integer(&mut time, 1, MARCH + ((day - 1) * 24 + hour) * 3600 + minute * 60 + second);
    integer(&mut time, 2, 0);
    bytes(&mut metadata, 8, &time);
    let mut pair = Vec::with_capacity(128);
    let mut entry = |metadata: &mut Vec<u8>, field: u8, key: &str, value: &str| {
        pair.clear();
        bytes(&mut pair, 1, key.as_bytes());
        bytes(&mut pair, 2, value.as_bytes());
        bytes(metadata, field, &pair);
    };
    labels(cluster, number, version, &mut |key, value| entry(&mut metadata, 11, key, value));
    annotations(number, &mut |key, value| entry(&mut metadata, 12, key, value));
    if let Some(owner) = cluster.owner(number) {
        let of_owner = &BUILT_IN[cluster.resource(owner).0];
        let mut reference = Vec::with_capacity(128);
        bytes(&mut reference, 1, of_owner.kind.as_bytes());
        put(&mut reference, 3, &|out| name(out, cluster, owner));
        put(&mut reference, 4, &|out| uid(out, owner));
        put(&mut reference, 5, &|out| api_version(out, of_owner));
        integer(&mut reference, 6, 1);
        integer(&mut reference, 7, 1);
        bytes(&mut metadata, 13, &reference);
    }
    frame(out, happened, &metadata);
}

/// Appends the frame of a bookmark at a version.
pub fn bookmark(out: &mut Vec<u8>, version: u64) {
    let mut metadata = Vec::new();
    bytes(&mut metadata, 6, version.to_string().as_bytes());
    frame(out, "BOOKMARK", &metadata);
}

/// A `WatchEvent` with a `PartialObjectMetadata`, preceded by its length.
fn frame(out: &mut Vec<u8>, happened: &str, metadata: &[u8]) {
    let room = metadata.len() + 128;
    let nested = |parts: &[(u8, &[u8])]| {
        let mut message = Vec::with_capacity(room);
        for (field, content) in parts {
            bytes(&mut message, *field, content);
        }
        message
    };
    let kind = nested(&[(1, b"meta.k8s.io/v1"), (2, b"PartialObjectMetadata")]);
    let object = nested(&[(1, metadata)]);
    let typed = [b"k8s\0", &*nested(&[(1, &kind), (2, &object), (3, b""), (4, b"")])].concat();
    let embedded = nested(&[(1, &typed)]);
    let event = nested(&[(1, happened.as_bytes()), (2, &embedded)]);
    // An event has a few hundred bytes.
    out.extend((event.len() as u32).to_be_bytes());
    out.extend(event);
}

fn bytes(out: &mut Vec<u8>, field: u8, content: &[u8]) {
    varint(out, u64::from(field) << 3 | 2);
    varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

fn integer(out: &mut Vec<u8>, field: u8, value: u64) {
    varint(out, u64::from(field) << 3);
    varint(out, value);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
