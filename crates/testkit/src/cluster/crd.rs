//! Custom resources: definition, serving, removal.

use super::*;

impl Cluster {
    /// Creates a CRD such as `widgets.example.com` and waits until all its versions are served. The
    /// first version is the storage version.
    ///
    /// Removes a CRD of that name of an earlier scenario first, with its objects.
    pub async fn crd(&self, name: &str, scope: Scope, versions: &[&str]) -> Result<Crd> {
        let crd = self.define(name, scope, versions).await?;
        crd.served().await?;
        Ok(crd)
    }

    /// Like [`crd`](Self::crd), without waiting until the type is served.
    pub async fn define(&self, name: &str, scope: Scope, versions: &[&str]) -> Result<Crd> {
        let (plural, group) =
            name.split_once('.').with_context(|| format!("{name} is not the name of a CRD"))?;
        let singular = plural.strip_suffix('s').unwrap_or(plural);
        let kind = singular[..1].to_uppercase() + &singular[1..];
        let resources: Vec<ApiResource> = versions
            .iter()
            .map(|version| {
                ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, &kind), plural)
            })
            .collect();
        let schema =
            json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
        let versions: Vec<Value> = versions
            .iter()
            .enumerate()
            .map(|(index, version)| json!({ "name": version, "served": true, "storage": index == 0, "schema": schema }))
            .collect();
        let definition = ApiResource::erase::<CustomResourceDefinition>(&());
        let body = json!({
            "apiVersion": definition.api_version,
            "kind": definition.kind,
            "metadata": { "name": name, "labels": { CRD_LABEL: "true" } },
            "spec": {
                "group": group,
                "scope": format!("{scope:?}"),
                "names": { "plural": plural, "singular": singular, "kind": kind, "listKind": format!("{kind}List") },
                "versions": versions,
            },
        });
        let mut crd =
            Crd { cluster: self.clone(), definition: Obj::named(&definition, None, name), resources };
        let path = collection(&definition, None);
        let mut created = self.send("POST", &path, None, Some(&body)).await;
        if matches!(&created, Err(error) if is_status(error, 409)) {
            crd.remove_with_objects().await?;
            created = self.send("POST", &path, None, Some(&body)).await;
        }
        let created = created.with_context(|| format!("cannot create the CRD {name}"))?;
        crd.definition = Obj::new(&definition, created);
        Ok(crd)
    }

    /// Removes all CRDs of earlier scenarios with their objects. (Dropping a [`Crd`] does not
    /// remove it, because that would have to wait for the API server in the middle of a failing
    /// test.)
    pub async fn remove_leftover_crds(&self) -> Result<()> {
        let definition = ApiResource::erase::<CustomResourceDefinition>(&());
        for found in self.list(&definition, None).await? {
            if found.raw["metadata"]["labels"][CRD_LABEL].is_null() {
                continue;
            }
            let spec = &found.raw["spec"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let versions = spec["versions"].as_array().cloned().unwrap_or_default();
            let resources = versions
                .iter()
                .filter(|version| version["served"] == true)
                .map(|version| {
                    let kind = text(&spec["names"]["kind"]);
                    let gvk = GroupVersionKind::gvk(&text(&spec["group"]), &text(&version["name"]), &kind);
                    ApiResource::from_gvk_with_plural(&gvk, &text(&spec["names"]["plural"]))
                })
                .collect();
            Crd { cluster: self.clone(), definition: found, resources }.remove_with_objects().await?;
        }
        Ok(())
    }
}

/// A custom resource of a scenario.
#[derive(Clone, Debug)]
pub struct Crd {
    cluster: Cluster,
    definition: Obj,
    resources: Vec<ApiResource>,
}

impl Crd {
    /// The resource in its storage version.
    pub fn resource(&self) -> &ApiResource {
        &self.resources[0]
    }

    /// The resource in another version.
    pub fn resource_at(&self, version: &str) -> ApiResource {
        let gvk = GroupVersionKind::gvk(&self.resource().group, version, &self.resource().kind);
        ApiResource::from_gvk_with_plural(&gvk, &self.resource().plural)
    }

    /// The CustomResourceDefinition itself, for patches.
    pub fn definition(&self) -> &Obj {
        &self.definition
    }

    /// Waits until every version is in discovery and is served.
    pub async fn served(&self) -> Result<()> {
        for resource in &self.resources {
            let group_version = format!("/apis/{}", resource.api_version);
            poll(&format!("{group_version}/{} to be served", resource.plural), async || {
                let listed = match self.cluster.send("GET", &group_version, None, None).await {
                    Ok(answer) => answer["resources"].as_array().is_some_and(|resources| {
                        resources.iter().any(|found| found["name"] == resource.plural)
                    }),
                    Err(_) => false,
                };
                Ok(listed && self.cluster.send("GET", &collection(resource, None), None, None).await.is_ok())
            })
            .await?;
        }
        Ok(())
    }

    /// Deletes the CRD, and waits until it is gone and no longer served.
    pub async fn remove(&self) -> Result<()> {
        self.undefine().await?;
        self.removed().await
    }

    /// Deletes the CRD, without waiting.
    pub async fn undefine(&self) -> Result<()> {
        match self.cluster.send("DELETE", &self.definition.path(), None, None).await {
            Err(error) if !is_status(&error, 404) => Err(error),
            _ => Ok(()),
        }
    }

    /// Waits until the CRD is gone and no longer served.
    pub async fn removed(&self) -> Result<()> {
        self.cluster.forget(self.resource());
        poll(&format!("{} to go", self.definition.name), async || {
            let mut paths = vec![self.definition.path()];
            paths.extend(self.resources.iter().map(|resource| collection(resource, None) + "?limit=1"));
            for path in paths {
                if self.cluster.is_there(&path).await? {
                    return Ok(false);
                }
            }
            Ok(true)
        })
        .await
    }

    /// Removes the CRD even if its objects have finalizers.
    async fn remove_with_objects(&self) -> Result<()> {
        self.undefine().await?;
        if let Some(resource) = self.resources.first() {
            // The type is no longer served when the last object is gone.
            for object in self.cluster.list(resource, None).await.unwrap_or_default() {
                let no_finalizers = json!({ "metadata": { "finalizers": null } });
                match self.cluster.send("PATCH", &object.path(), MERGE_PATCH, Some(&no_finalizers)).await {
                    Err(error) if !is_status(&error, 404) => return Err(error),
                    _ => {}
                }
            }
        }
        self.removed().await
    }
}
