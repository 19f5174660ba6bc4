//! The truth of what a command line names: which objects a plan is about, and what then happens.

use anyhow::{Result, ensure};

use super::fixtures::{Truth, World, stuck};
use super::{Caller, kube_gc};
use crate::conformance::stage::HOLD;
use kube_gc_testkit::{Options, Policy};

kube_gc_testkit::scenarios! {
    labels_select_cluster_scoped_objects,
    what_the_server_refuses_leaves_the_others,
}

/// As `kubectl delete cm,ns -l` does, in whatever namespace.
async fn labels_select_cluster_scoped_objects() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let doomed = cluster.namespace().await?;
    cluster.set_label(doomed.as_object(), "app", "selected").await?;
    let item = doomed.secret("item").finalizer(HOLD).create().await?;
    let here = ns.configmap("here").label("app", "selected").create().await?;
    let other = doomed.configmap("other").label("app", "selected").create().await?;
    for (line, code, said) in [
        ("plan ns -l app=selected", 0, "is deleted last, after its "),
        ("plan ns -l app=selected -o name", 0, "namespace/"),
        ("plan cm,ns -l app=selected --fail-above 1", 1, "ConfigMap/here and 1 more are deleted"),
        ("plan no,pv -l app=selected", 8, "no no,pv has the labels app=selected"),
        ("plan cm -l app=", 8, "no cm has the labels app="),
        ("plan cm --selector=", 2, "-l names no labels"),
        ("plan cm -l app=nobody -l app=selected", 0, "ConfigMap/here is deleted"),
        (
            "plan all -l app=selected",
            2,
            "use: kubectl get all -n NAMESPACE -l LABELS -o name | xargs kube-gc plan -n NAMESPACE",
        ),
        ("plan cm/x%3Ay", 8, "the name is invalid: no object can have it"),
        ("plan cm,secret here -o name", 8, "secrets \"here\" not found"),
    ] {
        caller.says(line, code, &[said]).await?;
    }
    for (line, code, said) in [
        ("plan cm -A -l app=selected", 0, "ConfigMap/here and 1 more are deleted"),
        ("plan cm/here -A", 2, "--selector <SELECTOR>"),
    ] {
        let ran = kube_gc(caller.kubeconfig, line).await?;
        ensure!(ran.code == code && (ran.out + &ran.err).contains(said), "{line}");
    }
    let nowhere = Caller { namespace: "nowhere", ..caller };
    nowhere.says("plan cm -l app=selected", 8, &["namespaces \"nowhere\" not found"]).await?;
    let options = Options::config("[namespaces]\nquiet = \"100ms\"\n").arg("--finish-namespaces");
    let collector = world.stage.collector_with(options).await?;
    let truth = Truth {
        line: "plan cm,ns -l app=selected".to_owned(),
        says: &["ConfigMap/here and 1 more are deleted", "\nheld Secret/item"],
        policy: Policy::Background,
        roots: &[&here, doomed.as_object()],
        objects: &[&here, doomed.as_object(), &item, &other],
    };
    truth.comes_true(&world, &collector, async || Ok(())).await?;
    // The namespace itself is what hangs.
    let hung = cluster.namespace().await?;
    cluster.set_label(hung.as_object(), "app", "selected").await?;
    let item = hung.secret("item").finalizer(HOLD).create().await?;
    cluster.delete(hung.as_object(), Policy::Background).await?;
    let there = Caller { namespace: hung.name(), ..caller };
    for line in ["stuck --older 0s -l app=selected", "stuck --older 0s -l app=selected --kinds ns,secret"] {
        stuck(there, line, 1).await?;
    }
    stuck(there, "stuck --older 0s", 2).await?;
    // Whoever looks at another namespace sees it by its labels, and what it waits for.
    stuck(caller, "stuck --older 0s -l app=selected", 1).await?;
    let held = format!("Namespace/{} waits for Secret/item (finalizer {HOLD})", hung.name());
    caller.says("stuck --older 0s -l app=selected", 1, &[&held, "!Not looked at"]).await?;
    cluster.set_finalizers(&item, &[]).await?;
    cluster.gone(hung.as_object()).await?;
    collector.stop().await
}

async fn what_the_server_refuses_leaves_the_others() -> Result<()> {
    let world = World::set().await?;
    let (cluster, _, caller) = world.parts();
    let doomed = cluster.namespace().await?;
    let item = doomed.secret("item").create().await?;
    let refuses =
        " The API server refuses to delete Namespace/kube-public, PriorityClass/system-node-critical.\n";
    let line = format!("plan ns/kube-public ns/{} priorityclass/system-node-critical", doomed.name());
    if world.stage.plane.embedded().is_none() {
        caller.says(&format!("{line} --fail-above 0"), 1, &[refuses]).await?;
    }
    let line = format!("plan ns kube-public {} ", doomed.name());
    caller
        .says(&format!("{line} --fail-above 0"), 1, &[" refuses to delete Namespace/kube-public.\n"])
        .await?;
    let ran = caller.ask(&format!("{line} -o name")).await?;
    ensure!(
        ran.code == 0
            && ran.out.starts_with("namespace/")
            && ran.err.ends_with(" delete Namespace/kube-public.\n"),
        "{ran:?}"
    );
    let json = caller.json(&line).await?;
    ensure!(json["refused"].to_string().matches("\"name\"").count() == 1, "{json}");
    ensure!(json["refused"][0]["name"] == "kube-public", "{json}");
    let options = Options::config("[namespaces]\nquiet = \"100ms\"\n").arg("--finish-namespaces");
    let collector = world.stage.collector_with(options).await?;
    let truth = Truth {
        line,
        says: &["is deleted last, after its ", ". The API server refuses to delete Namespace/kube-public.\n"],
        policy: Policy::Background,
        roots: &[doomed.as_object()],
        objects: &[doomed.as_object(), &item],
    };
    truth.comes_true(&world, &collector, async || Ok(())).await?;
    caller
        .says(
            "plan ns/kube-public ns/kube-system --fail-above 0",
            0,
            &["refuses to delete Namespace/kube-public, Namespace/kube-system.\n"],
        )
        .await?;
    collector.stop().await
}
