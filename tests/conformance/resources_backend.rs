//! An aggregated API whose backend works, fails and returns.

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use crate::conformance::outcome::{Outcome, Rest, reference, reported_as_failing, uids, unused_uid};
use crate::conformance::stage::{FOREGROUND, ORPHAN, Stage, lives_with, terminating_with};
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::{Backend, Collector, Ns, Obj, Options, Policy};

kube_gc_testkit::scenarios! {
    objects_of_an_aggregated_api_are_collected_when_its_backend_returns,
    an_api_that_was_never_discovered_holds_owners_that_orphan_their_dependents,
    an_api_that_is_away_for_long_is_passed_over_and_named,
    an_api_of_metrics_holds_no_owner,
}

const GROUP: &str = "backend.example.com";
/// While the backend is down.
const REST: Rest = Rest::FailingOf("things.backend.example.com");
/// Start-up does not wait long for a type that fails.
const IMPATIENT: &str = "[discovery]\ninterval = \"100ms\"\n[startup]\nsync_timeout = \"1s\"\n\
                         [watch]\nmin_backoff = \"50ms\"\nmax_backoff = \"200ms\"\n";

async fn collector(stage: &Stage) -> Result<Collector> {
    stage.collector_with(Options::config(IMPATIENT)).await
}

/// Objects of the type and of others, and their dependents, when the backend goes down.
struct Family {
    owner: Obj,
    of_owner: Obj,
    /// A dependent thing, which cannot be deleted while the backend is down.
    held: Obj,
    waiting: Obj,
    /// A thing that blocks the deletion of `waits`, if the collector knows it.
    blocker: Obj,
    live: Obj,
    of_live: Obj,
    /// A thing that is deleted, and its dependents. The other owner of the shared dependent stays.
    doomed: Obj,
    of_doomed: Obj,
    other: Obj,
    shared: Obj,
    /// A thing that is deleted and replaced by another one with the same name.
    remade: Obj,
    of_remade: Obj,
}

impl Family {
    async fn make(ns: &Ns, backend: &Backend) -> Result<Self> {
        let thing = |name: &str| ns.object(backend.resource(), name);
        let owner = ns.secret("owner").create().await?;
        let waiting = ns.secret("waiting").create().await?;
        let live = thing("live").create().await?;
        let doomed = thing("doomed").create().await?;
        let other = ns.secret("other").create().await?;
        let remade = thing("remade").create().await?;
        Ok(Self {
            of_owner: ns.configmap("of-owner").owned_by(&owner).create().await?,
            held: thing("held").owned_by(&owner).create().await?,
            owner,
            blocker: thing("blocker").owned_by(&waiting).blocking().create().await?,
            waiting,
            of_live: ns.configmap("of-live").owned_by(&live).create().await?,
            live,
            of_doomed: ns.configmap("of-doomed").owned_by(&doomed).create().await?,
            shared: ns.configmap("shared").owned_by(&doomed).owned_by(&other).create().await?,
            doomed,
            other,
            of_remade: ns.configmap("of-remade").owned_by(&remade).create().await?,
            remade,
        })
    }

    /// Changes on the backend that neither the front server nor the collector can see. Returns the
    /// replacement of the recreated thing.
    async fn change_in_secret(&self, backend: &Backend) -> Result<Obj> {
        let direct = backend.direct();
        for object in [&self.doomed, &self.remade] {
            direct.delete(object, Policy::Background).await?;
        }
        let Obj { resource, name, namespace, .. } = &self.remade;
        let body = json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": { "name": name, "namespace": namespace },
        });
        let path = self.remade.path();
        let path = path.trim_end_matches(name.as_str()).trim_end_matches('/');
        direct.send("POST", path, None, Some(&body)).await?;
        let again = direct.get(&self.remade).await?;
        again.filter(|again| again.uid != self.remade.uid).ok_or_else(|| anyhow::anyhow!("it was not remade"))
    }

    /// The objects of the front server that must not be written to while the backend is down.
    fn unclear(&self) -> Vec<Obj> {
        [&self.of_live, &self.of_doomed, &self.shared, &self.other, &self.of_remade].map(Clone::clone).into()
    }
}

