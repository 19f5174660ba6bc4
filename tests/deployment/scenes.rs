//! A small scene for each kind of work of the collector.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde_json::json;

use kube_gc_testkit::{Cluster, Crd, Obj, Policy, Scope};

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scene {
    /// A dependent is deleted after its owner.
    Background,
    /// A blocking dependent is deleted before its owner.
    Foreground,
    /// A dependent is orphaned before its owner is removed.
    Orphan,
    /// A dependent with two owners loses the reference to the deleted one.
    Shared,
    /// A custom resource orphans another one, which needs another patch format.
    CustomResource,
    /// A dependent of an owner that never existed is deleted.
    Absent,
    /// A dependent of an owner in another namespace gets a warning.
    CrossNamespace,
}

impl Scene {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Background,
        Self::Foreground,
        Self::Orphan,
        Self::Shared,
        Self::CustomResource,
        Self::Absent,
        Self::CrossNamespace,
    ];
}

/// An owner and its dependent, for each scene.
pub struct Scenes {
    pairs: Vec<(Scene, Obj, Obj)>,
    keeper: Obj,
}

impl Scenes {
    /// The custom resource, which all scenes of a test share.
    pub async fn widgets(cluster: &Cluster) -> Result<Crd> {
        cluster.crd("widgets.example.com", Scope::Namespaced, &["v1"]).await
    }

    /// Creates the objects.
    pub async fn plant(cluster: &Cluster, widgets: &Crd) -> Result<Self> {
        let ns = cluster.namespace().await?;
        let elsewhere = cluster.namespace().await?;
        let keeper = ns.configmap("keeper").create().await?;
        let mut pairs = Vec::new();
        for scene in Scene::ALL {
            let name = format!("{scene:?}").to_lowercase();
            let owner = match scene {
                Scene::CustomResource => ns.object(widgets.resource(), &name).create().await?,
                Scene::CrossNamespace => elsewhere.configmap(&name).create().await?,
                _ => ns.configmap(&name).create().await?,
            };
            let dependent = match scene {
                Scene::CustomResource => ns.object(widgets.resource(), format!("{name}-of")).owned_by(&owner),
                Scene::Foreground => ns.secret(&name).owned_by(&owner).blocking(),
                Scene::Shared => ns.secret(&name).owned_by(&owner).owned_by(&keeper).blocking(),
                Scene::Absent => {
                    let mut never = owner.reference();
                    never["name"] = json!("never");
                    never["uid"] = json!("6b1b7f5c-0000-4000-8000-000000000000");
                    ns.secret(&name).owner_reference(never)
                }
                _ => ns.secret(&name).owned_by(&owner),
            };
            pairs.push((scene, owner, dependent.create().await?));
        }
        Ok(Self { pairs, keeper })
    }

    /// Deletes the owners.
    pub async fn begin(&self, cluster: &Cluster) -> Result<()> {
        for (scene, owner, _) in &self.pairs {
            let policy = match scene {
                Scene::Background | Scene::Shared => Policy::Background,
                Scene::Foreground => Policy::Foreground,
                Scene::Orphan | Scene::CustomResource => Policy::Orphan,
                Scene::Absent | Scene::CrossNamespace => continue,
            };
            cluster.delete(owner, policy).await?;
        }
        Ok(())
    }

    /// The scenes that have finished.
    pub async fn done(&self, cluster: &Cluster) -> Result<BTreeSet<Scene>> {
        let mut done = BTreeSet::new();
        for (scene, owner, dependent) in &self.pairs {
            let gone = async |object: &Obj| anyhow::Ok(!cluster.exists_with_uid(object).await?);
            let is_done = match scene {
                Scene::Background | Scene::Foreground => gone(owner).await? && gone(dependent).await?,
                Scene::Absent => gone(dependent).await?,
                Scene::Orphan | Scene::CustomResource => {
                    gone(owner).await? && cluster.fresh(dependent).await?.owner_uids().is_empty()
                }
                Scene::Shared => cluster.fresh(dependent).await?.owner_uids() == [self.keeper.uid.as_str()],
                Scene::CrossNamespace => {
                    let events = cluster.events(dependent).await?;
                    events.iter().any(|event| event.reason.as_deref() == Some("OwnerRefInvalidNamespace"))
                }
            };
            if is_done {
                done.insert(*scene);
            }
        }
        ensure!(cluster.exists_with_uid(&self.keeper).await?, "{} is gone", self.keeper);
        Ok(done)
    }
}
