//! `kube-gc plan`: each effect, each exit code, and what the collector then does.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::fixtures::{Truth, World};
use super::{Caller, fits_schema};
use crate::conformance::stage::HOLD;
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::proxy::{Fault, Matcher, Proxy, Reply, Verb};
use kube_gc_testkit::{Backend, Collector, Options, Policy, Scope};

kube_gc_testkit::scenarios! {
    several_objects_are_planned_together,
    a_namespace_goes_last_and_a_silent_api_keeps_it,
    a_node_takes_its_pods_along,
    a_pod_may_stay_if_its_node_is_not_ready,
    a_collector_says_what_it_cannot_see,
    too_many_deletions_fail_and_the_brake_is_foreseen,
    what_an_engaged_brake_holds_is_not_said_to_go,
    what_waits_for_a_held_owner_is_not_said_to_go_at_once,
    a_definition_is_planned_with_all_objects_of_its_type,
    the_debug_page_has_the_same_plan,
}

/// The effect on each object, by name.
fn effects(plan: &Value) -> Vec<String> {
    let objects = plan["objects"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut all: Vec<String> = objects
        .iter()
        .map(|object| format!("{} {}", text(&object["name"]), text(&object["effect"])))
        .collect();
    all.sort();
    all
}

async fn several_objects_are_planned_together() -> Result<()> {
    let world = World::set().await?;
    let (_, ns, caller) = world.parts();
    let a = ns.configmap("a").label("app", "web").create().await?;
    let b = ns.configmap("b").label("app", "web").create().await?;
    let both = ns.secret("both").owned_by(&a).owned_by(&b).create().await?;
    let file = tempfile::NamedTempFile::new()?;
    let object = |name: &str| format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
    std::fs::write(file.path(), ["a", "b", "missing"].map(object).concat())?;
    let by_file = format!("plan -f {}", file.path().display());
    caller.says(&by_file, 0, &["Left out: configmaps \"missing\" not found in namespace "]).await?;
    let plan = caller.json("plan cm a b").await?;
    for line in [by_file.as_str(), "plan cm -l app=web", "plan cm/a configmaps/b cm/a"] {
        let other = caller.json(line).await?;
        ensure!(
            other["objects"] == plan["objects"] && other["verdict"] == plan["verdict"],
            "{line}: {other}"
        );
    }
    let directory = tempfile::tempdir()?;
    std::fs::write(file.path(), object("a").replace("name: a", "name: a, namespace: elsewhere"))?;
    for (line, code, said) in [
        (format!("plan -f {}", directory.path().display()).as_str(), 2, "a directory is not read"),
        ("plan -f https://example.com/a.yaml", 2, "a URL is not read"),
        (&by_file, 2, "the namespace from the provided object \"elsewhere\" does not match the namespace"),
        ("plan cm -l app=web --kinds cm,secret", 7, "ConfigMap/a and 1 more are deleted"),
        ("plan cm -l app=nobody", 8, "no cm has the labels app=nobody"),
        ("plan cm -l app=(", 2, "does not understand the selector"),
        ("plan cm/a -l app=web", 8, "doesn't have a resource type \"cm/a\""),
        ("plan cm a missing", 8, "configmaps \"missing\" not found"),
        ("plan cm a b --from collector", 2, "one object at a time"),
        ("plan -f /dev/null", 8, "no object is named"),
    ] {
        caller.says(line, code, &[said]).await?;
    }
    let says = "ConfigMap/a and 1 more are deleted, and their dependents follow; 1 other goes.\n";
    let (roots, objects) = (&[&a, &b], &[&a, &b, &both]);
    let truth =
        Truth { line: "plan cm a b".into(), says: &[says], policy: Policy::Background, roots, objects };
    let collector = world.stage.collector().await?;
    truth.comes_true(&world, &collector, async || Ok(())).await?;
    collector.stop().await
}

async fn a_namespace_goes_last_and_a_silent_api_keeps_it() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let tree = format!("tree ns/{0}", ns.name());
    caller.says(&tree, 0, &["A namespace does not own its content; kube-gc plan ns/"]).await?;
    let options = Options::config("[namespaces]\nquiet = \"100ms\"\n").arg("--finish-namespaces");
    let collector = world.stage.collector_with(options).await?;
    let mut backend = Backend::start(world.stage.plane, cluster, ns, "silent.example.com").await?;
    for is_silent in [false, true] {
        if is_silent {
            backend.go_down().await?;
            let line = "explain things.silent.example.com/x";
            poll("discovery to follow", async || Ok(caller.ask(line).await?.code == 7)).await?;
            let said =
                ["it is not known whether the server has a resource type", "silent.example.com/v1 does not"];
            caller.says(line, 7, &said).await?;
            caller.says("explain things.v1.silent.example.com/x", 7, &said).await?;
            // Only the end of its name is the same.
            for other in [
                "things.notsilent.example.com",
                "things.v1.not.silent.example.com",
                "things.v2.silent.example.com",
            ] {
                let none = ["the server doesn't have a resource type"];
                caller.says(&format!("explain {other}/x"), 8, &none).await?;
            }
        }
        let doomed = cluster.namespace().await?;
        let root = doomed.configmap("root").create().await?;
        let item = doomed.secret("item").owned_by(&root).create().await?;
        let held = doomed.secret("held").finalizer(HOLD).create().await?;
        let namespace = format!("Namespace/{}", doomed.name());
        let last = format!("{namespace} is deleted last, after its ");
        let hangs = format!("{namespace} cannot go until silent.example.com/v1 answers.");
        let hangs = if is_silent { hangs } else { format!("!{namespace} cannot") };
        let truth = Truth {
            line: format!("plan ns/{}", doomed.name()),
            says: &[&last, &hangs, &format!("{namespace} waits for Secret/held.")],
            policy: Policy::Background,
            roots: &[doomed.as_object()],
            objects: &[doomed.as_object(), &root, &item, &held],
        };
        let release = async || if is_silent { backend.go_up().await } else { Ok(()) };
        truth.comes_true(&world, &collector, release).await?;
    }
    collector.stop().await
}