/// Whether readiness, a metric and a debug page name the group.
async fn named(collector: &Collector, group: &str) -> Result<[bool; 3]> {
    let ready = collector.get("/readyz?verbose").await?;
    ensure!(ready.status == 200, "not ready: {}", ready.body);
    let in_readiness = ready.body.lines().any(|line| line.contains(group) && line.contains("503"));
    let failing = format!("kube_gc_undiscovered{{group=\"{group}\",version=\"v1\"}}");
    let in_metrics = collector.metrics().await?.get(&failing).is_some_and(|value| *value == 1.0);
    let debug = collector.get_debug("/debug/discovery").await?.json()?;
    let is_it = |part: &Value| part["group"] == group && part["version"] == "v1" && part["since"].is_string();
    let in_debug = debug.as_array().into_iter().flatten().any(is_it);
    Ok([in_readiness, in_metrics, in_debug])
}

/// Whether the watched type is reported, too, in the words of the server.
async fn is_failing(collector: &Collector) -> Result<bool> {
    let is_failing = |monitor: &Value| {
        monitor["group"] == GROUP && monitor["last_error"].as_str().is_some_and(|error| error.contains("503"))
    };
    let counted = collector.metric_of("kube_gc_resource_sync_errors_total", &[GROUP]).await? > 0.0;
    Ok(counted && collector.monitors().await?.iter().any(is_failing))
}

/// The backend of an API fails while the collector runs, and returns. Objects that depend
/// on it wait until then, and nothing alive is deleted, because nobody can tell whether
/// an owner of that type is gone (rule 2.14).
async fn objects_of_an_aggregated_api_are_collected_when_its_backend_returns() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let mut backend = Backend::start(stage.plane, cluster, &ns, GROUP).await?;
    let running = collector(&stage).await?;
    let family = Family::make(&ns, &backend).await?;
    cluster.settled(&running).await?;

    cluster.forget(backend.resource());
    backend.go_down().await?;
    let again = family.change_in_secret(&backend).await?;
    cluster.delete(&family.owner, Policy::Background).await?;
    cluster.delete(&family.waiting, Policy::Foreground).await?;
    let of_live_too = ns.configmap("of-live-too").owned_by(&family.live).create().await?;
    let never = reference(&family.live.resource.api_version, "Thing", "never", &unused_uid());
    let of_never = ns.configmap("of-never").owner_reference(never).create().await?;
    poll("the group to be named", async || Ok(named(&running, GROUP).await? == [true; 3])).await?;
    poll("the type to be named", async || is_failing(&running).await).await?;
    cluster.forget(backend.resource());
    stage.settled(&running, REST).await?;
    let mut untouched = family.unclear();
    untouched.extend([of_live_too.clone(), of_never.clone()]);
    let gone = vec![family.owner.clone(), family.of_owner.clone()];
    Outcome { gone, untouched, ..Outcome::default() }.check(cluster).await?;
    terminating_with(cluster, &family.waiting, &[FOREGROUND]).await?;
    reported_as_failing(&running, &[&family.held, &family.blocker], "503").await?;
    for object in [&family.live, &family.held, &family.blocker] {
        backend.direct().fresh(object).await?;
    }
    stage.prove_alive(&running, REST).await?;

    backend.go_up().await?;
    // The references count again.
    let of_again = ns.object(backend.resource(), "of-again").owned_by(&again).create().await?;
    cluster.settled(&running).await?;
    let kept = vec![(family.shared.clone(), uids([&family.other]))];
    let untouched = vec![family.live, family.of_live, family.other, of_live_too, again, of_again];
    let gone = vec![
        family.held,
        family.waiting,
        family.blocker,
        family.doomed,
        family.of_doomed,
        family.remade,
        family.of_remade,
        of_never,
    ];
    Outcome { gone, kept, untouched, ..Outcome::default() }.check(cluster).await?;
    poll("the group to be forgotten", async || Ok(named(&running, GROUP).await? == [false; 3])).await?;
    ensure!(!is_failing(&running).await?, "the type is still named");
    running.stop().await?;
    cluster.forget(backend.resource());
    backend.unregister().await?;
    stage.clear().await
}

/// An API that is down since the collector started, an owner, and its dependent in that API.
struct NeverSeen {
    stage: Stage,
    backend: Backend,
    collector: Collector,
    owner: Obj,
    dependent: Obj,
}

