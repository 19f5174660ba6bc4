//! Objects of scenarios.

use super::*;

/// A namespace of a scenario. It stays after the scenario, because a bare API server has no
/// controller that empties it.
#[derive(Clone, Debug)]
pub struct Ns {
    pub(super) cluster: Cluster,
    pub(super) object: Obj,
}

impl Ns {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.object.name
    }

    /// The Namespace object itself.
    pub fn as_object(&self) -> &Obj {
        &self.object
    }

    /// An object of any namespaced resource, to be created.
    pub fn object(&self, resource: &ApiResource, name: impl Into<String>) -> Builder {
        Builder::new(&self.cluster, resource.clone(), Some(self.name().to_owned()), &name.into())
    }

    /// An object of a built-in type.
    pub fn of<K: Resource<DynamicType = ()>>(&self, name: impl Into<String>) -> Builder {
        self.object(&ApiResource::erase::<K>(&()), name)
    }

    /// A ConfigMap.
    pub fn configmap(&self, name: impl Into<String>) -> Builder {
        self.of::<ConfigMap>(name)
    }

    /// A Secret.
    pub fn secret(&self, name: impl Into<String>) -> Builder {
        self.of::<Secret>(name)
    }

    /// A Pod. It is bound to no node, so its deletion takes effect at once.
    pub fn pod(&self, name: impl Into<String>) -> Builder {
        self.of::<Pod>(name).field("spec", json!({ "containers": [{ "name": "main", "image": "none" }] }))
    }

    /// Finalizes the deletion of the namespace as the namespace controller does when the namespace
    /// is empty.
    pub async fn finalize(&self) -> Result<()> {
        self.set_spec_finalizers(&[]).await
    }

    /// Replaces the finalizers in the spec of the namespace.
    pub async fn set_spec_finalizers(&self, finalizers: &[&str]) -> Result<()> {
        poll("the namespace to be finalized", async || {
            // The current state, because the finalizers in its metadata belong to others.
            let mut body = self.cluster.send("GET", &self.object.path(), None, None).await?;
            body["spec"]["finalizers"] = json!(finalizers);
            match self.cluster.send("PUT", &(self.object.path() + "/finalize"), None, Some(&body)).await {
                // The collector has written in the meantime.
                Err(error) if is_status(&error, 409) => Ok(false),
                answer => answer.map(|_| true),
            }
        })
        .await
    }
}

/// An object to be created.
#[derive(Clone, Debug)]
#[must_use = "nothing is created before create()"]
pub struct Builder {
    cluster: Cluster,
    resource: ApiResource,
    namespace: Option<String>,
    body: Value,
}

impl Builder {
    pub(super) fn new(
        cluster: &Cluster,
        resource: ApiResource,
        namespace: Option<String>,
        name: &str,
    ) -> Self {
        let mut body = json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": { "name": name },
        });
        if let Some(namespace) = &namespace {
            body["metadata"]["namespace"] = json!(namespace);
        }
        Self { cluster: cluster.clone(), resource, namespace, body }
    }

    /// Adds an owner with a correct reference, without `blockOwnerDeletion`.
    pub fn owned_by(self, owner: &Obj) -> Self {
        self.owner_reference(owner.reference())
    }

    /// Adds an owner reference as it is.
    pub fn owner_reference(self, reference: Value) -> Self {
        self.push("ownerReferences", reference)
    }

    /// Sets `blockOwnerDeletion: true` in the last owner reference.
    pub fn blocking(self) -> Self {
        self.in_last_reference("blockOwnerDeletion", json!(true))
    }

    /// Sets `blockOwnerDeletion: false` in the last owner reference.
    pub fn not_blocking(self) -> Self {
        self.in_last_reference("blockOwnerDeletion", json!(false))
    }

    /// Sets `controller: true` in the last owner reference.
    pub fn controlled(self) -> Self {
        self.in_last_reference("controller", json!(true))
    }

    /// Adds a finalizer.
    pub fn finalizer(self, finalizer: &str) -> Self {
        self.push("finalizers", json!(finalizer))
    }

    /// Adds a label.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.body["metadata"]["labels"][key] = json!(value);
        self
    }

    /// Adds an annotation.
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.body["metadata"]["annotations"][key] = json!(value);
        self
    }

    /// Sets a field outside of the metadata, such as `spec` or `data`.
    pub fn field(mut self, name: &str, value: Value) -> Self {
        self.body[name] = value;
        self
    }

    /// The JSON of the object.
    pub fn body(&self) -> &Value {
        &self.body
    }

    /// Creates the object.
    pub async fn create(self) -> Result<Obj> {
        let path = collection(&self.resource, self.namespace.as_deref());
        let answer = self.cluster.send("POST", &path, None, Some(&self.body)).await;
        let answer = answer.with_context(|| {
            format!("cannot create {path}/{}", self.body["metadata"]["name"].as_str().unwrap_or_default())
        })?;
        Ok(self.cluster.saw(&self.resource, self.namespace.is_some(), &answer))
    }

    fn push(mut self, list: &str, value: Value) -> Self {
        match self.body["metadata"][list].as_array_mut() {
            Some(list) => list.push(value),
            None => self.body["metadata"][list] = json!([value]),
        }
        self
    }

    fn in_last_reference(mut self, field: &str, value: Value) -> Self {
        let references = self.body["metadata"]["ownerReferences"].as_array_mut();
        match references.and_then(|references| references.last_mut()) {
            Some(reference) => reference[field] = value,
            None => panic!("{field} without an owner reference"),
        }
        self
    }
}

/// Creates many objects, several at a time. The results are in the same order.
pub async fn create_all(builders: impl IntoIterator<Item = Builder>) -> Result<Vec<Obj>> {
    stream::iter(builders.into_iter().map(Builder::create)).buffered(PARALLEL).try_collect().await
}