async fn a_node_takes_its_pods_along() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let node = cluster.node("plan-node").create().await?;
    let spec = json!({ "nodeName": node.name, "containers": [{ "name": "a", "image": "example.com/a" }] });
    let there = ns.pod("there").field("spec", spec.clone()).create().await?;
    let held = ns.pod("held").field("spec", spec.clone()).finalizer(HOLD).create().await?;
    // No kubelet confirms its end, and PodGC does not wait for that.
    let ended = ns.pod("ended").field("spec", spec).create().await?;
    cluster.delete(&ended, Policy::Background).await?;
    let elsewhere = ns.pod("elsewhere").create().await?;
    let below = ns.secret("below").owned_by(&there).create().await?;
    let collector = world.stage.collector().await?;
    cluster.settled(&collector).await?;
    for source in [String::new(), format!(" --collector http://{}", collector.debug_address())] {
        let there = format!("deleted Pod/there {} goes with Node/plan-node", ns.name());
        let said = [there.as_str(), "!elsewhere"];
        caller.says(&format!("plan node/plan-node -o wide{source}"), 0, &said).await?;
    }
    let truth = Truth {
        line: "plan node/plan-node".to_owned(),
        says: &["; 3 others go; 1 stays", "PodGC", "!elsewhere", "!confirmed its end"],
        policy: Policy::Background,
        roots: &[&node],
        objects: &[&node, &there, &held, &ended, &elsewhere, &below],
    };
    truth.comes_true(&world, &collector, async || Ok(())).await?;
    collector.stop().await
}

async fn a_pod_may_stay_if_its_node_is_not_ready() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let owner = ns.configmap("owner").create().await?;
    let mut nodes = Vec::new();
    for (name, ready) in [("plan-unready", "Unknown"), ("plan-ready", "True")] {
        let status = json!({ "conditions": [{ "type": "Ready", "status": ready }] });
        nodes.push(cluster.node(name).field("status", status).create().await?);
        let spec = json!({ "nodeName": name, "containers": [{ "name": "a", "image": "example.com/a" }] });
        ns.pod(name).field("spec", spec).owned_by(&owner).create().await?;
    }
    let said = [
        "; 1 other goes; 1 may go or stay.\n",
        "\nunknown Pod/plan-unready its kubelet has to confirm its end, and node plan-unready is not ready\n",
    ];
    caller.says("plan cm/owner", 0, &said).await?;
    caller
        .says("plan ns/kube-system", 0, &["The API server refuses to delete Namespace/kube-system.\n"])
        .await?;
    cluster.delete_all(&nodes, Policy::Background).await
}

