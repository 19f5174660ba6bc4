//! A collector that is found in the cluster, and reached through the API server.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use serde_json::json;

use super::fixtures::HeldCascade;
use super::{Ran, fits_schema, kube_gc, words};
use crate::conformance::stage::Stage;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::proxy::{Fault, Matcher, Proxy, Reply, Rule, Verb};

kube_gc_testkit::scenarios! {
    a_collector_is_found_and_asked_through_the_api_server,
    what_is_not_found_is_said_or_answered_from_lists,
}

/// Where the ports lead that nobody listens on.
const NOBODY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

/// The requests for the pods of collectors.
fn pods() -> Matcher {
    Matcher::verb(Verb::List).of("pods").when(|request| request.query.contains("labelSelector="))
}

/// The requests to forward a port of a pod.
fn forwards() -> Matcher {
    Matcher::verb(Verb::Get).of("pods").when(|request| request.path.ends_with("/portforward"))
}

/// Shows one running pod in this namespace, and one that is being deleted.
fn show_pods(proxy: &Proxy, namespace: &str) -> Rule {
    let pod = |name: &str, deleted: Option<&str>| {
        json!({
            "metadata": { "namespace": namespace, "name": name, "deletionTimestamp": deleted },
            "spec": { "containers": [{ "name": "kube-gc", "ports": [{ "name": "http", "containerPort": 8080 }] }] },
            "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
        })
    };
    let items = [pod("kube-gc-0", None), pod("kube-gc-1", Some("2026-01-01T00:00:00Z"))];
    let list = json!({ "kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items });
    proxy.always(pods(), Fault::Instead(Reply::json(200, &list)))
}

fn forbidden() -> Fault {
    Fault::Instead(Reply::status(403, "Forbidden", "forbidden by the test"))
}

async fn a_collector_is_found_and_asked_through_the_api_server() -> Result<()> {
    let stage = Stage::set().await?;
    let cascade = HeldCascade::begin(&stage).await?;
    let (ns, collector) = (cascade.ns.name(), &cascade.collector);
    let proxy = Proxy::start(stage.plane).await?;
    proxy.forward_ports(collector.debug_address().parse()?);
    let _shown = show_pods(&proxy, "kube-gc");
    let ask = async |line: String| -> Result<Ran> { kube_gc(proxy.kubeconfig(), &line).await };

    let from = "From the collector at port 8081 of pod kube-gc/kube-gc-0";
    for source in ["", "--from collector", "--collector-namespace kube-gc"] {
        let ran = ask(format!("explain cm/root -n {ns} {source}")).await?;
        ensure!(ran.code == 0 && ran.out.lines().last() == Some(from), "{source}: {ran:?}");
        ensure!(ran.out.contains("The collector cannot finish with it (blocked, since"), "{source}: {ran:?}");
    }
    let listed = ask(format!("tree cm/root -n {ns}")).await?;
    let asked = ask(format!("tree cm/root -n {ns} --from collector")).await?;
    ensure!(listed.code == 0 && words(&asked.out) == words(&format!("{}{from}\n", listed.out)), "{asked:?}");

    // The times of the server have no fractions of a second.
    let line = format!("stuck -n {ns} --older 0s");
    poll("the second of the deletion to pass", async || {
        Ok(ask(format!("{line} --from lists")).await?.out.contains("\nSTUCK"))
    })
    .await?;
    let listed = ask(format!("{line} --from lists")).await?;
    let mark = proxy.mark();
    let asked = ask(line.clone()).await?;
    ensure!(listed.code == 1 && asked.code == 1, "{listed:?} {asked:?}");
    ensure!(words(&asked.out) == words(&format!("{}{from}\n", listed.out)), "{listed:?} {asked:?}");
    ensure!(proxy.since(mark, &Matcher::verb(Verb::List).of("secrets")).is_empty(), "secrets were listed");
    ensure!(!proxy.since(mark, &forwards()).is_empty(), "no port was forwarded");
    let same = async |source: &str| ask(format!("{line} -o json {source}")).await?.json();
    ensure!(same("--from collector").await? == same("--from lists").await?);

    let page = collector.get_debug(&format!("/debug/stuck/causes?namespace={ns}&older=0")).await?.json()?;
    fits_schema(&page)?;

    // Lists can leave types out.
    let ran = ask(format!("{line} --kinds secrets")).await?;
    ensure!(ran.code == 1 && !ran.out.contains(from), "{ran:?}");
    let ran = ask(format!("{line} --kinds secrets --from collector")).await?;
    ensure!(ran.code == 2 && ran.err.contains("--kinds and --exclude"), "{ran:?}");

    cascade.end(&stage).await?;
    stage.clear().await
}

async fn what_is_not_found_is_said_or_answered_from_lists() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = stage.cluster.namespace().await?;
    ns.configmap("root").create().await?;
    let proxy = Proxy::start(stage.plane).await?;
    proxy.forward_ports(NOBODY);
    let ask = async |line: &str| kube_gc(proxy.kubeconfig(), &format!("{line} -n {}", ns.name())).await;
    let none = json!({ "kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [] });

    // Without a sign of a collector, nothing is said of one.
    for reply in [Reply::json(200, &none), Reply::status(403, "Forbidden", "forbidden by the test")] {
        let rule = proxy.always(pods(), Fault::Instead(reply));
        let ran = ask("explain cm/root").await?;
        ensure!(ran.code == 0 && !ran.out.contains("ollector at"), "{ran:?}");
        rule.remove();
    }
    let rule = proxy.always(pods(), Fault::Instead(Reply::json(200, &none)));
    for line in [
        "explain cm/root --from collector",
        "tree cm/root --from collector",
        "plan cm/root --from collector",
        "stuck --from collector",
    ] {
        let ran = ask(line).await?;
        ensure!(ran.code == 4 && ran.err.contains("no collector was found: no namespace has"), "{ran:?}");
    }
    rule.remove();
    let rule = proxy.always(pods(), forbidden());
    let ran = ask("stuck --collector-namespace gc").await?;
    ensure!(ran.code == 6 && ran.err.contains("no collector can be looked for: "), "{ran:?}");
    rule.remove();

    let _shown = show_pods(&proxy, "kube-gc");
    let dead = "dial tcp4 127.0.0.1:8081";
    let ran = ask("explain cm/root --from collector").await?;
    ensure!(ran.code == 4 && ran.err.contains(dead) && ran.out.is_empty(), "{ran:?}");
    let ran = ask("explain cm/root").await?;
    ensure!(ran.code == 0, "{ran:?}");
    let last = ran.out.lines().last().unwrap_or_default();
    ensure!(last.starts_with("From lists: ") && last.contains(dead), "{ran:?}");
    let _rule = proxy.always(forwards(), forbidden());
    let ran = ask("stuck --from collector").await?;
    ensure!(ran.code == 6 && ran.err.contains("get and create pods/portforward"), "{ran:?}");
    let ran = ask("stuck").await?;
    ensure!(ran.code == 0 && ran.out.contains("From lists: the collector cannot be reached: "), "{ran:?}");
    stage.clear().await
}
