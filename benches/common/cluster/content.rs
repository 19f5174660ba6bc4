//! The content of objects apart from their names, independent of the encoding.

use std::fmt::Write as _;

use super::names::{app, hex, mix};
use super::shape::BuiltIn;
use super::{Cluster, Number, Place};

/// The creation time of an object, in March 2026.
pub struct Created {
    pub day: u64,
    pub hour: u64,
    pub minute: u64,
    pub second: u64,
}

/// The creation time of an object.
pub fn created(number: Number) -> Created {
    let random = mix(number.0);
    Created { day: random % 28 + 1, hour: random % 24, minute: random / 32 % 60, second: random / 2048 % 60 }
}

/// The labels at a version. One of them changes with every update and does not matter to a
/// garbage collector.
pub fn labels(cluster: &Cluster, number: Number, version: u64, put: &mut dyn FnMut(&str, &str)) {
    let (block, index) = match cluster.place(number) {
        Place::Block { block, index, .. }
        | Place::Custom { block, index, .. }
        | Place::Later { block, index } => (block, index),
    };
    let mut text = String::with_capacity(32);
    app(&mut text, block, index % 8);
    put("app.kubernetes.io/instance", &text);
    put("app.kubernetes.io/managed-by", "Helm");
    put("app.kubernetes.io/name", &text);
    text.clear();
    let _ = write!(text, "1.{}.{}", version / 1000 % 1000, version % 1000);
    put("app.kubernetes.io/version", &text);
    put("helm.sh/chart", "service-4.12.0");
    text.clear();
    hex(&mut text, mix(block), 10);
    put("pod-template-hash", &text);
    put("team", "platform");
}

/// The annotations.
pub fn annotations(Number(number): Number, put: &mut dyn FnMut(&str, &str)) {
    let mut sum = String::with_capacity(64);
    for part in 0..4 {
        hex(&mut sum, mix(number ^ part << 60), 16);
    }
    put("checksum/config", &sum);
    put("meta.helm.sh/release-name", "service");
    put("meta.helm.sh/release-namespace", "default");
    put("prometheus.io/scrape", "true");
}

/// Appends the `apiVersion` of a type.
pub fn api_version(out: &mut String, resource: &BuiltIn) {
    if !resource.group.is_empty() {
        out.push_str(resource.group);
        out.push('/');
    }
    out.push_str(resource.version);
}
