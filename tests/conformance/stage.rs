//! How a scenario is played: before the collector's eyes and behind its back,
//! and once more after it was restarted.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ApiResource;
use serde_json::{Value, json};

use kube_gc_testkit::cluster::{create_all, key, poll};
use kube_gc_testkit::controller_manager::Frozen;
use kube_gc_testkit::deployment::{self, Standing};
use kube_gc_testkit::{
    Cluster, Collector, ControlPlane, ControllerManager, Crd, Ns, Obj, Options, Policy, Scope, Turn,
    controller_manager,
};

/// A finalizer that nobody but the test removes.
pub const HOLD: &str = "example.com/hold";
/// The API server's finalizers.
pub const FOREGROUND: &str = "foregroundDeletion";
/// See [`FOREGROUND`].
pub const ORPHAN: &str = "orphan";
/// The content type of [`Cluster::send`]'s merge patches.
pub const MERGE_PATCH: Option<&str> = Some("application/merge-patch+json");

/// The control plane, for as long as it is this scenario's turn on it.
pub struct Stage {
    /// The plane, which scenarios share.
    pub plane: &'static ControlPlane,
    /// The client.
    pub cluster: Cluster,
    /// The installation, where it is the manifests that run the collector.
    pub standing: Option<Standing>,
    _turn: Turn,
}

impl Stage {
    /// Waits for the scenario's turn, and clears what the one before has left.
    pub async fn set() -> Result<Self> {
        Self::set_on(Turn::take().await?).await
    }

    /// The same on a certain plane.
    pub async fn set_on(turn: Turn) -> Result<Self> {
        let plane = turn.plane();
        if controller_manager::collects() {
            ControllerManager::on(plane)?;
        }
        let cluster = Cluster::new(plane.client().await?);
        let mut stage = Self { plane, cluster, standing: None, _turn: turn };
        stage.clear().await.context("cannot clear the stage")?;
        if deployment::runs_the_collector() {
            stage.standing = Some(Standing::on(plane).await?);
        }
        Ok(stage)
    }

    /// From now on nobody acts but this test, until the guard is dropped: where Kubernetes'
    /// own collector does the work, it is always there.
    pub fn nobody_else(&self) -> Result<Option<Frozen<'static>>> {
        controller_manager::collects().then(|| ControllerManager::on(self.plane)?.freeze()).transpose()
    }

    /// Waits until the other collector, if there is one, has seen the ConfigMaps and Secrets that
    /// exist. A foreground deletion that it sees before a dependent does not wait for that one.
    pub async fn others_catch_up(&self) -> Result<()> {
        if !controller_manager::collects() {
            return Ok(());
        }
        let ns = self.cluster.namespace().await?;
        let owner = ns.configmap("marker-owner").create().await?;
        // Watches show the objects of a type in the order of their versions.
        let markers = [
            ns.configmap("marker").owned_by(&owner).create().await?,
            ns.secret("marker").owned_by(&owner).create().await?,
        ];
        self.cluster.delete(&owner, Policy::Background).await?;
        for marker in &markers {
            poll("the other collector to delete a marker", async || {
                Ok(!self.cluster.exists_with_uid(marker).await?)
            })
            .await?;
        }
        Ok(())
    }

    /// Starts the collector.
    pub async fn collector(&self) -> Result<Collector> {
        self.collector_with(Options::default()).await
    }

    /// Starts the collector with options.
    pub async fn collector_with(&self, options: Options) -> Result<Collector> {
        let collector = self.start(options).await?;
        collector.ready().await?;
        Ok(collector)
    }

    /// Starts the collector, and does not wait until it is ready: as the manifests run it,
    /// where they are tested. Where Kubernetes' own collects, it only looks on.
    pub async fn start(&self, options: Options) -> Result<Collector> {
        if let Some(standing) = &self.standing {
            return standing.start(options).await;
        }
        let options = if controller_manager::collects() { options.looking_on() } else { options };
        Collector::start(self.plane, options).await
    }

    /// Replaces the collector by a new one, and waits until that has settled.
    pub async fn restarted(&self, collector: Collector) -> Result<Collector> {
        collector.stop().await?;
        let collector = self.collector().await?;
        self.cluster.settled(&collector).await.context("after a restart")?;
        Ok(collector)
    }
}

/// Objects that know what is to happen to them.
pub trait Scene: Sized {
    /// How many steps the scenario has.
    const STEPS: usize = 1;

    /// Creates the objects.
    async fn plant(cluster: &Cluster) -> Result<Self>;

    /// The objects, as they were planted.
    fn all(&self) -> Vec<&Obj>;

    /// What the client does.
    async fn step(&self, cluster: &Cluster, step: usize) -> Result<()>;

    /// Fails unless everything is as it must be when the collector has finished
    /// with this step.
    async fn holds(&self, cluster: &Cluster, step: usize) -> Result<()>;
}

