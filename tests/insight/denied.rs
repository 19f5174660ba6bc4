//! What users are told who may not look at everything.

use anyhow::{Result, ensure};
use serde_json::json;

use super::Caller;
use super::fixtures::{World, stuck, unserved};
use crate::conformance::stage::{HOLD, own};
use crate::conformance::user::User;
use kube_gc_testkit::Policy;
use kube_gc_testkit::proxy::{Fault, Matcher, Proxy, Reply, Verb};

kube_gc_testkit::scenarios! {
    who_may_not_look_at_everything_is_told,
    who_may_not_read_what_is_deleted_is_told,
    who_may_list_nothing_is_not_told_that_all_is_well,
    who_may_list_one_namespace_plans_for_it,
}

async fn who_may_not_look_at_everything_is_told() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, all) = world.parts();
    let other = cluster.namespace().await?;
    let rules = |resource| json!([{ "apiGroups": [""], "resources": [resource], "verbs": ["get", "list"] }]);
    let configmaps = User::create(world.stage.plane, cluster, ns, rules("configmaps")).await?;
    let secrets = User::create(world.stage.plane, cluster, &other, rules("secrets")).await?;
    let configmaps = Caller { kubeconfig: configmaps.kubeconfig(), ..all };
    let secrets = Caller { kubeconfig: secrets.kubeconfig(), ..all };
    let root = ns.configmap("root").create().await?;
    ns.configmap("seen").owned_by(&root).create().await?;
    ns.secret("unseen").owned_by(&root).create().await?;
    let hidden = ns.secret("hidden").create().await?;
    let both = ns.configmap("both").owned_by(&root).owned_by(&hidden).create().await?;
    ns.configmap("below").owned_by(&both).create().await?;
    let kinds = "--kinds configmaps,secrets";
    let not_listed = "Not looked at: secrets: you may not list this (403)\n";
    let not_read = "Not looked at: ConfigMap/root: not allowed to get configmaps (403)\n";
    for (caller, line, code, said) in [
        (
            configmaps,
            format!("tree cm/root {kinds}"),
            7,
            &["ConfigMap/root live", "└─ ConfigMap/seen live", not_listed, "!unseen"][..],
        ),
        (configmaps, format!("plan cm/root {kinds}"), 7, &[not_listed]),
        (configmaps, format!("plan cm/root {kinds} --fail-above 1"), 1, &[]),
        (configmaps, "plan secret/unseen".to_owned(), 6, &[]),
        (
            // Secrets are left out on request, so the owner alone is missing.
            configmaps,
            "plan cm/root --kinds configmaps -o wide".to_owned(),
            7,
            &[
                "unknown ConfigMap/below",
                "unknown ConfigMap/both",
                "deleted ConfigMap/seen",
                "Secret/hidden: not allowed to get secrets (403)",
            ],
        ),
        (
            all,
            "plan cm/root --kinds configmaps -o wide".to_owned(),
            7,
            &["kept ConfigMap/both", "!below", "at least 1 other goes", "Left out on request: "],
        ),
        (
            secrets,
            "explain secret/unseen".to_owned(),
            7,
            &["its owner ConfigMap/root cannot be read: not allowed to get configmaps (403).\n", not_read],
        ),
        (secrets, "explain cm/root".to_owned(), 6, &[]),
        (
            secrets,
            "check --kinds secrets".to_owned(),
            7,
            &[not_read, "Found nothing wrong with 1 owner reference; not everything could be read.\n"],
        ),
        (secrets, "check --kinds configmaps".to_owned(), 6, &["you may not list configmaps in namespace"]),
    ] {
        caller.says(&line, code, said).await?;
    }
    let json = secrets.json("check --kinds secrets").await?;
    ensure!(json["findings"] == json!([]) && json["incomplete"][0]["what"] == "ConfigMap/root", "{json}");
    // What is known to be wrong counts more than what is not known.
    ns.secret("leaks").owner_reference(unserved()).create().await?;
    secrets.says("check --kinds secrets", 1, &["leaks unresolved secret/leaks"]).await
}

