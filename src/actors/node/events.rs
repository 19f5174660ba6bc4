//! Events about the node, by the kubelet's reasons.

use std::sync::Arc;

use kube_gc_core::object::{GroupResource, Identity, ResourceType, Scope, Uid};
use kube_gc_node::plan::{Breakdown, What};
use kube_gc_node::pressure::Bytes;

use crate::api::Api;
use crate::node::{PassResult, Report};

/// Tells what could not be removed or freed, by events about the node.
#[derive(Clone, Debug)]
pub struct NodeEvents {
    api: Api,
    node: Identity,
}

impl NodeEvents {
    /// Events about the node of this name; nothing if no node can have it.
    #[must_use]
    pub fn new(api: Api, name: &str) -> Option<Self> {
        let resource = Arc::new(ResourceType {
            group_resource: GroupResource::new("", "nodes"),
            version: "v1".into(),
            kind: "Node".into(),
            scope: Scope::Cluster,
        });
        // As the kubelet's own events have it: kubectl finds them by this uid.
        let uid = Uid::parse(name)?;
        Some(Self { api, node: Identity { resource, namespace: None, name: name.into(), uid } })
    }

    /// Tells what a pass could not do.
    pub(super) async fn tell(&self, report: &Report) {
        let Some(result) = &report.result else { return };
        let failed = |images: bool| failure(result, |what| (what == What::Image) == images);
        let messages = [
            ("FreeDiskSpaceFailed", missing(report, result)),
            ("ImageGCFailed", failed(true)),
            ("ContainerGCFailed", failed(false)),
        ];
        for (reason, message) in messages {
            let Some(message) = message else { continue };
            if let Err(error) = self.api.warn(&self.node, reason, &message).await {
                tracing::debug!(%error, reason, "an event could not be recorded");
            }
        }
    }
}

/// What could not be freed, and what fills the file system (B9).
pub(super) fn missing(report: &Report, result: &PassResult) -> Option<String> {
    let PassResult { freed_bytes, missing_bytes, missing_inodes, .. } = *result;
    if missing_bytes == 0 && missing_inodes == 0 {
        return None;
    }
    let Breakdown { in_use, unused, kept, dead_containers, other } = report.plan.breakdown;
    let inodes = if missing_inodes > 0 { format!(" and {missing_inodes} inodes") } else { String::new() };
    Some(format!(
        "Freed {} on the file system of the images; {}{inodes} are still missing. Images in use have {}, unused {}, \
         kept {}, dead containers {}, the rest {}",
        Bytes(freed_bytes),
        Bytes(missing_bytes),
        Bytes(in_use),
        Bytes(unused),
        Bytes(kept),
        Bytes(dead_containers),
        Bytes(other),
    ))
}

/// How many items could not be removed, and the first reason.
fn failure(result: &PassResult, counts: impl Fn(What) -> bool) -> Option<String> {
    let mut failed = result.items.iter().filter(|item| item.outcome == "failed" && counts(item.what));
    let first = failed.next()?;
    let reason = first.reason.as_deref().unwrap_or_default();
    Some(format!("{} could not be removed; the first: {}: {reason}", 1 + failed.count(), first.id))
}
