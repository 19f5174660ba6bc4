//! `kube-gc explain`: the verdict, and what it rests on.

use anyhow::{Result, ensure};
use futures::future::ready;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use super::Caller;
use super::fixtures::{HeldCascade, World};
use crate::conformance::stage::HOLD;
use crate::conformance::user::User;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::webhook::{Decision, Denial, Hook, Webhook};
use kube_gc_testkit::{Options, Policy, Scope};

kube_gc_testkit::scenarios! {
    what_is_garbage_is_said_and_then_collected,
    what_blocks_a_foreground_deletion_is_found,
    a_finalizer_whose_api_is_gone_is_named,
    what_was_not_listed_may_block_a_deletion,
    what_a_webhook_refuses_is_said_of_what_it_blocks,
    an_ignored_type_is_named,
}

/// The verdict is that of the collector, which carries it out.
async fn what_is_garbage_is_said_and_then_collected() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let owner = ns.configmap("owner").create().await?;
    let item = ns.secret("item").owned_by(&owner).create().await?;
    cluster.delete(&owner, Policy::Background).await?;
    let verdict = format!(
        "Secret/item is garbage: its owner ConfigMap/owner does not exist in namespace {}. The collector, if one runs, \
         deletes it with the policy Background.\n",
        ns.name()
    );
    let reference = "ConfigMap/owner absent - the server says that it does not exist\n";
    caller.says("explain secret/item", 0, &[&verdict, reference]).await?;
    let json = caller.json("explain secret/item").await?;
    ensure!(json["outcome"] == "goes" && json["references"][0]["evidence"]["kind"] == "notFound", "{json}");
    // Its owner may be meant to be in another namespace.
    let other = cluster.namespace().await?;
    let shared = other.configmap("shared").create().await?;
    let copy = ns.secret("copy").owned_by(&shared).create().await?;
    let found = format!("the uid is that of {}/shared)", other.name());
    caller
        .says("explain secret/copy", 0, &[&found, &format!("that uid is in namespace {}", other.name())])
        .await?;
    let dry = world.stage.collector_with(Options::default().arg("--dry-run")).await?;
    let line = format!("explain secret/item --collector http://{}", dry.debug_address());
    let decided = async || Ok(caller.json(&line).await?["decisions"][0]["outcome"] == "dry_run");
    poll("a decision", decided).await?;
    let decided = "collector decided about it: delete (dry run: nothing was sent).\n";
    let verdict = verdict.replace("The collector, if one runs, deletes it", "The collector would delete it");
    caller.says(&line, 0, &[&verdict, decided, "in a dry run: it writes nothing.\n"]).await?;
    let ran = caller.ask(&line).await?;
    ensure!(ran.out.matches("nothing").count() == 2, "besides that nothing was sent: {ran:?}");
    ensure!(caller.json(&line).await?["dryRun"] == true);
    // What its graph remembers does not say who has the name.
    let new = ns.configmap("owner").create().await?;
    let taken =
        format!("any more (another object has that name now: {}). The collector would delete", new.uid);
    caller.says(&line, 0, &[&taken]).await?;
    dry.stop().await?;
    let collector = world.stage.collector().await?;
    cluster.settled(&collector).await?;
    cluster.assert_gone([&item, &copy]).await?;
    let audit = "if it ever existed, the API server's audit log says who deleted it: resource secrets, apiGroup \"\", ";
    let several = "verb delete and name item, or verb deletecollection, which has no name";
    caller.says("explain secret/item", 8, &["secrets \"item\" not found", audit, several]).await?;
    let from = format!("--collector http://{}", collector.debug_address());
    let deleted = format!("kube-gc deleted secrets/item (uid {}) at 2", item.uid);
    let taken = format!("; another object has that name now: {}", new.uid);
    let said = [&deleted, "its owner ConfigMap/owner did not exist ("];
    caller.says(&format!("explain secret/item {from}"), 8, &[&taken]).await?;
    caller.says(&format!("explain secret/item {from}"), 8, &said).await?;
    caller.says(&format!("explain uid:{} {from}", item.uid), 8, &said).await?;
    let found = format!("the uid is of one in namespace {}", other.name());
    caller.says(&format!("explain secret/copy {from}"), 8, &[&found]).await?;
    caller.says(&format!("explain cm/never {from}"), 8, &["does not remember that it deleted it"]).await?;
    collector.stop().await
}

async fn what_blocks_a_foreground_deletion_is_found() -> Result<()> {
    let world = World::set().await?;
    let (_, _, caller) = world.parts();
    let cascade = HeldCascade::begin(&world).await?;
    let said = [
        "ConfigMap/root is being deleted, and waits for 1 blocking dependent.\n",
        &format!("\nSecret/held finalizer {HOLD} ago ConfigMap/middle\n"),
        "\nIn between: ConfigMap/middle (waits for 1)\n",
        &format!("\nFinalizer {HOLD}: "),
    ];
    caller.says("explain cm/root --from lists", 0, &said).await?;
    caller.says("explain cm/root -o name", 0, &["secret/held\n"]).await?;
    cascade.end(&world).await
}

