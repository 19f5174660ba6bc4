//! What people type to find an object, read as kubectl would read it.

use super::queries::FindQuery;
use kube_gc_core::graph::SearchQuery;
use kube_gc_core::object::{GroupResource, Namespace};

/// The ways to read a search, the likeliest first: TYPE/NAME, NAMESPACE/NAME, a part of `Kind/name`, or
/// a type alone. `-n NAMESPACE` may be anywhere, and a space may stand for the slash.
pub fn readings(query: FindQuery, type_named: impl Fn(&str) -> Option<GroupResource>) -> Vec<SearchQuery> {
    let FindQuery { q, mut namespace, resource, limit: _ } = query;
    let mut words = Vec::new();
    let mut left = q.split_whitespace();
    while let Some(word) = left.next() {
        // No name begins with a dash.
        let named = match word {
            "-n" | "--namespace" => left.next(),
            _ => word.strip_prefix("--namespace=").or_else(|| word.strip_prefix("-n")),
        };
        match named {
            Some(named) => namespace = Namespace::parse(named).or(namespace),
            None => words.push(word),
        }
    }
    let text = words.join("/");
    let in_place =
        SearchQuery { text: text.clone(), namespace, resource, or_absent: true, ..SearchQuery::default() };
    let of_type = |resource: GroupResource, name: &str| SearchQuery {
        resource: Some(resource),
        text: name.to_owned(),
        ..in_place.clone()
    };
    let in_namespace = |namespace: &str, name: &str| {
        let namespace = Namespace::parse(namespace).filter(|_| in_place.namespace.is_none())?;
        Some(SearchQuery { namespace: Some(namespace), text: name.to_owned(), ..in_place.clone() })
    };
    let is_typed = in_place.resource.is_none();
    let type_named = |name: &str| type_named(name).filter(|_| is_typed);
    let mut readings = Vec::new();
    if let Some((of, name)) = text.split_once('/') {
        readings.extend(type_named(of).map(|resource| of_type(resource, name)));
        readings.extend(in_namespace(of, name));
    }
    readings.push(in_place.clone());
    readings.extend(type_named(&text).map(|resource| of_type(resource, "")));
    readings
}

/// What stands where a type may stand, and is none.
pub fn no_type(readings: &[SearchQuery], type_named: impl Fn(&str) -> Option<GroupResource>) -> Option<&str> {
    let (of, _) = readings.iter().find_map(|reading| reading.text.split_once('/'))?;
    (!of.is_empty() && type_named(of).is_none()).then_some(of)
}

/// What a search looks for, in words.
pub fn searched(SearchQuery { text, namespace, resource, .. }: &SearchQuery) -> String {
    let what = resource.as_ref().map_or_else(|| "objects".to_owned(), GroupResource::to_string);
    let place = namespace.as_ref().map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
    let how = if text.is_empty() { String::new() } else { format!(" named like {text:?}") };
    format!("{what}{place}{how}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn type_named(name: &str) -> Option<GroupResource> {
        match name {
            "deploy" | "deployments.apps" => Some(GroupResource::parse("deployments.apps")),
            "ns" => Some(GroupResource::parse("namespaces")),
            _ => None,
        }
    }

    /// How a search is read: type, namespace, text.
    fn read(q: &str) -> Vec<String> {
        let query = FindQuery { q: q.to_owned(), ..FindQuery::default() };
        let shown = |query: SearchQuery| {
            let resource = query.resource.map(|resource| format!("{resource} ")).unwrap_or_default();
            let namespace = query.namespace.map(|namespace| format!("-n {namespace} ")).unwrap_or_default();
            format!("{resource}{namespace}{}", query.text)
        };
        readings(query, type_named).into_iter().map(shown).collect()
    }

    #[test]
    fn a_search_is_read_as_kubectl_reads_it_and_then_as_a_part_of_a_name() {
        for (q, expected) in [
            ("deploy/web", &["deployments.apps web", "-n deploy web", "deploy/web"][..]),
            (
                "deployments.apps web -n shop",
                &["deployments.apps -n shop web", "-n shop deployments.apps/web"],
            ),
            ("shop/web", &["-n shop web", "shop/web"]),
            ("-nshop deploy", &["-n shop deploy", "deployments.apps -n shop "]),
            ("--namespace=shop web", &["-n shop web"]),
            ("ns/x", &["namespaces x", "-n ns x", "ns/x"]),
            ("-n", &["-n"]),
        ] {
            assert_eq!(read(q), expected, "{q}");
        }
    }

    #[test]
    fn what_is_no_type_is_named() {
        for (q, expected) in [
            ("deploys/web", Some("deploys")),
            ("-n shop deploys web", Some("deploys")),
            ("deploy/web", None),
            ("web", None),
        ] {
            let readings = readings(FindQuery { q: q.to_owned(), ..FindQuery::default() }, type_named);
            assert_eq!(no_type(&readings, type_named), expected, "{q}");
        }
    }
}
