//! Runs a scenario: with the collector started before or after the changes, and again after a
//! restart.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ApiResource;
use serde_json::{Value, json};

use kube_gc_testkit::cluster::{create_all, key, poll};
use kube_gc_testkit::{Cluster, Collector, ControlPlane, Crd, Ns, Obj, Options, Policy, Scope, Turn};

/// A finalizer that only the test removes.
pub const HOLD: &str = "example.com/hold";
/// The API server's finalizers.
pub const FOREGROUND: &str = "foregroundDeletion";
/// See [`FOREGROUND`].
pub const ORPHAN: &str = "orphan";
/// The content type of merge patches for [`Cluster::send`].
pub const MERGE_PATCH: Option<&str> = Some("application/merge-patch+json");

/// The control plane, in the turn of this scenario.
pub struct Stage {
    /// The control plane, which scenarios share.
    pub plane: &'static ControlPlane,
    /// The client.
    pub cluster: Cluster,
    _turn: Turn,
}

impl Stage {
    /// Waits for the turn of the scenario, and removes the remains of the previous one.
    pub async fn set() -> Result<Self> {
        Self::set_on(Turn::take().await?).await
    }

    /// The same on a given control plane.
    pub async fn set_on(turn: Turn) -> Result<Self> {
        let plane = turn.plane();
        let cluster = Cluster::new(plane.client().await?);
        let stage = Self { plane, cluster, _turn: turn };
        stage.clear().await.context("cannot clear the stage")?;
        Ok(stage)
    }

    /// Starts the collector.
    pub async fn collector(&self) -> Result<Collector> {
        self.collector_with(Options::default()).await
    }

    /// Starts the collector with options.
    pub async fn collector_with(&self, options: Options) -> Result<Collector> {
        let collector = Collector::start(self.plane, options).await?;
        collector.ready().await?;
        Ok(collector)
    }

    /// Replaces the collector by a new one, and waits until that one has settled.
    pub async fn restarted(&self, collector: Collector) -> Result<Collector> {
        collector.stop().await?;
        let collector = self.collector().await?;
        self.cluster.settled(&collector).await.context("after a restart")?;
        Ok(collector)
    }
}

/// The objects of a scenario, with its steps.
pub trait Scene: Sized {
    /// The number of steps.
    const STEPS: usize = 1;

    /// Creates the objects.
    async fn plant(cluster: &Cluster) -> Result<Self>;

    /// Does one step of the client.
    async fn step(&self, cluster: &Cluster, step: usize) -> Result<()>;

    /// Fails unless everything is as expected after the collector has finished with this step.
    async fn holds(&self, cluster: &Cluster, step: usize) -> Result<()>;
}

/// Runs a scenario in three orders in parallel: objects created and step 0 done before the
/// collector starts; objects created before and step 0 done after; and everything done while the
/// collector runs. Each outcome must hold after a restart.
pub async fn play<S: Scene>() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let behind_its_back = S::plant(cluster).await?;
    behind_its_back.step(cluster, 0).await?;
    let found = S::plant(cluster).await?;
    let mut collector = stage.collector().await?;
    let watched = S::plant(cluster).await?;
    cluster.settled(&collector).await?;

    let scenes = [
        ("step 0 before the collector came", behind_its_back),
        ("created before the collector came", found),
        ("all after the collector came", watched),
    ];
    for step in 0..S::STEPS {
        for (order, scene) in &scenes[usize::from(step == 0)..] {
            scene.step(cluster, step).await.with_context(|| format!("step {step}, {order}"))?;
        }
        cluster.settled(&collector).await.with_context(|| format!("after step {step}"))?;
        for (order, scene) in &scenes {
            scene.holds(cluster, step).await.with_context(|| format!("after step {step}, {order}"))?;
        }
        collector = stage.restarted(collector).await?;
        for (order, scene) in &scenes {
            let holds = scene.holds(cluster, step).await;
            holds.with_context(|| format!("after step {step} and a restart, {order}"))?;
        }
    }
    collector.stop().await
}

/// Fails if these objects were written to since they were read.
pub async fn untouched<'a>(cluster: &Cluster, objects: impl IntoIterator<Item = &'a Obj>) -> Result<()> {
    for object in objects {
        let now = cluster.fresh(object).await?;
        ensure!(now.resource_version == object.resource_version, "{object} was changed to {}", now.raw);
    }
    Ok(())
}

/// Fails unless an object exists and has exactly these owners.
pub async fn lives_with(cluster: &Cluster, object: &Obj, owners: &[&Obj]) -> Result<()> {
    let now = cluster.fresh(object).await?;
    let owners: Vec<&str> = owners.iter().map(|owner| owner.uid.as_str()).collect();
    ensure!(!now.is_terminating(), "{object} is being deleted: {}", now.raw);
    ensure!(now.owner_uids() == owners, "not owned by {owners:?}: {}", now.raw);
    Ok(())
}

/// Fails unless these objects exist and have the owners with which they were created.
pub async fn as_created<'a>(cluster: &Cluster, objects: impl IntoIterator<Item = &'a Obj>) -> Result<()> {
    for object in objects {
        let now = cluster.fresh(object).await?;
        ensure!(now.owner_uids() == object.owner_uids(), "{object} has other owners: {}", now.raw);
        ensure!(!now.is_terminating(), "{object} is being deleted");
    }
    Ok(())
}

