//! Work that takes some time.

use anyhow::Result;

use crate::leader::replica::{Replica, Stage};
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::proxy::{Matcher, Verb};
use kube_gc_testkit::{Obj, Policy};

/// The number of dependents: seconds of work for a replica.
pub const DEPENDENTS: usize = 200;

/// An owner and many dependents.
pub struct Crowd {
    owner: Obj,
    dependents: Vec<Obj>,
}

impl Crowd {
    pub async fn gathered(stage: &Stage, name: &str) -> Result<Self> {
        let owner = stage.ns.configmap(name).create().await?;
        let one = |number: usize| stage.ns.secret(format!("{name}-{number}")).owned_by(&owner);
        let dependents = create_all((0..DEPENDENTS).map(one)).await?;
        Ok(Self { owner, dependents })
    }

    /// Deletes the owner and waits until this replica is in the middle of the cascade. Its proxy
    /// runs on the thread of the test, so no progress is made while the test does not wait.
    pub async fn dispersing(&self, stage: &Stage, by: &Replica) -> Result<()> {
        let deletions = Matcher::verb(Verb::Delete).of("secrets");
        let before = by.proxy.all(&deletions).len();
        stage.cluster.delete(&self.owner, Policy::Background).await?;
        let what = format!("{} to delete ten", by.name);
        poll(&what, async || Ok(by.proxy.all(&deletions).len() >= before + 10)).await
    }

    /// Waits until all of them are gone.
    pub async fn gone(&self, stage: &Stage) -> Result<()> {
        poll("the dependents to be gone", async || Ok(self.left(stage).await? == 0)).await?;
        stage.cluster.assert_gone(&self.dependents).await
    }

    /// The number of remaining objects.
    pub async fn left(&self, stage: &Stage) -> Result<usize> {
        let left = stage.cluster.list(&self.dependents[0].resource, Some(stage.ns.name())).await?;
        Ok(left.iter().filter(|left| self.dependents.iter().any(|one| one.uid == left.uid)).count())
    }
}
