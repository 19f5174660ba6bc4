//! A real Prometheus scrapes real collectors on a real API server, while a load and many faults
//! occur. Every query of the dashboard and the rules must have data, and each alert must fire
//! where its fault is.
//!
//! Several installations share one cluster. The label `namespace` distinguishes them, as in an
//! operator's Prometheus. The rules have [shortened](crate::shorten) times.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use kube_gc_core::mutation::PANIC_OVER;
use serde_json::json;
use tokio::sync::MutexGuard;
use tokio::try_join;

use crate::dashboard::source;
use crate::faults::{Faults, Load, MERGE_PATCH, OF_UNKNOWN};
use crate::nodes::{self, Node};
use crate::prometheus::{Prometheus, Target};
use crate::replica::Replica;
use crate::rules::{alerts, rules};
use crate::shorten::shortened;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::proxy::{Fault, Matcher, Outage, Proxy, Reply, Request, Verb};
use kube_gc_testkit::{Cluster, ControlPlane, Ns};

/// The alert of each fault, and the installation that has the fault.
const FIRES: [(&str, &str); 15] = [
    ("KubeGcNoLeader", "leaderless"),
    ("KubeGcNothingSynced", "blind"),
    ("KubeGcResourceNotSynced", "kube-gc"),
    ("KubeGcUndiscovered", "kube-gc"),
    ("KubeGcSlow", "kube-gc"),
    ("KubeGcStuck", "braked"),
    ("KubeGcWritesDenied", "kube-gc"),
    ("KubeGcRestarting", "leaderless"),
    ("KubeGcWorkersFailing", "braked"),
    ("KubeGcLeaseFlapping", "flapping"),
    ("KubeGcBraked", "braked"),
    ("KubeGcDisagrees", "beside"),
    ("KubeGcNodeNotReady", nodes::DEAF),
    ("KubeGcNodeFailing", nodes::FULL),
    ("KubeGcNodeFull", nodes::FULL),
];
/// The alert when the API server becomes unreachable for one installation, after all others have
/// fired.
const OUTAGE: (&str, &str) = ("KubeGcApiServerUnreachable", "blind");
/// The alert when all replicas have ended.
const AT_THE_END: &str = "KubeGcDown";
/// Nothing keeps a thread busy for so long on a machine that all of this shares. The query has
/// data, and the unit tests of the rule show when it fires.
const WITHOUT_FAULT: &str = "KubeGcThreadBusy";
/// Installations that have nothing to do with a fault, and for which its alert must not fire.
const QUIET: [(&str, &[&str]); 10] = [
    ("KubeGcApiServerUnreachable", &["kube-gc", "leaderless", "flapping", "braked", "beside"]),
    ("KubeGcNoLeader", &["blind", "braked", "beside"]),
    ("KubeGcNothingSynced", &["kube-gc", "leaderless", "flapping", "braked", "beside"]),
    ("KubeGcRestarting", &["kube-gc", "blind", "flapping", "braked", "beside"]),
    ("KubeGcWorkersFailing", &["kube-gc", "blind", "leaderless", "flapping", "beside"]),
    ("KubeGcBraked", &["kube-gc", "blind", "leaderless", "flapping", "beside"]),
    ("KubeGcDisagrees", &["kube-gc", "blind", "leaderless", "flapping", "braked"]),
    ("KubeGcNodeNotReady", &[nodes::FULL, nodes::FINE]),
    ("KubeGcNodeFailing", &[nodes::DEAF, nodes::FINE]),
    ("KubeGcNodeFull", &[nodes::DEAF, nodes::FINE]),
];
const ACQUIRED: &str = "kube_gc_leader_transitions_total{transition=\"acquired\"}";

/// The cluster, Prometheus and the load.
struct Stage {
    plane: &'static ControlPlane,
    cluster: Cluster,
    ns: Ns,
    faults: Faults,
    load: Load,
    prometheus: Prometheus,
    begun: f64,
    targets: Mutex<BTreeMap<&'static str, Target>>,
    _turn: MutexGuard<'static, ()>,
}

