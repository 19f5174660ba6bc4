//! Subresources in discovery.

use crate::settings::Release;

const CREATE: &[&str] = &["create"];

/// A subresource in discovery: its kind, with group and version if they differ from the parent's,
/// and its verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Subresource {
    /// `None` if it is the parent's.
    pub(super) kind: Option<&'static str>,
    /// The group and version of the kind, if they differ.
    pub(super) from: Option<(&'static str, &'static str)>,
    pub(super) verbs: &'static [&'static str],
}

impl Subresource {
    /// The subresource with this name of a resource.
    pub(super) fn named(plural: &str, name: &str, release: Release) -> Self {
        const CHANGE: &[&str] = &["get", "patch", "update"];
        const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];
        const STREAM: &[&str] = &["create", "get"];
        let one = |kind, verbs| Self { kind: Some(kind), from: None, verbs };
        let policy = if release == Release::V1_20 { "v1beta1" } else { "v1" };
        match (plural, name) {
            ("namespaces", "finalize") => Self { kind: None, from: None, verbs: &["update"] },
            (_, "scale") => Self { kind: Some("Scale"), from: Some(("autoscaling", "v1")), verbs: CHANGE },
            ("pods", "attach") => one("PodAttachOptions", STREAM),
            ("pods", "binding") => one("Binding", CREATE),
            ("pods", "eviction") => {
                Self { kind: Some("Eviction"), from: Some(("policy", policy)), verbs: CREATE }
            }
            ("pods", "exec") => one("PodExecOptions", STREAM),
            ("pods", "log") => Self { kind: None, from: None, verbs: &["get"] },
            ("pods", "portforward") => one("PodPortForwardOptions", STREAM),
            ("pods", "proxy") => one("PodProxyOptions", PROXY),
            ("nodes", "proxy") => one("NodeProxyOptions", PROXY),
            ("services", "proxy") => one("ServiceProxyOptions", PROXY),
            ("serviceaccounts", "token") => Self {
                kind: Some("TokenRequest"),
                from: Some(("authentication.k8s.io", "v1")),
                verbs: CREATE,
            },
            _ => Self { kind: None, from: None, verbs: CHANGE },
        }
    }
}