/// Fails unless an object is being deleted and has exactly these finalizers.
pub async fn terminating_with(cluster: &Cluster, object: &Obj, finalizers: &[&str]) -> Result<()> {
    let now = cluster.fresh(object).await?;
    ensure!(now.is_terminating(), "{object} is not being deleted: {}", now.raw);
    ensure!(now.finalizers() == finalizers, "finalizers are not {finalizers:?}: {}", now.raw);
    Ok(())
}

/// Makes an object an owner of others of its kind, perhaps of itself.
pub async fn own(cluster: &Cluster, owner: &Obj, dependent: &Obj, blocking: bool) -> Result<Obj> {
    let mut reference = owner.reference();
    reference["blockOwnerDeletion"] = json!(blocking);
    cluster.set_owner_references(dependent, &[reference]).await
}

/// Many ConfigMaps with one owner, which they may block.
pub async fn crowd(ns: &Ns, owner: &Obj, count: usize, blocking: bool) -> Result<Vec<Obj>> {
    create_all((0..count).map(|number| {
        let builder = ns.configmap(format!("dependent-{number}")).owned_by(owner);
        if blocking { builder.blocking() } else { builder }
    }))
    .await
}

/// The number of ConfigMaps in a namespace, by a request for one object.
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

/// Waits until a falling count is below nine tenths of `total`, and fails if less than a tenth is
/// left. Returns the count.
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

/// Removes all ConfigMaps of a namespace. The remains of a scenario with thousands would slow down
/// all later ones.
pub async fn clear(cluster: &Cluster, ns: &Ns) -> Result<()> {
    let left = list_configmaps(cluster, ns).await?;
    cluster.delete_all(&left, Policy::Background).await
}

/// The names of the first `count` objects of a resource that were deleted in a namespace after a
/// resourceVersion, in the order of their deletions.
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
    // A watch may end before it has shown everything.
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

/// Waits until the collector has seen all objects of a type, whatever other work it has.
pub async fn seen(cluster: &Cluster, collector: &Collector, resource: &ApiResource) -> Result<()> {
    let (key, version) = cluster
        .seen()
        .into_iter()
        .find(|(seen, _)| *seen == key(resource))
        .context("nothing was done with the type")?;
    collector.sees(&key, &version).await
}

/// A custom resource that can be made impossible to list: its objects are stored in one version and
/// watched in another, and the webhook for the conversion does not exist.
pub struct Breakable {
    cluster: Cluster,
    crd: Crd,
}

impl Breakable {
    /// Creates the type, intact.
    pub async fn create(cluster: &Cluster, name: &str) -> Result<Self> {
        let crd = cluster.crd(name, Scope::Namespaced, &["v1beta1", "v1"]).await?;
        Ok(Self { cluster: cluster.clone(), crd })
    }

    /// The resource in its storage version.
    pub fn resource(&self) -> &ApiResource {
        self.crd.resource()
    }

    /// Breaks the type. Needs an existing object.
    pub async fn break_it(&self) -> Result<()> {
        let webhook =
            json!({ "clientConfig": { "url": "https://127.0.0.1:1/" }, "conversionReviewVersions": ["v1"] });
        self.convert(&json!({ "strategy": "Webhook", "webhook": webhook }), false).await
    }

    /// Repairs the type.
    pub async fn mend(&self) -> Result<()> {
        self.convert(&json!({ "strategy": "None", "webhook": null }), true).await
    }

    async fn convert(&self, conversion: &Value, works: bool) -> Result<()> {
        let patch = json!({ "spec": { "conversion": conversion } });
        // Not through `patch`, because `settled` cannot handle a type that cannot be listed.
        self.cluster.forget(self.resource());
        self.cluster.send("PATCH", &self.crd.definition().path(), MERGE_PATCH, Some(&patch)).await?;
        let watched = self.crd.resource_at("v1");
        poll("the change of the conversion to take effect", async || {
            Ok(self.cluster.list(&watched, None).await.is_ok() == works)
        })
        .await
    }

    /// Removes the type with its objects, which works only if it is intact.
    pub async fn remove(&self) -> Result<()> {
        self.mend().await?;
        self.crd.remove().await
    }
}

/// A configuration for scenarios with a type that cannot be listed, so that start-up does not wait
/// long for it.
pub fn impatient() -> Options {
    Options::config(
        "[startup]\nsync_timeout = \"1s\"\n[watch]\nmin_backoff = \"50ms\"\nmax_backoff = \"200ms\"\n",
    )
}

/// A request rate at which the middle of thousands lasts long enough: from nine tenths to one tenth
/// of 5,000 takes more than six seconds.
pub const LASTING: u32 = 600;

/// A configuration for a collector that is easy to interrupt: this request rate, and no grace
/// period for pending requests.
pub fn slow(requests_per_second: u32) -> Options {
    Options::config(format!(
        "[client]\nqps = {requests_per_second}\nburst = 1\n[shutdown]\ngrace = \"200ms\"\n"
    ))
}

/// A field of `/proc/PID/status` of a collector, in KiB: `VmRSS` is its memory, `VmHWM` the peak of it.
pub fn status(collector: &Collector, field: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", collector.pid()))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let value = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(value.with_context(|| format!("no {field}"))?.parse()?)
}