fn unix_now() -> Result<f64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64())
}

impl Stage {
    async fn set() -> Result<Self> {
        let plane = ControlPlane::shared()?;
        let turn = plane.exclusive().await;
        let cluster = Cluster::new(plane.client().await?);
        let ns = cluster.namespace().await?;
        let faults = Faults::make(plane, &cluster, &ns).await?;
        // 28 seconds of work at 20 objects a second: KubeGcSlow needs ten, and may have to start
        // again.
        let load = Load::create(&ns, [440, 60, 60]).await?;
        // Started last, so that it does not miss the collectors.
        let prometheus = Prometheus::start(&shortened()?).await?;
        let (begun, targets) = (unix_now()?, Mutex::default());
        Ok(Self { plane, cluster, ns, faults, load, prometheus, begun, targets, _turn: turn })
    }

    /// Makes Prometheus scrape this replica at its present address.
    fn scrape(&self, replica: &Replica) -> Result<()> {
        self.scrape_target(replica.target())
    }

    fn scrape_target(&self, target: Target) -> Result<()> {
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        targets.insert(target.pod, target);
        self.prometheus.scrape(&targets.values().cloned().collect::<Vec<_>>())
    }

    /// The installations for which an alert has fired.
    async fn fired(&self, alert: &str) -> Result<BTreeSet<String>> {
        let query = format!("max_over_time(ALERTS{{alertname=\"{alert}\",alertstate=\"firing\"}}[10m])");
        let series = self.prometheus.now(&query).await?;
        Ok(series.iter().map(|one| one.label("namespace").to_owned()).collect())
    }

    /// Waits until an alert has fired for an installation.
    async fn fires(&self, alert: &str, namespace: &str) -> Result<()> {
        let what = format!("{alert} to fire in {namespace:?}");
        let fired = poll(&what, async || Ok(self.fired(alert).await?.contains(namespace))).await;
        if let Err(error) = fired {
            let alerts = self.prometheus.alerts().await?;
            return Err(
                error.context(format!("there are {alerts}; Prometheus says: {}", self.prometheus.log()))
            );
        }
        eprintln!("{:5.1} s: {alert} has fired in {namespace:?}", unix_now()? - self.begun);
        Ok(())
    }

    /// Fails if a query never had a value, with the dashboard's variables filled in.
    async fn has_data(&self, place: &str, query: &str) -> Result<()> {
        let query = query.replace("$__rate_interval", "5s").replace("$namespace", ".*");
        let query = query.replace("$job", "kube-gc").replace("$pod", ".*");
        let series = self.prometheus.between(&query, self.begun, unix_now()?, 1.0).await?;
        let number = series.iter().flat_map(|one| &one.samples).any(|(_, value)| value.is_finite());
        ensure!(number, "{place}: no data for {query}: {series:?}");
        Ok(())
    }
}

/// Everything that Prometheus scrapes.
struct Installations {
    one: Replica,
    two: Replica,
    beside: Replica,
    braked: Replica,
    leaderless: Replica,
    blind: Replica,
    flapping: Replica,
    proxies: [Proxy; 3],
}