/// Plays a scenario in three orders at the same time: objects created and step
/// 0 done before the collector comes; objects created before and step 0 done
/// after; and all done under its eyes. Each outcome must hold after a restart.
pub async fn play<S: Scene>() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let behind_its_back = S::plant(cluster).await?;
    stage.others_catch_up().await?;
    behind_its_back.step(cluster, 0).await?;
    let found = S::plant(cluster).await?;
    let mut collector = stage.collector().await?;
    let watched = S::plant(cluster).await?;
    cluster.settled(&collector).await?;
    for scene in [&found, &watched] {
        untouched(cluster, scene.all()).await.context("before anything was deleted")?;
    }
    stage.others_catch_up().await?;

    let scenes = [
        ("step 0 before the collector came", behind_its_back),
        ("created before the collector came", found),
        ("all after the collector came", watched),
    ];
    let mut agreed = 0.0;
    for step in 0..S::STEPS {
        for (order, scene) in &scenes[usize::from(step == 0)..] {
            scene.step(cluster, step).await.with_context(|| format!("step {step}, {order}"))?;
        }
        cluster.settled(&collector).await.with_context(|| format!("after step {step}"))?;
        for (order, scene) in &scenes {
            scene.holds(cluster, step).await.with_context(|| format!("after step {step}, {order}"))?;
        }
        if collector.looks_on() {
            agreed += collector.comparisons().await?.agreed;
        }
        collector = stage.restarted(collector).await?;
        for (order, scene) in &scenes {
            let holds = scene.holds(cluster, step).await;
            holds.with_context(|| format!("after step {step} and a restart, {order}"))?;
        }
    }
    ensure!(!collector.looks_on() || agreed > 0.0, "there was nothing to compare");
    collector.stop().await
}

/// Fails unless nobody has written to these objects since they were read.
pub async fn untouched<'a>(cluster: &Cluster, objects: impl IntoIterator<Item = &'a Obj>) -> Result<()> {
    for object in objects {
        let now = cluster.fresh(object).await?;
        ensure!(now.resource_version == object.resource_version, "{object} was changed to {}", now.raw);
    }
    Ok(())
}

/// Fails unless an object lives and has exactly these owners.
pub async fn lives_with(cluster: &Cluster, object: &Obj, owners: &[&Obj]) -> Result<()> {
    let now = cluster.fresh(object).await?;
    let owners: Vec<&str> = owners.iter().map(|owner| owner.uid.as_str()).collect();
    ensure!(!now.is_terminating(), "{object} is being deleted: {}", now.raw);
    ensure!(now.owner_uids() == owners, "not owned by {owners:?}: {}", now.raw);
    Ok(())
}

/// Fails unless an object is being deleted and has exactly these finalizers.
pub async fn terminating_with(cluster: &Cluster, object: &Obj, finalizers: &[&str]) -> Result<()> {
    let now = cluster.fresh(object).await?;
    ensure!(now.is_terminating(), "{object} is not being deleted: {}", now.raw);
    ensure!(now.finalizers() == finalizers, "finalizers are not {finalizers:?}: {}", now.raw);
    Ok(())
}

/// Lets an object own others of its kind, itself perhaps.
pub async fn own(cluster: &Cluster, owner: &Obj, dependent: &Obj, blocking: bool) -> Result<Obj> {
    let mut reference = owner.reference();
    reference["blockOwnerDeletion"] = json!(blocking);
    cluster.set_owner_references(dependent, &[reference]).await
}

/// So many, or an eighth of that where Kubernetes' own collector does the work: several
/// requests for each object are a long time.
pub fn many(count: usize) -> usize {
    if controller_manager::collects() { count / 8 } else { count }
}

/// Many ConfigMaps with one owner, which they block or not.
pub async fn crowd(ns: &Ns, owner: &Obj, count: usize, blocking: bool) -> Result<Vec<Obj>> {
    create_all((0..count).map(|number| {
        let builder = ns.configmap(format!("dependent-{number}")).owned_by(owner);
        if blocking { builder.blocking() } else { builder }
    }))
    .await
}

/// How many ConfigMaps a namespace has. One object is read, however many there are.
pub async fn configmaps(cluster: &Cluster, ns: &Ns) -> Result<usize> {
    let path = format!("/api/v1/namespaces/{}/configmaps?limit=1", ns.name());
    let page = cluster.send("GET", &path, None, None).await?;
    let shown = page["items"].as_array().map_or(0, Vec::len);
    let more = page["metadata"]["remainingItemCount"].as_u64().unwrap_or_default();
    Ok(shown + usize::try_from(more)?)
}

/// The ConfigMaps of a namespace.
pub async fn list_configmaps(cluster: &Cluster, ns: &Ns) -> Result<Vec<Obj>> {
    cluster.list(&ApiResource::erase::<ConfigMap>(&()), Some(ns.name())).await
}

/// Waits until a count that falls has left nine tenths of `total` behind, and
/// fails if a tenth is not still to come: returns how many are left.
pub async fn midway(total: usize, mut left: impl AsyncFnMut() -> Result<usize>) -> Result<usize> {
    let mut now = total;
    poll("the collector to be in the middle of it", async || {
        now = left().await?;
        Ok(now * 10 <= total * 9)
    })
    .await?;
    ensure!(now * 10 >= total, "too late for the middle: {now} of {total} left");
    Ok(now)
}

