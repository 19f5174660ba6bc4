//! `kube-gc tree`: lists, and what they cannot show.

use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::fixtures::World;
use super::{samples, words};
use crate::conformance::stage::HOLD;
use kube_gc_testkit::{Policy, Scope, target};

kube_gc_testkit::scenarios! {
    owners_are_above_and_dependents_below,
    a_cluster_scoped_object_shows_dependents_everywhere,
    the_worst_dependents_are_shown,
    what_stays_below_an_object_that_is_gone_is_said,
}

/// Nothing refers to the object any more, and what is at the end of the chain is held, shown or not.
async fn what_stays_below_an_object_that_is_gone_is_said() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let collector = world.stage.collector().await?;
    for (flags, shown, said, code) in [
        ("", "Secret/held", ", and 1 object below it is still there: Secret/held", 1),
        ("--down=1", "1 more Secret", "; what else was below it was not looked at", 7),
    ] {
        let top = ns.configmap("top").create().await?;
        let middle = ns.configmap("middle").owned_by(&top).create().await?;
        let held = ns.secret("held").owned_by(&middle).finalizer(HOLD).create().await?;
        cluster.settled(&collector).await?;
        let mut watching = tokio::process::Command::new(target::binary())
            .args(["tree", "cm/top", "--watch", "-n", ns.name()])
            .args(flags.split_whitespace())
            .env("KUBECONFIG", caller.kubeconfig)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut lines = BufReader::new(watching.stdout.take().context("no output")?).lines();
        while !lines.next_line().await?.context("it has ended")?.contains(shown) {}
        cluster.delete(&top, Policy::Background).await?;
        let mut last = String::new();
        while let Some(line) = lines.next_line().await? {
            last = line;
        }
        ensure!(last == format!("ConfigMap/top is gone{said}"), "{last}");
        ensure!(watching.wait().await?.code() == Some(code), "the exit code does not say so: {last}");
        cluster.set_finalizers(&held, &[]).await?;
        cluster.gone(&held).await?;
    }
    collector.stop().await
}

async fn owners_are_above_and_dependents_below() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let top = ns.configmap("top").create().await?;
    let root = ns.configmap("root").owned_by(&top).controlled().create().await?;
    let held = ns.secret("held").owned_by(&root).finalizer(HOLD).create().await?;
    ns.secret("below").owned_by(&held).create().await?;
    cluster.delete(&held, Policy::Background).await?;
    let table = "NAME STATE READY AGE\nConfigMap/top live owner\n└─ ConfigMap/root live\n";
    let names = "configmap/root\nconfigmap/top\nsecret/held\nsecret/below\n";
    let by_uid = format!("tree uid:{} -o name", root.uid);
    let row = format!("└─ Secret/held terminating finalizer {HOLD}, deleted");
    for (line, said) in [
        ("tree cm/root", &[table, &row, "└─ Secret/below live\n"][..]),
        ("tree configmaps root -o name", &[names]),
        (&by_uid, &[names]),
        ("tree cm/root -o dot", &["digraph", "n2 -> n3"]),
    ] {
        caller.says(line, 0, said).await?;
    }
    let json = caller.json("tree cm root").await?;
    ensure!(json["apiVersion"] == "kube-gc.io/v1" && json["kind"] == "Tree", "{json}");
    ensure!(json["nodes"][0]["uid"] == root.uid.as_str() && json["incomplete"] == json!([]), "{json}");

    let before = cluster.request_counts().await?;
    let line = "tree cm/root --kinds configmaps,sec* --exclude s?crets";
    caller.says(line, 0, &["Left out on request: ", "!below"]).await?;
    let sent = cluster.request_counts().await?.since(&before);
    ensure!(sent.get("LIST", "secrets") == 0 && sent.writes() == 0, "{sent:?}");
    Ok(())
}

async fn a_cluster_scoped_object_shows_dependents_everywhere() -> Result<()> {
    let world = World::set().await?;
    let (cluster, _, caller) = world.parts();
    let gadgets = cluster.crd("gadgets.example.com", Scope::Cluster, &["v1"]).await?;
    let root = cluster.object(gadgets.resource(), "root").create().await?;
    let mut expected = vec!["gadget.example.com/root".to_owned()];
    for name in ["a", "b"] {
        let ns = cluster.namespace().await?;
        let item = ns.configmap(name).owned_by(&root).create().await?;
        ns.secret(format!("below-{name}")).owned_by(&item).create().await?;
        expected.extend([format!("configmap/{name}"), format!("secret/below-{name}")]);
    }
    let ran = caller.ask("tree gadgets.v1.example.com/root -o name").await?;
    let mut names: Vec<&str> = ran.out.lines().collect();
    names.sort_unstable();
    expected.sort();
    ensure!(ran.code == 0 && names == expected, "{ran:?}");
    Ok(())
}

async fn the_worst_dependents_are_shown() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let app = ns.configmap("app").create().await?;
    // Nothing runs, so only those that want no replica are ready.
    for (name, replicas) in [("api", 0), ("cart", 0), ("mail", 0), ("search", 1), ("web", 0)] {
        let deployment =
            ns.of::<Deployment>(name).owned_by(&app).field("spec", samples::spec("web", replicas));
        let deployment = if name == "mail" { deployment.finalizer("example.com/drain") } else { deployment };
        let deployment = deployment.create().await?;
        if name == "mail" {
            cluster.delete(&deployment, Policy::Background).await?;
        }
    }
    let collector = world.stage.collector().await?;
    cluster.settled(&collector).await?;
    for source in [String::new(), format!(" --collector http://{}", collector.debug_address())] {
        let lines = words(&caller.ask(&format!("tree cm/app --max 2{source}")).await?.out);
        ensure!(lines[2].starts_with("├─ Deployment/mail terminating 0/0 finalizer"), "{lines:?}");
        ensure!(lines[3] == "├─ Deployment/search live 0/1", "{lines:?}");
        ensure!(lines[4] == "└─ 3 more Deployments live 3 --all shows them", "{lines:?}");
    }
    collector.stop().await?;
    // A stage does not clear Deployments.
    let mail = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let deployments = Api::<Deployment>::namespaced(world.stage.plane.client().await?, ns.name());
    deployments.patch("mail", &PatchParams::default(), &mail).await?;
    Ok(())
}
