//! Objects as kubectl names them.

use kube_gc_core::object::split_api_version;
use kube_gc_core::text::escape::Escaped;
use kube_gc_insight::ObjectName;

/// `pod/web`, `deployment.apps/web`. The text is escaped.
pub fn kubectl_name(object: &ObjectName) -> String {
    let (group, _) = split_api_version(&object.api_version);
    let dot = if group.is_empty() { "" } else { "." };
    let kind = object.kind.to_lowercase();
    format!("{}{dot}{}/{}", Escaped(kind), Escaped(group), Escaped(&object.name))
}