/// Neither an ignored type, nor one that the collector could not list yet, is taken for empty.
async fn a_collector_says_what_it_cannot_see() -> Result<()> {
    let world = World::set().await?;
    let (_, ns, caller) = world.parts();
    let root = ns.configmap("root").create().await?;
    ns.secret("item").owned_by(&root).create().await?;
    let proxy = Proxy::start(world.stage.plane).await?;
    let broken = proxy.always(Matcher::verb(Verb::List).of("secrets"), Fault::Instead(Reply::broken()));
    let unsynced = Collector::start_with(proxy.kubeconfig(), Options::default()).await?;
    let ignoring =
        world.stage.collector_with(Options::config("[discovery]\nignored = [\"secrets\"]\n")).await?;
    for collector in [&unsynced, &ignoring] {
        let url = format!("--collector http://{}", collector.debug_address());
        let ask = async || caller.ask(&format!("plan cm/root {url}")).await;
        // Before the first list, the collector does not know the object.
        poll("the collector to know the object", async || Ok(![8, 9].contains(&ask().await?.code))).await?;
        for command in ["plan cm/root", "plan cm/root --fail-above 1", "tree cm/root", "stuck"] {
            caller.says(&format!("{command} {url}"), 7, &["secrets"]).await?;
            let ran = caller.ask(&format!("{command} {url} -o name")).await?;
            ensure!(ran.code == 7 && ran.err.starts_with("Not looked at: secrets: "), "{command}: {ran:?}");
            let is_said = ran.err.contains("; no other object that was looked at goes.\n");
            ensure!(is_said == command.starts_with("plan"), "{command}: {ran:?}");
        }
        let ran = ask().await?;
        ensure!(ran.out.contains("no other object that was looked at goes"), "{ran:?}");
    }
    let url = format!("--collector http://{}", ignoring.debug_address());
    let said =
        ["Not looked at: secrets: the collector ignores this type", "No plan can be made of secrets: "];
    caller.says(&format!("plan secret/item {url}"), 7, &said).await?;
    let keeper = ns.secret("keeper").create().await?;
    ns.configmap("kept").owned_by(&keeper).create().await?;
    let asked = format!("stuck --older 0s --collector http://{}", ignoring.debug_address());
    let is_said = async || Ok(caller.ask(&asked).await?.out.contains("the collector ignores its type"));
    poll("the collector to say so", is_said).await?;
    // What the server cannot list, its namespace controller cannot delete.
    let plan = format!("plan ns/{}", ns.name());
    let of_proxy = Caller { kubeconfig: proxy.kubeconfig(), ..caller };
    let hangs = format!("Namespace/{} cannot go until secrets answers.", ns.name());
    of_proxy.says(&format!("{plan} --from lists"), 7, &[&hangs, "held Namespace/"]).await?;
    // The collector has listed none.
    let may_go = "after its objects, unless something that was not looked at holds it";
    caller.says(&format!("{plan} --collector http://{}", unsynced.debug_address()), 7, &[may_go]).await?;
    broken.remove();
    let url = format!("--collector http://{}", unsynced.debug_address());
    poll(
        "the secrets to be listed",
        async || Ok(caller.ask(&format!("plan cm/root {url}")).await?.code == 0),
    )
    .await?;
    caller.says(&format!("plan cm/root {url}"), 0, &["; 1 other goes.", "\n2 objects go"]).await?;
    unsynced.stop().await?;
    ignoring.stop().await
}

