//! URL paths of objects and collections.
//!
//! The name in an owner reference is arbitrary and becomes part of a URL. It is checked and
//! encoded here, so that it can only name an object of its type.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::error::{ApiError, ErrorClass};
use kube_gc_core::object::{GroupResource, Identity, Namespace, ResourceType, Scope};
use kube_gc_core::text::word;

/// The longest name that is requested. Most types allow 253 characters, some any number, but
/// servers accept no path that is much longer.
const LONGEST_NAME: usize = 4096;

/// The target in error messages: "configmaps ns/name", "nodes name" or "configmaps ns/*".
pub(super) fn describe(resource: &GroupResource, namespace: Option<&str>, name: Option<&str>) -> String {
    let name = name.or(namespace.map(|_| "*")).map(word);
    match (namespace, name) {
        (Some(namespace), Some(name)) => format!("{resource} {}/{name}", word(namespace)),
        (_, Some(name)) => format!("{resource} {name}"),
        (_, None) => resource.to_string(),
    }
}

/// The same for an object.
pub(super) fn describe_object(identity: &Identity) -> String {
    let namespace = identity.namespace.as_ref().map(Namespace::as_str);
    describe(&identity.resource.group_resource, namespace, Some(&identity.name))
}

/// The path of a collection in one namespace or in all.
pub(super) fn collection(resource: &ResourceType, namespace: Option<&str>) -> String {
    let GroupResource { group, resource: plural } = &resource.group_resource;
    let mut path = String::with_capacity(64);
    path.push_str(if group.is_empty() { "/api" } else { "/apis" });
    if !group.is_empty() {
        segment(&mut path, group);
    }
    segment(&mut path, &resource.version);
    if let Some(namespace) = namespace {
        segment(&mut path, "namespaces");
        segment(&mut path, namespace);
    }
    segment(&mut path, plural);
    path
}

/// The path of an object.
///
/// # Errors
///
/// No object can have this identity: the name is invalid, or it has a namespace and the type
/// has none, or the reverse. The server's answer would not be the object's own 404.
pub(super) fn object(
    action: &'static str,
    resource: &ResourceType,
    namespace: Option<&str>,
    name: &str,
) -> Result<String, ApiError> {
    let refuse = |message: &str| {
        let target = describe(&resource.group_resource, namespace, Some(name));
        ApiError::new(ErrorClass::Refused, action, target, message)
    };
    match (resource.scope, namespace) {
        (Scope::Namespaced, None) => {
            return Err(refuse("this type is namespaced, but the reference has no namespace"));
        }
        (Scope::Cluster, Some(_)) => {
            return Err(refuse("this type is cluster-scoped, but the reference has a namespace"));
        }
        _ => {}
    }
    for part in [namespace, Some(name)].into_iter().flatten() {
        let is_too_long = part.len() > LONGEST_NAME;
        if is_too_long || matches!(part, "" | "." | "..") || part.contains(['/', '%']) {
            return Err(refuse("the name is invalid: no object can have it"));
        }
    }
    let mut path = collection(resource, namespace);
    segment(&mut path, name);
    Ok(path)
}

/// The path of an object; `None` if no object can have this identity.
pub fn path_of(Identity { resource, namespace, name, .. }: &Identity) -> Option<String> {
    object("GET", resource, namespace.as_ref().map(Namespace::as_str), name).ok()
}

/// Appends `/` and the text, percent-encoded.
fn segment(path: &mut String, text: &str) {
    path.push('/');
    encode(path, text);
}

/// What stays as it is: RFC 3986's unreserved characters and the `:` of RBAC names.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// Appends the text, percent-encoded; fit for a query value too.
pub fn encode(path: &mut String, text: &str) {
    path.extend(utf8_percent_encode(text, ENCODED));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(scope: Scope, namespace: &str, name: &str) -> Result<String, ApiError> {
        let widgets = ResourceType::of("widgets.example.com", "v1", "Widget", scope);
        super::object("GET", &widgets, Some(namespace).filter(|text| !text.is_empty()), name)
    }

    #[test]
    fn paths_agree_with_the_api_conventions() {
        let object_path = object(Scope::Namespaced, "ns", "system:x").unwrap();
        assert_eq!(object_path, "/apis/example.com/v1/namespaces/ns/widgets/system:x");
    }

    #[test]
    fn a_name_cannot_change_the_path() {
        let long = "ä".repeat(1 << 20);
        for name in ["", ".", "..", "a/b", "a%2Fb", "../nodes/x", "../../secrets/x", "%2e%2e", &long] {
            let error = object(Scope::Cluster, "", name).unwrap_err();
            assert_eq!(error.class, ErrorClass::Refused, "{name}");
            assert!(error.to_string().len() < 600);
            assert!(object(Scope::Namespaced, "../kube-system", "x").is_err());
        }
        assert!(object(Scope::Cluster, "", &"x".repeat(LONGEST_NAME)).is_ok());
        let long = object(Scope::Cluster, "", &"x".repeat(LONGEST_NAME + 1)).unwrap_err();
        assert!(long.target.len() < 300, "{} bytes", long.target.len());
        let path = object(Scope::Cluster, "", "a\r\nb\0\u{2028}\\;&=+").unwrap();
        assert_eq!(path, "/apis/example.com/v1/widgets/a%0D%0Ab%00%E2%80%A8%5C%3B%26%3D%2B");
        let path = object(Scope::Cluster, "", "a?b#c d").unwrap();
        assert_eq!(path, "/apis/example.com/v1/widgets/a%3Fb%23c%20d");
    }

    #[test]
    fn a_namespace_must_fit_the_scope() {
        assert!(object(Scope::Namespaced, "", "x").is_err());
        assert!(object(Scope::Cluster, "ns", "x").is_err());
    }
}
