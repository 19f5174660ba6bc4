//! One command's view of a cluster: what it serves, and how objects are named.

use std::sync::Arc;

use super::error::InsightError;
use super::object::ObjectArgument;
use crate::api::{Api, Discovered, GroupFailure};
use kube_gc_core::object::{GroupResource, Identity, Namespace, ResourceType, Scope};
use kube_gc_insight::{LiveObject, Unseen};

/// What a command knows of the cluster.
#[derive(Debug)]
pub struct Session {
    pub(super) api: Api,
    pub(super) discovered: Discovered,
    pub(super) ignored: Vec<GroupResource>,
    /// The namespace of namespaced objects.
    pub(super) namespace: Option<Namespace>,
}

impl Session {
    /// Discovers what the server serves. The collector ignores objects of the types `ignored`.
    ///
    /// # Errors
    ///
    /// Nothing can be discovered.
    pub async fn begin(
        api: Api,
        ignored: Vec<GroupResource>,
        namespace: Option<Namespace>,
    ) -> Result<Self, InsightError> {
        let discovered = api.discover(None).await.map_err(InsightError::Api)?;
        Ok(Self { api, discovered, ignored, namespace })
    }

    /// Finds the object that a type and a name stand for.
    ///
    /// # Errors
    ///
    /// There is no such type or object, or it cannot be read.
    pub(super) async fn find(
        &self,
        of_type: &str,
        name: &str,
    ) -> Result<(Identity, LiveObject), InsightError> {
        let resource = self.discovered.type_named(of_type);
        let resource = Arc::clone(resource.ok_or_else(|| InsightError::NoSuchType(of_type.to_owned()))?);
        let namespace = match resource.scope {
            Scope::Cluster => None,
            Scope::Namespaced => self.namespace.clone(),
        };
        let read = self.api.read_named(&resource, namespace.as_ref(), name).await;
        let Some(live) = read.map_err(InsightError::Api)? else {
            let place = namespace.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
            return Err(InsightError::NoSuchObject(format!("there is no {}/{name}{place}", resource.kind)));
        };
        let uid = live.facts.uid.clone();
        Ok((Identity { resource, namespace, name: name.into(), uid }, live))
    }

    /// The types whose objects may depend on an object in this namespace; on a cluster-scoped
    /// object, those of all types.
    pub(super) fn types(&self, namespace: Option<&Namespace>) -> Vec<Arc<ResourceType>> {
        let watchable = self.discovered.watchable.iter().map(|watchable| &watchable.resource);
        let types = watchable.filter(|resource| {
            (namespace.is_none() || resource.scope == Scope::Namespaced)
                && !self.ignored.contains(&resource.group_resource)
        });
        types.cloned().collect()
    }

    /// The parts of the API that could not be discovered.
    pub(super) fn undiscovered(&self) -> Vec<Unseen> {
        self.discovered.failures.iter().map(GroupFailure::unseen).collect()
    }

    /// The object of a question, if it is named by its type and name.
    ///
    /// # Errors
    ///
    /// See [`find`](Self::find).
    pub(super) async fn named(
        &self,
        object: &ObjectArgument,
    ) -> Result<Option<(Identity, LiveObject)>, InsightError> {
        match object {
            ObjectArgument::Named { of_type, name } => self.find(of_type, name).await.map(Some),
            ObjectArgument::Uid(_) => Ok(None),
        }
    }
}