impl Installations {
    async fn start(stage: &Stage) -> Result<Self> {
        let lease = |name: &str, times: &str| {
            format!(
                "[leader]\nenabled = true\nnamespace = \"{}\"\nname = \"{name}\"\n{times}\n",
                stage.ns.name()
            )
        };
        // Slow, so that work accumulates.
        let main =
            lease("main", "lease_duration = \"5s\"\nrenew_deadline = \"3s\"\nretry_period = \"400ms\"")
                + "[client]\nqps = 20\nburst = 1\n";
        let flapping = lease(
            "flapping",
            "lease_duration = \"1s\"\nrenew_deadline = \"800ms\"\nretry_period = \"200ms\"",
        ) + "[client]\nqps = 1\nburst = 1\n";
        let leaderless = "[leader]\nenabled = true\nnamespace = \"there-is-no-such-namespace\"\n";
        let braked = "[brake]\ndeletions_per_minute = 3\n";
        let admin = stage.plane.kubeconfig();
        // Occasional conflicts and throttling.
        let front = Proxy::start(stage.plane).await?;
        let deletion = || Matcher::verb(Verb::Delete).of("configmaps");
        let _ = front.times(2, deletion(), Fault::Instead(Reply::conflict()));
        let throttled = Reply::status(429, "TooManyRequests", "too many at a time").retry_after(1);
        let _ = front.times(5, deletion(), Fault::Instead(throttled));
        let _ =
            front.times(1, Matcher::verb(Verb::Patch).of("configmaps"), Fault::Instead(Reply::conflict()));
        // Objects that it may not delete must not be released in another way.
        let deletes_only = Proxy::start(stage.plane).await?;
        let _ = deletes_only.always(Matcher::verb(Verb::Patch), Fault::Instead(Reply::broken()));
        let wall = Proxy::start(stage.plane).await?;
        let _ = wall
            .always(Matcher::verb(Verb::List).when(Request::is_full_list), Fault::Instead(Reply::broken()));
        let one = Replica::start(("kube-gc", "one"), front.kubeconfig(), &main, |_| ()).await?;
        stage.scrape(&one)?;
        one.reaches("kube_gc_leader", 1.0).await?;
        let (two, beside, braked, leaderless, blind, flapping) = try_join!(
            Replica::start(("kube-gc", "two"), admin, &main, |_| ()),
            Replica::start(("beside", "beside"), admin, "[comparison]\ngrace = \"2s\"\n", |options| {
                options.args.push("--dry-run".to_owned());
            }),
            Replica::start(("braked", "braked"), deletes_only.kubeconfig(), braked, |options| {
                // Garbage of a kind that is not served is processed again and again.
                options.env.push((PANIC_OVER.to_owned(), OF_UNKNOWN.to_owned()));
            }),
            Replica::start(("leaderless", "leaderless"), admin, leaderless, |_| ()),
            Replica::start(("blind", "blind"), wall.kubeconfig(), "", |_| ()),
            Replica::start(("flapping", "flapping"), admin, &flapping, |_| ()),
        )?;
        let all = Self {
            one,
            two,
            beside,
            braked,
            leaderless,
            blind,
            flapping,
            proxies: [front, deletes_only, wall],
        };
        for replica in
            [&all.one, &all.two, &all.beside, &all.braked, &all.leaderless, &all.blind, &all.flapping]
        {
            stage.scrape(replica)?;
        }
        Ok(all)
    }
}

/// Kills it three times, and lets Prometheus see it in between.
async fn restarted(stage: &Stage, replica: &mut Replica) -> Result<()> {
    let query = "process_start_time_seconds{pod=\"leaderless\"}";
    for _ in 0..4 {
        let seen =
            || async { anyhow::Ok(stage.prometheus.now(query).await?.first().map(|one| one.samples[0].1)) };
        let now = replica.value("process_start_time_seconds").await?;
        poll("Prometheus to see a new process", async || Ok(seen().await? == Some(now))).await?;
        replica.kill()?;
        replica.start_again().await?;
        stage.scrape(replica)?;
    }
    Ok(())
}

/// Another client takes the lease again and again, and does not renew it.
async fn flapped(stage: &Stage, replica: &Replica) -> Result<()> {
    // Prometheus needs seconds to discover a target, and earlier increases do not count.
    let query = "kube_gc_leader_transitions_total{pod=\"flapping\",transition=\"acquired\"}";
    poll("Prometheus to see the first term", async || {
        Ok(stage.prometheus.now(query).await?.iter().any(|one| one.samples[0].1 >= 1.0))
    })
    .await?;
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/flapping", stage.ns.name());
    for round in 1..=6 {
        replica.reaches(ACQUIRED, f64::from(round)).await?;
        // The replica may renew the lease at the same time.
        let taken = json!({ "spec": { "holderIdentity": format!("somebody-{round}") } });
        stage.cluster.send("PATCH", &path, MERGE_PATCH, Some(&taken)).await?;
    }
    Ok(())
}