/// The finalizers of objects, and of what is left in a namespace.
async fn a_finalizer_whose_api_is_gone_is_named() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    // The embedded server does not say who has written.
    let is_real = world.stage.plane.embedded().is_none();
    cluster.crd("widgets.insight.example.org", Scope::Namespaced, &["v1"]).await?;
    let configmaps = Api::<ConfigMap>::namespaced(world.stage.plane.client().await?, ns.name());
    let manager = PostParams { field_manager: Some("backup".to_owned()), ..PostParams::default() };
    for (name, finalizer, api) in [
        ("served", "insight.example.org/backup", true),
        ("a", "gone.example.net/backup", false),
        ("b", "gone.example.net/backup", false),
    ] {
        let metadata = json!({ "name": name, "finalizers": [finalizer] });
        configmaps.create(&manager, &serde_json::from_value(json!({ "metadata": metadata }))?).await?;
        configmaps.delete(name, &DeleteParams::background()).await?;
        let json = caller.json(&format!("explain cm/{name}")).await?;
        ensure!(json["outcome"] == "waits" && json["finalizers"][0]["apiIsServed"] == api, "{json}");
        ensure!(json["finalizers"][0]["setBy"]["manager"] == "backup" || !is_real, "{json}");
    }
    let alive = ns.configmap("alive").create().await?;
    cluster.delete(ns.as_object(), Policy::Background).await?;
    poll("the namespace to be deleted", async || Ok(cluster.fresh(ns.as_object()).await?.is_terminating()))
        .await?;
    let row = "gone.example.net/backup 2 ConfigMap/a, ConfigMap/b ";
    let said = if is_real {
        ["cannot go: ", row, "backup ago; its API is not served", "backup set it"]
    } else {
        ["cannot go: ", row, "-; its API is not served", "the server has no API of its domain."]
    };
    let goes = format!("stays at most as long as namespace {} exists, which is being deleted.\n", ns.name());
    caller.says("explain cm/alive", 0, &[&goes]).await?;
    let collector = world.stage.collector().await?;
    let explained = collector.get_debug(&format!("/debug/explain?uid={}", alive.uid)).await?.json()?;
    ensure!(explained["outcome"] == "staysForNow", "{explained}");
    collector.stop().await?;
    let line = format!("explain ns/{}", ns.name());
    caller.says(&line, 0, &said).await?;
    let json = caller.json(&line).await?;
    ensure!(json["outcome"] == "waits" && json["namespace"]["held"][0]["count"] == 2, "{json}");
    ensure!(json["namespace"]["held"][0]["firstSet"].is_string() == is_real, "{json}");
    Ok(())
}

/// Without dependents that block it, the collector would finish the deletion.
async fn what_was_not_listed_may_block_a_deletion() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let root = ns.configmap("root").create().await?;
    cluster.delete(&root, Policy::Foreground).await?;
    let rules = json!([{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"] }]);
    let user = User::create(world.stage.plane, cluster, ns, rules).await?;
    let user = Caller { kubeconfig: user.kubeconfig(), ..caller };
    let unknown = "ConfigMap/root is being deleted. It is not known whether dependents block it";
    user.says("explain cm/root --from lists", 6, &[unknown]).await?;
    for (caller, line, outcome, code) in [
        (caller, "", "goes", 0),
        (caller, " --kinds secrets", "unknown", 7),
        (user, " --kinds secrets", "unknown", 6),
    ] {
        let ran = caller.ask(&format!("explain cm/root --from lists -o json{line}")).await?;
        ensure!(ran.code == code && ran.json()?["outcome"] == outcome, "{ran:?}");
    }
    Ok(())
}

async fn what_a_webhook_refuses_is_said_of_what_it_blocks() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let root = ns.configmap("root").create().await?;
    let denied = ns.secret("denied").owned_by(&root).blocking().create().await?;
    let webhook = Webhook::start(world.stage.plane).await?;
    let hook = Hook { mutating: false, resource: &denied.resource, operations: &["DELETE"] };
    let denial = || Denial { code: Some(403), message: "not today".to_owned(), ..Denial::default() };
    let guard = webhook.review(cluster, ns, hook, move |_| ready(Decision::Deny(denial()))).await?;
    let collector = world.stage.collector_with(Options::config("[retry]\nmax = \"300ms\"\n")).await?;
    cluster.delete(&root, Policy::Foreground).await?;
    let line = format!("explain cm/root --collector http://{}", collector.debug_address());
    let is_said = async || anyhow::Ok(caller.ask(&line).await?.out.contains("not today"));
    poll("the webhook to deny", is_said).await?;
    let said = [" failed: ", "What to do about Secret/denied: ", "!look whether it runs"];
    caller.says(&line, 0, &said).await?;
    cluster.delete(&guard, Policy::Background).await?;
    drop(webhook);
    cluster.gone(&root).await?;
    collector.stop().await
}

async fn an_ignored_type_is_named() -> Result<()> {
    let world = World::set().await?;
    let (_, ns, caller) = world.parts();
    ns.secret("item").create().await?;
    let options = Options::config("[discovery]\nignored = [\"secrets\"]\n");
    let collector = world.stage.collector_with(options).await?;
    let line = format!("explain secret/item --collector http://{}", collector.debug_address());
    caller.says(&line, 7, &["The collector ignores secrets", "Not looked at: secrets: "]).await?;
    collector.stop().await
}
