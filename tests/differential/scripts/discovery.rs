//! The discovery documents of the server's own groups.

use super::ask;
use crate::request::Step;

/// The groups, each in its versions.
const GROUPS: &[(&str, &[&str])] = &[
    ("admissionregistration.k8s.io", &["v1", "v1beta1"]),
    ("apiextensions.k8s.io", &["v1", "v1beta1"]),
    ("apiregistration.k8s.io", &["v1", "v1beta1"]),
    ("apps", &["v1"]),
    ("authentication.k8s.io", &["v1", "v1beta1"]),
    ("authorization.k8s.io", &["v1", "v1beta1"]),
    ("autoscaling", &["v1", "v2beta1", "v2beta2"]),
    ("batch", &["v1", "v1beta1"]),
    ("certificates.k8s.io", &["v1", "v1beta1"]),
    ("coordination.k8s.io", &["v1", "v1beta1"]),
    ("discovery.k8s.io", &["v1beta1"]),
    ("events.k8s.io", &["v1", "v1beta1"]),
    ("extensions", &["v1beta1"]),
    ("flowcontrol.apiserver.k8s.io", &["v1beta1"]),
    ("networking.k8s.io", &["v1", "v1beta1"]),
    ("node.k8s.io", &["v1", "v1beta1"]),
    ("policy", &["v1beta1"]),
    ("rbac.authorization.k8s.io", &["v1", "v1beta1"]),
    ("scheduling.k8s.io", &["v1", "v1beta1"]),
    // Not v1beta1, in which a real server has no status of VolumeAttachments.
    ("storage.k8s.io", &["v1"]),
];

/// The documents of each group.
pub(super) fn documents() -> Vec<Step> {
    let mut steps = vec![ask("GET", "/api/v1")];
    for (group, versions) in GROUPS {
        steps.push(ask("GET", format!("/apis/{group}")));
        steps.extend(versions.iter().map(|version| ask("GET", format!("/apis/{group}/{version}"))));
    }
    steps
}
