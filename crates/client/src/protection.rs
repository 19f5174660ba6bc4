//! The finalizers that protect claims and volumes in use (rules 11.13 and 11.14).

use std::sync::Arc;

use serde_json::Value;

use super::call::{Call, JSON};
use super::client::Api;
use super::commands::{claims_of, each};
use super::error::ApiError;
use super::list::Selection;
use super::patch::{FINALIZERS, MERGE_PATCH, Patched};
use super::path;
use super::read::read_object;
use super::settings::Verb;
use kube_gc_core::object::{Identity, Namespace, ObjectFacts, ResourceType, ResourceVersion, Scope};
use kube_gc_decode::{Encoding, read_json};

impl Api {
    /// The claims and volumes that are being deleted, and that finalizers hold.
    ///
    /// # Errors
    ///
    /// They cannot be listed.
    pub async fn held_storage(&self) -> Result<Vec<Identity>, ApiError> {
        let claims =
            ResourceType::of("persistentvolumeclaims", "v1", "PersistentVolumeClaim", Scope::Namespaced);
        let volumes = ResourceType::of("persistentvolumes", "v1", "PersistentVolume", Scope::Cluster);
        let mut held = Vec::new();
        for resource in [claims, volumes] {
            let visit = |ObjectFacts { namespace, name, uid, being_deleted, held_by_others, .. }| {
                if being_deleted && held_by_others {
                    held.push(Identity { resource: Arc::clone(&resource), namespace, name, uid });
                }
            };
            self.list(&resource, None, None, visit).await?;
        }
        Ok(held)
    }

    /// Whether any pod of its namespace uses a claim, by a live list of all of them.
    async fn is_used(&self, claim: &Identity) -> Result<bool, ApiError> {
        let mut is_used = false;
        let visit = &mut |_: Encoding, pod: &[u8]| {
            let pod: Value = read_json(pod)?;
            is_used |= claims_of(&pod).any(|used| used == *claim.name);
            if pod["spec"].is_object() { Ok(()) } else { Err("a pod has no spec".to_owned()) }
        };
        let resource = &ResourceType::of("pods", "v1", "Pod", Scope::Namespaced);
        let namespace = claim.namespace.as_ref().map(Namespace::as_str);
        let selection = Selection { resource, namespace, selector: None, cached: false, whole: true };
        Box::pin(self.list_items(selection, visit)).await?;
        Ok(is_used)
    }

    /// Removes the finalizer that protects a claim or a volume that is being deleted, unless it is used. Bound to
    /// the version that is read, which is returned with the object as it is now.
    ///
    /// # Errors
    ///
    /// Whether it is used is not known, or any error of a write.
    pub async fn unprotect(
        &self,
        object: &Identity,
    ) -> Result<Option<(ResourceVersion, ObjectFacts)>, ApiError> {
        let answer = self.call(Call::object(Verb::Get, object)?.accepting(JSON)).await;
        let Some(answer) = ApiError::unless_absent(answer)? else { return Ok(None) };
        let facts = read_object(object.namespace.as_ref(), &object.name, &answer)?;
        let live: Value = answer.json()?;
        let is_claim = object.namespace.is_some();
        let protection =
            if is_claim { "kubernetes.io/pvc-protection" } else { "kubernetes.io/pv-protection" };
        let all: Vec<&Value> = each(&live["metadata"][FINALIZERS]).collect();
        let others: Vec<&Value> = all.iter().copied().filter(|one| *one != protection).collect();
        if facts.uid != object.uid || !facts.being_deleted || others.len() == all.len() {
            return Ok(None);
        }
        // Metadata alone would not say whether a volume is bound.
        let version = facts.resource_version.filter(|_| live["kind"] == *object.resource.kind);
        let version = version.ok_or_else(|| answer.unusable("it is no whole object with a version"))?;
        let is_used = if is_claim { self.is_used(object).await? } else { live["status"]["phase"] == "Bound" };
        if is_used {
            return Ok(None);
        }
        let left = |facts: &ObjectFacts| {
            (others.is_empty() && facts.held_by_others).then(|| format!("has the finalizer {protection}"))
        };
        let patched = self.patch(object, MERGE_PATCH, Some(&version), (FINALIZERS, &others), left).await?;
        tracing::info!(object = path::describe_object(object), protection, "removed a finalizer");
        Ok(if let Patched::Changed(facts) = patched { Some((version, facts)) } else { None })
    }
}

#[cfg(test)]
mod tests;