impl NeverSeen {
    async fn set(group: &str, orphan_wait: &str) -> Result<Self> {
        let stage = Stage::set().await?;
        let ns = stage.cluster.namespace().await?;
        let mut backend = Backend::start(stage.plane, &stage.cluster, &ns, group).await?;
        let owner = ns.secret("owner").create().await?;
        let dependent = ns.object(backend.resource(), "dependent").owned_by(&owner).create().await?;
        backend.go_down().await?;
        stage.cluster.forget(backend.resource());
        let config = IMPATIENT.replacen('\n', &format!("\norphan_wait = \"{orphan_wait}\"\n"), 1);
        let collector = stage.collector_with(Options::config(config)).await?;
        Ok(Self { stage, backend, collector, owner, dependent })
    }

    async fn goes(&self) -> Result<()> {
        self.stage.cluster.gone(&self.owner).await
    }

    async fn end(self) -> Result<()> {
        self.collector.stop().await?;
        self.stage.cluster.forget(self.backend.resource());
        self.backend.unregister().await?;
        self.stage.clear().await
    }
}

/// Fails if the owner is finalized without a look at an API that the API server announces: when the
/// API is back, a collector that was restarted deletes the dependent (rule 5.14).
async fn an_api_that_was_never_discovered_holds_owners_that_orphan_their_dependents() -> Result<()> {
    let mut scene = NeverSeen::set(GROUP, "10m").await?;
    let (cluster, owner) = (&scene.stage.cluster, &scene.owner);
    cluster.delete(owner, Policy::Orphan).await?;
    let mut message = String::new();
    poll("the owner to be stuck", async || {
        let page = scene.collector.get_debug("/debug/stuck?reason=orphaning&older=2").await?.json()?;
        let stuck = page["stuck"].as_array().cloned().unwrap_or_default();
        let found = stuck.iter().find(|item| item["object"]["uid"] == owner.uid.as_str());
        message = found.map(|item| item["message"].to_string()).unwrap_or_default();
        Ok(message.contains("finalizer"))
    })
    .await?;
    ensure!(message.contains("backend.example.com/v1 (") && message.contains("503"), "{message}");
    terminating_with(cluster, owner, &[ORPHAN]).await?;

    scene.backend.go_up().await?;
    scene.goes().await?;
    lives_with(cluster, &scene.dependent, &[]).await?;
    // Only this collector remembers the owner.
    scene.collector.stop().await?;
    scene.collector = collector(&scene.stage).await?;
    cluster.settled(&scene.collector).await?;
    lives_with(cluster, &scene.dependent, &[]).await?;
    scene.end().await
}

/// Fails if an API that never answers holds its owners for ever, or if nothing tells that their
/// dependents were not looked for (rule 5.14).
async fn an_api_that_is_away_for_long_is_passed_over_and_named() -> Result<()> {
    let mut scene = NeverSeen::set(GROUP, "2s").await?;
    let (cluster, owner) = (&scene.stage.cluster, &scene.owner);
    cluster.delete(owner, Policy::Orphan).await?;
    scene.goes().await?;
    let part = "backend.example.com/v1 (";
    let events = cluster.events(owner).await?;
    let [event] = &events[..] else { bail!("not one event: {events:?}") };
    ensure!(event.reason.as_deref() == Some("DependentsNotLookedFor"), "{event:?}");
    ensure!(event.type_.as_deref() == Some("Warning"), "{event:?}");
    ensure!(event.message.as_deref().is_some_and(|message| message.contains(part)), "{event:?}");
    let decisions = scene.collector.get_debug("/debug/decisions").await?.body;
    ensure!(decisions.contains(&format!("without a look at {part}")), "{decisions}");
    scene.collector.log_line("without a look at").await?;

    // The collector still remembers the owner.
    scene.backend.go_up().await?;
    poll("the dependent to be released", async || {
        Ok(cluster.fresh(&scene.dependent).await?.owner_uids().is_empty())
    })
    .await?;
    scene.end().await
}

/// Fails if a group that cannot contain dependents holds owners (rule 5.15).
async fn an_api_of_metrics_holds_no_owner() -> Result<()> {
    let scene = NeverSeen::set("custom.metrics.k8s.io", "10m").await?;
    let cluster = &scene.stage.cluster;
    cluster.delete(&scene.owner, Policy::Orphan).await?;
    scene.goes().await?;
    let events = cluster.events(&scene.owner).await?;
    ensure!(events.is_empty(), "{events:?}");
    scene.end().await
}
