//! The encoding of request bodies.

use dashmap::DashMap;

use kube_gc_core::object::GroupResource;
use kube_gc_decode::Encoding;

/// The encoding in which each type is written to. A type whose list or watch was answered in
/// protobuf is taken to accept it as well, as kube-apiserver does for built-in and custom
/// types. A type that refuses a body in protobuf gets JSON from then on: something between
/// here and the server may inspect bodies. Bounded by the number of types.
#[derive(Debug, Default)]
pub struct WriteEncodings(DashMap<GroupResource, Encoding>);

impl WriteEncodings {
    /// A list or a watch of the type was answered in this encoding.
    pub fn answered(&self, resource: &GroupResource, encoding: Encoding) {
        if encoding == Encoding::Protobuf && !self.0.contains_key(resource) {
            self.0.entry(resource.clone()).or_insert(encoding);
        }
    }

    /// A request body was refused because of its encoding.
    pub fn refused(&self, resource: &GroupResource) {
        self.0.insert(resource.clone(), Encoding::Json);
    }

    pub fn of(&self, resource: &GroupResource) -> Encoding {
        self.0.get(resource).map_or(Encoding::Json, |encoding| *encoding)
    }
}
