//! Waits until the collector has seen everything and has nothing left to do.

use super::*;

impl Cluster {
    /// The highest resourceVersion that an answer to this client has shown, for each resource that
    /// it wrote or read.
    pub fn seen(&self) -> Vec<(String, String)> {
        lock(&self.touched).iter().map(|(key, touched)| (key.clone(), touched.seen.clone())).collect()
    }

    /// Forgets a resource: [`settled`](Self::settled) neither writes nor lists it any more. For a
    /// type that a scenario breaks on purpose.
    pub fn forget(&self, resource: &ApiResource) {
        lock(&self.touched).remove(&key(resource));
    }

    /// Waits until the collector has finished everything that follows from this client's requests.
    ///
    /// That means that it is idle after it has seen all changes of all resources that were used
    /// here, and has not changed anything in the meantime. To find out which changes that are, this
    /// writes a marker to each of those resources, in a separate namespace: a watch event after the
    /// marker is a later change. (The resourceVersions of the answers are not enough, because no
    /// answer contains that of a deletion.)
    pub async fn settled(&self, collector: &Collector) -> Result<()> {
        self.settle(collector, Rest::Empty).await
    }

    /// Like [`settled`](Self::settled), but ignores objects that wait for their next attempt after
    /// a failure.
    pub async fn settled_with_parked(&self, collector: &Collector) -> Result<()> {
        self.settle(collector, Rest::Parked).await
    }

    /// Like [`settled`](Self::settled), with work that may be left.
    pub async fn settle(&self, collector: &Collector, rest: Rest) -> Result<()> {
        let deadline = Instant::now() + DEADLINE;
        let mut before = None;
        loop {
            self.write_markers().await?;
            let left = deadline.saturating_duration_since(Instant::now());
            collector.idle_within(left, &self.seen(), rest).await?;
            // If nothing has changed since the previous round, the collector was idle after it had
            // seen everything: the state of that round is older than the markers of this one.
            let now = Some(self.snapshot().await?);
            if now == before {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "objects still change after {DEADLINE:?}");
            before = now;
        }
    }

    /// Writes to every resource that was used, so that its resourceVersion is later than all
    /// earlier changes.
    async fn write_markers(&self) -> Result<()> {
        let touched: Vec<Touched> = lock(&self.touched).values().cloned().collect();
        for Touched { resource, namespaced, template, .. } in touched {
            let Some(resource) = self.still_served(&resource).await? else {
                self.forget(&resource);
                continue;
            };
            let namespace = namespaced.then_some(MARKER);
            let marker = Obj::named(&resource, namespace, MARKER);
            let count = self.counter.fetch_add(1, Ordering::Relaxed).to_string();
            let patch = json!({ "metadata": { "annotations": { MARKER_LABEL: count } } });
            let mut answer = self.send("PATCH", &marker.path(), MERGE_PATCH, Some(&patch)).await;
            if matches!(&answer, Err(error) if is_status(error, 404)) {
                answer = self.create_marker(&resource, namespace, template).await;
            }
            let answer = answer.with_context(|| format!("cannot write the marker {marker}"))?;
            self.saw(&resource, namespaced, &answer);
        }
        Ok(())
    }

    async fn create_marker(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        template: Value,
    ) -> Result<Value> {
        if namespace.is_some() {
            // Not through `create`, which would count namespaces as used.
            let body = marker_body(&ApiResource::erase::<Namespace>(&()), None, json!({}));
            match self.send("POST", "/api/v1/namespaces", None, Some(&body)).await {
                Err(error) if !is_status(&error, 409) => return Err(error),
                _ => {}
            }
        }
        let body = marker_body(resource, namespace, template);
        self.send("POST", &collection(resource, namespace), None, Some(&body)).await
    }

    /// The resource in the version that was used or, if that is gone, in another one. `None` if it
    /// is no longer served, because a CRD was removed.
    async fn still_served(&self, resource: &ApiResource) -> Result<Option<ApiResource>> {
        if self.is_listed(resource).await? {
            return Ok(Some(resource.clone()));
        }
        let group = match self.send("GET", &format!("/apis/{}", resource.group), None, None).await {
            Err(error) if is_status(&error, 404) => return Ok(None),
            group => group?,
        };
        for version in group["versions"].as_array().into_iter().flatten() {
            let version = version["version"].as_str().unwrap_or_default();
            let gvk = GroupVersionKind::gvk(&resource.group, version, &resource.kind);
            let other = ApiResource::from_gvk_with_plural(&gvk, &resource.plural);
            if self.is_listed(&other).await? {
                return Ok(Some(other));
            }
        }
        Ok(None)
    }

    async fn is_listed(&self, resource: &ApiResource) -> Result<bool> {
        self.is_there(&(collection(resource, None) + "?limit=1")).await
    }

    /// Whether the API server has something at this path.
    pub(super) async fn is_there(&self, path: &str) -> Result<bool> {
        match self.send("GET", path, None, None).await {
            Ok(_) => Ok(true),
            Err(error) if is_status(&error, 404) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Every object of the resources that were used, with its version.
    async fn snapshot(&self) -> Result<BTreeSet<(String, String, String)>> {
        let resources: Vec<ApiResource> =
            lock(&self.touched).values().map(|touched| touched.resource.clone()).collect();
        let mut objects = BTreeSet::new();
        for resource in resources {
            for object in self.list(&resource, None).await? {
                if object.raw["metadata"]["labels"][MARKER_LABEL].is_null() {
                    objects.insert((key(&resource), object.uid, object.resource_version));
                }
            }
        }
        Ok(objects)
    }
}

/// A copy of the template without owners and finalizers.
fn marker_body(resource: &ApiResource, namespace: Option<&str>, mut template: Value) -> Value {
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), json!(MARKER));
    metadata.insert("labels".to_owned(), json!({ MARKER_LABEL: "true" }));
    if let Some(namespace) = namespace {
        metadata.insert("namespace".to_owned(), json!(namespace));
    }
    template["apiVersion"] = json!(resource.api_version);
    template["kind"] = json!(resource.kind);
    template["metadata"] = Value::Object(metadata);
    template
}
