//! Which types' requests may be written in protobuf.

use dashmap::DashMap;

use crate::api::decode::Encoding;
use kube_gc_core::object::GroupResource;

/// In which encoding to write to each type, found out by what is read of it: one that
/// answers a list or a watch in protobuf is taken to read it as well, as kube-apiserver
/// does for built-in and for custom types. One that refuses it all the same is written
/// JSON to, for good: somebody in between may look into bodies. Bounded by the number of
/// types.
#[derive(Debug, Default)]
pub struct WriteEncodings(DashMap<GroupResource, Encoding>);

impl WriteEncodings {
    /// A list or a watch of this type was answered in this encoding.
    pub fn answered(&self, resource: &GroupResource, encoding: Encoding) {
        if encoding == Encoding::Protobuf && !self.0.contains_key(resource) {
            self.0.entry(resource.clone()).or_insert(encoding);
        }
    }

    /// A request about an object of this type was refused for its encoding.
    pub fn refused(&self, resource: &GroupResource) {
        self.0.insert(resource.clone(), Encoding::Json);
    }

    /// How to write.
    pub fn of(&self, resource: &GroupResource) -> Encoding {
        self.0.get(resource).map_or(Encoding::Json, |encoding| *encoding)
    }
}