/// Creates more work than the leader can do for a while. Then the leader is killed, and the other
/// replica takes over.
async fn loaded(stage: &Stage, one: &mut Replica, two: &mut Replica) -> Result<()> {
    stage.load.begin(&stage.cluster).await?;
    stage.fires("KubeGcSlow", "kube-gc").await?;
    // Read first, because the count of the next leader must be higher.
    let counted = (one.value(ACQUIRED).await?, two.value(ACQUIRED).await?);
    let mut leads = false;
    poll("one of them to lead", async || {
        leads = one.value("kube_gc_leader").await? == 1.0;
        Ok(leads || two.value("kube_gc_leader").await? == 1.0)
    })
    .await?;
    let (leader, other, before) = if leads { (one, two, counted.1) } else { (two, one, counted.0) };
    leader.kill()?;
    stage.scrape(leader)?;
    other.reaches(ACQUIRED, before + 1.0).await?;
    leader.start_again().await?;
    stage.scrape(leader)?;
    stage.load.done(&stage.cluster).await
}

async fn every_query_has_had_data(stage: &Stage) -> Result<()> {
    let mut empty = Vec::new();
    for panel in source()?.panels() {
        for (_, query) in panel.queries() {
            empty.extend(stage.has_data(&panel.title, &query).await.err().map(|error| format!("{error:#}")));
        }
    }
    let hurried = stage.prometheus.rules().await?;
    let hurried = hurried.as_array().into_iter().flatten().flat_map(|group| group["rules"].as_array());
    let mut count = 0;
    for rule in hurried.flatten() {
        let name = rule["name"].as_str().context("no name")?;
        ensure!(rule["health"] == "ok", "{name}: {rule}");
        let query = rule["query"].as_str().context("no query")?;
        let compared = query.rsplit_once(" > ").map(|(compared, _)| compared);
        let query = compared.filter(|_| name == WITHOUT_FAULT).unwrap_or(query);
        if name != AT_THE_END {
            empty.extend(stage.has_data(name, query).await.err().map(|error| format!("{error:#}")));
        }
        count += 1;
    }
    ensure!(count == rules()?.len(), "Prometheus has {count} rules");
    ensure!(empty.is_empty(), "{}", empty.join("\n"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_query_has_data_and_every_alert_fires_on_its_fault() -> Result<()> {
    let covered: BTreeSet<&str> =
        FIRES.iter().map(|(alert, _)| *alert).chain([OUTAGE.0, AT_THE_END, WITHOUT_FAULT]).collect();
    ensure!(alerts()?.iter().map(String::as_str).eq(covered), "an alert that nothing provokes");

    let stage = Stage::set().await?;
    let nodes = [Node::full().await?, Node::deaf().await?, Node::fine().await?];
    for node in &nodes {
        stage.scrape_target(node.target())?;
    }
    let mut all = Installations::start(&stage).await?;
    try_join!(
        loaded(&stage, &mut all.one, &mut all.two),
        restarted(&stage, &mut all.leaderless),
        flapped(&stage, &all.flapping),
    )?;
    for (alert, namespace) in FIRES {
        stage.fires(alert, namespace).await?;
    }
    let [_, _, wall] = &all.proxies;
    wall.set_outage(Some(Outage::Refused));
    stage.fires(OUTAGE.0, OUTAGE.1).await?;
    for (alert, quiet) in QUIET {
        let fired = stage.fired(alert).await?;
        ensure!(quiet.iter().all(|namespace| !fired.contains(*namespace)), "{alert} fired in {fired:?}");
    }
    let down = format!("ALERTS{{alertname=\"{AT_THE_END}\",alertstate=\"firing\"}}");
    ensure!(stage.prometheus.now(&down).await?.is_empty(), "they are not down");
    stage.faults.allow(&stage.cluster).await?;
    every_query_has_had_data(&stage).await?;

    for node in nodes {
        node.end().await?;
    }
    let Installations { one, two, beside, braked, leaderless, blind, flapping, proxies: _proxies } = all;
    for mut replica in [one, two, beside, braked, leaderless, blind, flapping] {
        replica.kill()?;
    }
    stage.fires(AT_THE_END, "").await
}