async fn too_many_deletions_fail_and_the_brake_is_foreseen() -> Result<()> {
    let world = World::set().await?;
    let (_, ns, caller) = world.parts();
    let root = ns.configmap("root").create().await?;
    create_all((0..30).map(|number| ns.secret(format!("s{number:02}")).owned_by(&root))).await?;
    let too_many = "31 objects would be deleted, more than --fail-above 30.";
    let counted = ["\nsecrets 30 - - - - -\n", "\n31 objects go (-o wide lists them).\n", too_many];
    caller.says("plan cm/root --fail-above 30", 1, &counted).await?;
    let counted = &counted[..2];
    caller.says("plan cm/root --fail-above 31", 0, counted).await?;
    caller.says("plan cm/root -o wide", 0, &["Secret/s29", ns.name()]).await?;
    let file = tempfile::NamedTempFile::new()?;
    for (setting, code, said) in [
        (
            "deletions_per_minute = 29",
            0,
            "30 others go. The brake of the collector stops this before it is done.",
        ),
        ("deletions_per_minute = 29", 0, "The brake of the collector engages: "),
        ("deletions_per_minute = 30", 0, "does not engage"),
        ("nonsense = 1", 2, "nonsense"),
    ] {
        std::fs::write(file.path(), format!("[brake]\n{setting}\n"))?;
        caller.says(&format!("plan cm/root --config {}", file.path().display()), code, &[said]).await?;
    }
    // A collector deletes nothing that it ignores.
    std::fs::write(file.path(), "[discovery]\nignored = [\"secrets\"]\n")?;
    let said = ["no other object goes", "Left out on request: 1 type"];
    caller.says(&format!("plan cm/root --config {}", file.path().display()), 0, &said).await
}

/// The collector deletes what it may, and what is planned then stays.
async fn what_an_engaged_brake_holds_is_not_said_to_go() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let options = Options::config("[brake]\nnamespace_deletions_per_minute = 2\n");
    let collector = world.stage.collector_with(options).await?;
    let first = ns.configmap("first").create().await?;
    create_all((0..3).map(|number| ns.secret(format!("s{number}")).owned_by(&first))).await?;
    let root = ns.configmap("root").create().await?;
    let items = create_all((0..3).map(|number| ns.secret(format!("item{number}")).owned_by(&root))).await?;
    cluster.delete(&first, Policy::Background).await?;
    let line = format!("plan cm/root --collector http://{}", collector.debug_address());
    poll("the brake to engage", async || Ok(caller.json(&line).await?["brake"]["state"] == "engaged"))
        .await?;
    let said = [
        "ConfigMap/root is deleted, and its dependents follow; no other object goes now; 3 wait until the brake of the \
         collector is released.\n",
        "\nThe brake of the collector is engaged: deletion is paused in the namespace ",
        "!stops this",
        "!objects go",
    ];
    caller.says(&line, 0, &said).await?;
    let said = ["; 3 are orphaned.\n", "\nThe brake of the collector is engaged: "];
    caller.says(&format!("{line} --cascade orphan"), 0, &said).await?;
    cluster.delete(&root, Policy::Background).await?;
    cluster.gone(&root).await?;
    cluster.settled_with_parked(&collector).await?;
    cluster.assert_kept(&items).await?;
    collector.stop().await
}

async fn what_waits_for_a_held_owner_is_not_said_to_go_at_once() -> Result<()> {
    let world = World::set().await?;
    let (_, ns, _) = world.parts();
    let collector = world.stage.collector().await?;
    let root = ns.configmap("root").finalizer(HOLD).create().await?;
    let other = ns.configmap("other").create().await?;
    let item = ns.secret("item").owned_by(&root).create().await?;
    let below = ns.secret("below").owned_by(&item).create().await?;
    let itself = format!("; 2 others go. ConfigMap/root itself stays until finalizer {HOLD} is removed.\n");
    let marked = "ConfigMap/root is marked for deletion, and its dependents follow when it is gone";
    for (line, said, roots) in [
        (
            "plan cm other root",
            ["their dependents follow; 2 others go. 1 of those named stays", "held ConfigMap/root"],
            &[&other, &root][..],
        ),
        ("plan cm root", [marked, &itself], &[&root]),
    ] {
        let truth = Truth {
            line: line.to_owned(),
            says: &[said[0], said[1], "!at once", "deleted Secret/item after ConfigMap/root"],
            policy: Policy::Background,
            roots,
            objects: &[&root, &item, &below],
        };
        if roots.len() == 1 {
            truth.comes_true(&world, &collector, async || Ok(())).await?;
        } else {
            truth.planned(&world).await?;
        }
    }
    collector.stop().await
}