/// Removes all ConfigMaps of a namespace: what a scenario of thousands leaves
/// behind would slow down all that come after it.
pub async fn clear(cluster: &Cluster, ns: &Ns) -> Result<()> {
    let left = list_configmaps(cluster, ns).await?;
    cluster.delete_all(&left, Policy::Background).await
}

/// The names of so many objects of one resource in a namespace that went since a
/// resourceVersion, in the order in which they went.
pub async fn gone_since(
    cluster: &Cluster,
    resource: &ApiResource,
    ns: &Ns,
    since: &str,
    count: usize,
) -> Result<Vec<String>> {
    let root = if resource.group.is_empty() { "/api" } else { "/apis" };
    let path = format!(
        "{root}/{}/namespaces/{}/{}?watch=true&resourceVersion={since}&timeoutSeconds=1",
        resource.api_version,
        ns.name(),
        resource.plural
    );
    let mut gone = Vec::new();
    // A watch may be over before it has shown everything.
    poll(&format!("{count} deletions in the history"), async || {
        gone.clear();
        let request = http::Request::get(&path).body(Vec::new())?;
        for line in cluster.client().request_text(request).await?.lines() {
            let event: Value = serde_json::from_str(line)?;
            ensure!(event["type"] != "ERROR", "no history since {since}: {event}");
            if event["type"] == "DELETED" {
                gone.push(event["object"]["metadata"]["name"].as_str().unwrap_or_default().to_owned());
            }
        }
        Ok(gone.len() >= count)
    })
    .await?;
    Ok(gone)
}

/// Waits until the collector has seen all that there is of a type, whatever else it
/// has to do.
pub async fn seen(cluster: &Cluster, collector: &Collector, resource: &ApiResource) -> Result<()> {
    let (key, version) = cluster
        .seen()
        .into_iter()
        .find(|(seen, _)| *seen == key(resource))
        .context("nothing was done with the type")?;
    poll(&format!("{key} to be seen"), async || {
        let report = collector.get_debug(&format!("/debug/idle?seen={key}%3D{version}")).await?.json()?;
        Ok(report["not_seen"].as_array().is_some_and(Vec::is_empty))
    })
    .await
}

/// A custom resource that can be made impossible to list: its objects are
/// stored in one version and watched in another, and for the conversion the
/// API server is sent to a webhook that nobody answers for.
pub struct Breakable {
    cluster: Cluster,
    crd: Crd,
}

impl Breakable {
    /// Creates it, sound.
    pub async fn create(cluster: &Cluster, name: &str) -> Result<Self> {
        let crd = cluster.crd(name, Scope::Namespaced, &["v1beta1", "v1"]).await?;
        Ok(Self { cluster: cluster.clone(), crd })
    }

    /// The resource in the version that is stored.
    pub fn resource(&self) -> &ApiResource {
        self.crd.resource()
    }

    /// Breaks it: needs an object to fail on.
    pub async fn break_it(&self) -> Result<()> {
        let webhook =
            json!({ "clientConfig": { "url": "https://127.0.0.1:1/" }, "conversionReviewVersions": ["v1"] });
        self.convert(&json!({ "strategy": "Webhook", "webhook": webhook }), false).await
    }

    /// Mends it.
    pub async fn mend(&self) -> Result<()> {
        self.convert(&json!({ "strategy": "None", "webhook": null }), true).await
    }

    async fn convert(&self, conversion: &Value, works: bool) -> Result<()> {
        let patch = json!({ "spec": { "conversion": conversion } });
        // Not by way of `patch`: a type that cannot be listed cannot be settled.
        self.cluster.forget(self.resource());
        self.cluster.send("PATCH", &self.crd.definition().path(), MERGE_PATCH, Some(&patch)).await?;
        let watched = self.crd.resource_at("v1");
        poll("the change of the conversion to take effect", async || {
            Ok(self.cluster.list(&watched, None).await.is_ok() == works)
        })
        .await
    }

    /// Removes it with its objects, which needs it to be sound.
    pub async fn remove(&self) -> Result<()> {
        self.mend().await?;
        self.crd.remove().await
    }
}

/// A configuration for scenarios in which some type cannot be listed: nobody
/// wants to wait long for that one.
pub fn impatient() -> Options {
    Options::config(
        "[startup]\nsync_timeout = \"1s\"\n[watch]\nmin_backoff = \"50ms\"\nmax_backoff = \"200ms\"\n",
    )
}

/// So many requests a second make the middle of thousands last: nine tenths to one
/// tenth of 5,000 take more than six seconds, and whoever looks at it may be late.
pub const LASTING: u32 = 600;

/// A configuration for a collector that is easily interrupted: so many requests
/// a second, and those that still wait for their turn in the end are abandoned.
pub fn slow(requests_per_second: u32) -> Options {
    Options::config(format!(
        "[client]\nqps = {requests_per_second}\nburst = 1\n[shutdown]\ngrace = \"200ms\"\n"
    ))
}