/// Asks as a user who may list Secrets and get none, and may read ConfigMaps.
async fn who_may_not_read_what_is_deleted_is_told() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, all) = world.parts();
    let rules = json!([
        { "apiGroups": [""], "resources": ["secrets"], "verbs": ["list"] },
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"] },
    ]);
    let user = User::create(world.stage.plane, cluster, ns, rules).await?;
    let user = Caller { kubeconfig: user.kubeconfig(), ..all };
    let held = ns.secret("held").finalizer(HOLD).create().await?;
    cluster.delete(&held, Policy::Background).await?;
    let said = [
        "Not looked at: Secret/held: ",
        "Nothing that could be looked at is stuck. At least 1 object is being",
    ];
    user.says("stuck --older 0s --kinds secrets", 7, &said).await?;
    // Whoever names it is refused at once.
    user.says("explain secret/held", 6, &["cannot get resource"]).await?;
    let said = [said[0], "waits for something that could not be looked at.\n"];
    user.says(&format!("explain uid:{}", held.uid), 6, &said).await?;
    // The cause of what waits for it is not known.
    let root = ns.configmap("root").create().await?;
    own(cluster, &root, &held, true).await?;
    cluster.delete(&root, Policy::Foreground).await?;
    let json = stuck(user, "stuck --older 0s --kinds secrets,configmaps", 1).await?;
    ensure!(json["groups"][0]["cause"] == "unknown", "{json}");
    Ok(())
}

async fn who_may_list_nothing_is_not_told_that_all_is_well() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, all) = world.parts();
    let user = User::create(world.stage.plane, cluster, ns, json!([])).await?;
    let user = Caller { kubeconfig: user.kubeconfig(), ..all };
    let nowhere = Caller { namespace: "nowhere", ..all };
    for command in ["stuck", "check"] {
        let said = format!("you may not list anything in namespace {}; ", ns.name());
        user.says(command, 6, &[&said, "!Nothing"]).await?;
        let said = format!("you may not list secrets in namespace {}; ", ns.name());
        user.says(&format!("{command} --kinds secrets"), 6, &[&said, "!Nothing"]).await?;
        nowhere.says(command, 8, &["namespaces \"nowhere\" not found"]).await?;
    }
    Ok(())
}

/// A namespace is cluster-scoped, and what is in it is not.
async fn who_may_list_one_namespace_plans_for_it() -> Result<()> {
    let world = World::set().await?;
    let (_, ns, all) = world.parts();
    let proxy = Proxy::start(world.stage.plane).await?;
    let of_all = Matcher::verb(Verb::List).when(|request| request.namespace.is_none());
    let denied = proxy.always(of_all, Fault::Instead(Reply::status(403, "Forbidden", "not of all")));
    let lead = Caller { kubeconfig: proxy.kubeconfig(), ..all };
    let root = ns.configmap("root").create().await?;
    ns.secret("item").owned_by(&root).create().await?;
    let only = format!("you may list this only in namespace {} (403)\nNamespace/", ns.name());
    let said = [only.as_str(), "deleted ConfigMap/root", "deleted Secret/item"];
    let line = format!("plan ns/{} --kinds configmaps,secrets -o wide", ns.name());
    lead.says(&line, 7, &said).await?;
    // What labels add to a namespace is no part of the question, unless its type is named.
    lead.says("stuck -l app=web", 0, &["Nothing with the labels app=web is stuck.\n", "!Not looked at"])
        .await?;
    lead.says("stuck -l app=web --kinds nodes", 6, &["you may not list nodes in namespace "]).await?;
    denied.remove();
    // The namespace controller lists inside the namespace, and is answered.
    let of_all = Matcher::verb(Verb::List).of("secrets").when(|request| request.namespace.is_none());
    let _broken = proxy.always(of_all, Fault::Instead(Reply::broken()));
    let may_go = "unless something that was not looked at holds it";
    lead.says(&line, 7, &[may_go, "!cannot go", "deleted Secret/item"]).await
}