async fn a_definition_is_planned_with_all_objects_of_its_type() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, _) = world.parts();
    let widgets = cluster.crd("widgets.plan.example.org", Scope::Namespaced, &["v1"]).await?;
    let one = ns.object(widgets.resource(), "one").create().await?;
    let two = cluster.namespace().await?.object(widgets.resource(), "two").create().await?;
    let below = ns.configmap("below").owned_by(&one).create().await?;
    let collector = world.stage.collector().await?;
    let truth = Truth {
        line: "plan customresourcedefinitions/widgets.plan.example.org".to_owned(),
        says: &[
            "CustomResourceDefinition/widgets.plan.example.org is deleted last, after its 2 objects; 1 more goes.\n",
            "\ndeleted CustomResourceDefinition/widgets.plan.example.org\n",
            "before its definition goes",
        ],
        policy: Policy::Background,
        roots: &[widgets.definition()],
        objects: &[widgets.definition(), &one, &two, &below],
    };
    truth.comes_true(&world, &collector, async || Ok(())).await?;
    collector.stop().await
}

async fn the_debug_page_has_the_same_plan() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let gadgets = cluster.crd("gadgets.plan.example.org", Scope::Cluster, &["v1"]).await?;
    let root = cluster.object(gadgets.resource(), "root").create().await?;
    let middle = ns.configmap("middle").owned_by(&root).blocking().create().await?;
    ns.secret("held").owned_by(&middle).blocking().finalizer(HOLD).create().await?;
    create_all((0..40).map(|number| ns.secret(format!("s{number:02}")).owned_by(&middle))).await?;
    let options = Options::config("[brake]\ndeletions_per_minute = 20\n");
    let collector = world.stage.collector_with(options).await?;
    cluster.settled(&collector).await?;
    let url = format!("--collector http://{}", collector.debug_address());
    for policy in ["background", "foreground", "orphan"] {
        let page = collector.get_debug(&format!("/debug/plan?uid={}&policy={policy}", root.uid)).await?;
        ensure!(page.status == 200, "{page:?}");
        let page = page.json()?;
        fits_schema(&page)?;
        let line = format!("plan uid:{} --cascade {policy}", root.uid);
        let command = caller.json(&line).await?;
        for field in ["object", "cascade", "deletes", "byType", "notListed", "dependsOnUnseen"] {
            ensure!(page[field] == command[field], "{policy}, {field}: {page} {command}");
        }
        ensure!(effects(&page) == effects(&command), "{policy}: {page} {command}");
        // The collector alone knows its brake.
        let of_brake =
            if policy == "orphan" { "" } else { " The brake of the collector stops this before it is done." };
        let verdict = format!("{}{of_brake}", command["verdict"].as_str().context("no verdict")?);
        ensure!(page["verdict"] == *verdict, "{policy}: {page}");
        let brake = if policy == "orphan" { "passes" } else { "engages" };
        ensure!(page["brake"]["state"] == brake, "{page}");
        // The page is what the command asks.
        let before = cluster.request_counts().await?;
        let asked = caller.json(&format!("{line} {url}")).await?;
        let sent = cluster.request_counts().await?.since(&before);
        ensure!(sent.get("LIST", "secrets") == 0 && sent.writes() == 0, "{sent:?}");
        ensure!(asked == page, "{policy}: {asked} {page}");
    }
    for (flags, code, said) in [
        (
            "--fail-above 20",
            1,
            &["The brake of the collector engages: ", "more objects (-o wide lists them)"][..],
        ),
        ("--kinds secrets", 2, &["--kinds and --exclude"]),
        ("--config /dev/null", 2, &["--config has the limits"]),
    ] {
        caller.says(&format!("plan uid:{} {url} {flags}", root.uid), code, said).await?;
    }
    for (query, status) in [("uid=nobody", 404), ("policy=orphan", 400), ("uid=a&policy=none", 400)] {
        let page = collector.get_debug(&format!("/debug/plan?{query}")).await?;
        ensure!(page.status == status, "{query}: {page:?}");
    }
    collector.stop().await
}
