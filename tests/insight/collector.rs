//! A collector, by its URL or found in the cluster, answers as the commands do that read lists.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::fixtures::{HeldCascade, World, stuck, unserved};
use super::stream::Events;
use super::{Caller, fits_schema, words};
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::proxy::{Fault, Matcher, Proxy, Reply, Rule, Verb};
use kube_gc_testkit::{Collector, Obj, Options, Policy};

kube_gc_testkit::scenarios! {
    lists_and_a_collector_answer_alike,
    a_collector_names_what_is_left_in_a_namespace,
    pages_of_a_collector_show_everything_once,
    a_stream_follows_a_cascade_and_ends_with_the_collector,
    a_collector_is_asked_directly_and_through_the_api_server,
    what_is_no_collector_is_said,
    a_namespace_that_nobody_knows_is_not_in_order,
    a_collector_in_a_dry_run_says_so,
    what_was_created_anew_is_not_said_to_be_deleted_by_a_collector,
    what_was_in_a_namespace_that_a_collector_empties_is_said_to_be,
    what_is_not_found_is_said_or_answered_from_lists,
}

/// More than are shown of one type.
const MANY: usize = 25;

async fn asked(collector: &Collector, page: &str, object: &Obj) -> Result<Value> {
    let answer = collector.get_debug(&format!("/debug/{page}?uid={}", object.uid)).await?;
    ensure!(answer.status == 200, "{page} of {object}: {answer:?}");
    answer.json()
}

/// A neighbourhood whose order and places do not count.
fn unordered(tree: &Value) -> Result<Value> {
    let nodes = tree["nodes"].as_array().context("no nodes")?;
    let named = |value: &Value, field: &str| -> Result<Value> {
        let mut value = value.clone();
        let place = value[field].as_u64().context("no place")?;
        value[field] = nodes[usize::try_from(place)?]["uid"].clone();
        Ok(value)
    };
    let list = |field: &str| tree[field].as_array().with_context(|| format!("no {field}"));
    let edges: Result<BTreeSet<String>> = list("edges")?
        .iter()
        .map(|edge| Ok(named(&named(edge, "dependent")?, "owner")?.to_string()))
        .collect();
    let more: Result<BTreeSet<String>> =
        list("more")?.iter().map(|more| Ok(named(more, "owner")?.to_string())).collect();
    let all: BTreeSet<String> = nodes.iter().map(Value::to_string).collect();
    Ok(json!({
        "root": nodes[0], "nodes": all, "edges": edges?, "more": more?, "truncated": tree["truncated"],
        "incomplete": tree["incomplete"],
    }))
}

/// An explanation without what depends on where the facts are from.
fn verdict(explanation: &Value) -> Result<Value> {
    let mut same = explanation.clone();
    let fields = same.as_object_mut().context("no object")?;
    for other in ["apiVersion", "kind", "asOf", "leftOut", "dryRun", "decisions", "stuck"] {
        fields.remove(other);
    }
    for reference in fields["references"].as_array_mut().context("no references")? {
        // A watch or a live read: both show the owner.
        reference.as_object_mut().context("no reference")?.remove("evidence");
    }
    Ok(same)
}

/// Fails unless both answers about an object are alike.
async fn same(caller: Caller<'_>, collector: &Collector, what: &str, object: &Obj) -> Result<()> {
    let of_lists = caller.json(&format!("tree {what}")).await?;
    let of_collector = asked(collector, "neighbourhood", object).await?;
    let (left, right) = (unordered(&of_lists)?, unordered(&of_collector)?);
    ensure!(left == right, "tree {what}: lists\n{left:#}\ncollector\n{right:#}");
    same_verdict(caller, what, &asked(collector, "explain", object).await?).await
}

async fn same_verdict(caller: Caller<'_>, what: &str, of_collector: &Value) -> Result<()> {
    let of_lists = caller.json(&format!("explain {what} --from lists")).await?;
    let (left, right) = (verdict(&of_lists)?, verdict(of_collector)?);
    ensure!(left == right, "explain {what}: lists\n{left:#}\ncollector\n{right:#}");
    Ok(())
}

async fn lists_and_a_collector_answer_alike() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let HeldCascade { root, middle, held, collector } = HeldCascade::begin(&world).await?;
    let top = ns.configmap("top").create().await?;
    create_all((0..MANY).map(|number| ns.secret(format!("s{number}")).owned_by(&top))).await?;
    let lost = ns.configmap("lost").create().await?;
    let lost = cluster.set_owner_references(&lost, &[unserved(), top.reference()]).await?;
    // An object whose owner's kind is not served is parked.
    cluster.settled_with_parked(&collector).await?;
    for (kind, object) in [("cm", &top), ("cm", &root), ("cm", &middle), ("secret", &held), ("cm", &lost)] {
        same(caller, &collector, &format!("{kind}/{}", object.name), object).await?;
    }
    let tree = asked(&collector, "neighbourhood", &top).await?;
    let left: Vec<u64> =
        tree["more"].as_array().into_iter().flatten().filter_map(|more| more["count"].as_u64()).collect();
    ensure!(left == [(MANY - 20) as u64], "{tree:#}");
    collector.stop().await
}

async fn a_collector_names_what_is_left_in_a_namespace() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let builders = ["a", "b"].map(|name| ns.configmap(name).finalizer("example.com/backup"));
    let held = create_all(builders).await?;
    let collector = world.stage.collector().await?;
    cluster.delete_all(&held, Policy::Background).await?;
    cluster.delete(ns.as_object(), Policy::Background).await?;
    poll("the namespace to be deleted", async || Ok(cluster.fresh(ns.as_object()).await?.is_terminating()))
        .await?;
    cluster.settled(&collector).await?;
    let explanation = asked(&collector, "explain", ns.as_object()).await?;
    let left = &explanation["namespace"];
    ensure!(left["held"][0]["count"] == 2 && left["beingDeleted"] == 2, "{explanation:#}");
    same_verdict(caller, &format!("ns/{}", ns.name()), &explanation).await?;
    collector.stop().await
}

async fn pages_of_a_collector_show_everything_once() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, _) = world.parts();
    let top = ns.configmap("top").create().await?;
    let many = create_all((0..MANY).map(|number| ns.secret(format!("s{number}")).owned_by(&top))).await?;
    let collector = world.stage.collector().await?;
    let (mut seen, mut after, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let path = format!("/debug/neighbourhood?uid={}&max=100&limit=10{after}", top.uid);
        let page = collector.get_debug(&path).await?.json()?;
        let nodes = page["nodes"].as_array().context("no nodes")?;
        ensure!(nodes.len() <= 10 && nodes[0]["uid"] == top.uid.as_str(), "{page:#}");
        let uids = nodes[1..].iter().filter_map(|node| node["uid"].as_str().map(str::to_owned));
        seen.extend(uids);
        pages += 1;
        let left = page["more"].as_array().into_iter().flatten().filter_map(|more| more["count"].as_u64());
        ensure!(left.sum::<u64>() == (MANY - seen.len()) as u64, "{page:#}");
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    let all: BTreeSet<String> = many.into_iter().map(|object| object.uid).collect();
    let found = collector.get_debug("/debug/search?q=deploys/web").await?.json()?;
    let none = "objects in namespace deploys named like \"web\" (the server doesn't have a resource type \"deploys\")";
    ensure!(found["found"] == json!([]) && found["searched"] == none, "{found}");
    // An absent owner is found as long as an object names it.
    let middle = ns.secret("middle").owned_by(&top).create().await?;
    let held = [("x", &top), ("y", &middle)];
    let held = held.map(|(name, owner)| ns.secret(name).owned_by(owner).finalizer("example.com/x"));
    let held = create_all(held).await?;
    cluster.delete(&top, Policy::Background).await?;
    cluster.settled_with_parked(&collector).await?;
    for owner in [&top, &middle] {
        let path = format!("/debug/search?q={}/{}", ns.name(), owner.name);
        let found = collector.get_debug(&path).await?.json()?;
        let (first, others) = (&found["found"][0], &found["found"][1]);
        let is_absent = first["uid"] == owner.uid.as_str() && first["state"] == "absent";
        ensure!(is_absent && others.is_null(), "{found}");
    }
    for held in &held {
        cluster.set_finalizers(held, &[]).await?;
    }
    ensure!(pages == 3 && seen.len() == MANY && seen.into_iter().collect::<BTreeSet<_>>() == all);
    collector.stop().await
}

async fn a_stream_follows_a_cascade_and_ends_with_the_collector() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, _) = world.parts();
    let root = ns.configmap("root").create().await?;
    let item = ns.secret("item").owned_by(&root).blocking().finalizer("example.com/x").create().await?;
    let collector = world.stage.collector().await?;
    cluster.settled(&collector).await?;
    let mut events = Events::of(&collector, &format!("/debug/stream?uid={}", root.uid)).await?;
    let states = |page: &Value| -> Vec<String> {
        let nodes = page["nodes"].as_array().into_iter().flatten();
        nodes.filter_map(|node| node["state"].as_str().map(str::to_owned)).collect()
    };
    events.until("neighbourhood", |page| states(page) == ["live", "live"]).await?;
    events.until("summary", |page| page["synced"] == true).await?;
    cluster.delete(&root, Policy::Foreground).await?;
    events.until("neighbourhood", |page| states(page) == ["deletingDependents", "terminating"]).await?;
    cluster.set_finalizers(&item, &[]).await?;
    events.until("neighbourhood", |page| states(page).is_empty()).await?;
    collector.stop().await?;
    events.end().await
}

/// Where the ports lead that nobody listens on.
const NOBODY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

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

async fn a_collector_is_asked_directly_and_through_the_api_server() -> Result<()> {
    let world = World::set().await?;
    let (_, _, caller) = world.parts();
    let cascade = HeldCascade::begin(&world).await?;
    let collector = &cascade.collector;
    let proxy = Proxy::start(world.stage.plane).await?;
    proxy.forward_ports(collector.debug_address().parse()?);
    let _shown = show_pods(&proxy, "kube-gc");
    let caller = Caller { kubeconfig: proxy.kubeconfig(), ..caller };
    let url = format!("--collector http://{}", collector.debug_address());
    let found = "From the collector at port 8081 of pod kube-gc/kube-gc-0\n";
    for (source, from) in
        [("", found), ("--from collector", found), ("--collector-namespace kube-gc", found), (&url, "")]
    {
        let verdict = "ConfigMap/root is being deleted, and waits for 1 blocking dependent.\n";
        let said = [verdict, from];
        caller.says(&format!("explain cm/root {source}"), 0, &said).await?;
    }
    let json = caller.json(&format!("explain cm/root {url}")).await?;
    ensure!(json["decisions"].is_array(), "{json}");

    // The times of the server have no fractions of a second.
    stuck(caller, "stuck --older 0s --from lists", 3).await?;
    for (command, code) in [("tree cm/root", 0), ("stuck --older 0s", 1)] {
        let listed = caller.ask(&format!("{command} --from lists")).await?;
        for (source, from) in [("--from collector", found), (&url, "")] {
            let mark = proxy.mark();
            let asked = caller.ask(&format!("{command} {source}")).await?;
            ensure!((listed.code, asked.code) == (code, code), "{listed:?} {asked:?}");
            ensure!(words(&asked.out) == words(&format!("{}{from}", listed.out)), "{listed:?} {asked:?}");
            ensure!(proxy.since(mark, &Matcher::verb(Verb::List).of("secrets")).is_empty(), "{command}");
            ensure!(proxy.since(mark, &forwards()).is_empty() == from.is_empty(), "{command} {source}");
        }
    }
    let same = async |source: &str| -> Result<Value> {
        let mut answer = caller.json(&format!("stuck --older 0s {source}")).await?;
        answer["asOf"].take();
        Ok(answer)
    };
    ensure!(same("--from collector").await? == same("--from lists").await?);
    let page = format!("/debug/stuck/causes?namespace={}&older=0", caller.namespace);
    fits_schema(&collector.get_debug(&page).await?.json()?)?;
    // Lists can leave types out.
    caller.says("stuck --older 0s --kinds secrets", 1, &["!From the collector"]).await?;
    caller.says("stuck --kinds secrets --from collector", 2, &["--kinds and --exclude"]).await?;
    cascade.end(&world).await
}

async fn what_is_no_collector_is_said() -> Result<()> {
    let world = World::set().await?;
    let (_, ns, caller) = world.parts();
    ns.configmap("root").create().await?;
    let collector = world.stage.collector().await?;
    let health = format!("--collector http://{}", collector.health_address());
    let debug = format!("--collector http://{}", collector.debug_address());
    for command in ["tree", "explain", "plan"] {
        for (source, code, says) in [
            ("--collector http://127.0.0.1:1", 9, "the collector at http://127.0.0.1:1 cannot be reached"),
            ("--collector localhost:8081", 2, "a URL begins with http:// or https://"),
            (&health, 9, "is not the debug listener of kube-gc"),
            (&format!("{debug}/nothing"), 9, "is not the debug listener of kube-gc"),
            (&format!("{debug} --from lists"), 2, "--from lists asks no collector"),
        ] {
            caller.says(&format!("{command} cm/root {source}"), code, &[says]).await?;
        }
        let said = ["has no object with the uid nobody"];
        caller.says(&format!("{command} uid:nobody {debug}"), 8, &said).await?;
    }
    // A collector of another cluster would answer about namespaces of the same names.
    let proxy = Proxy::start(world.stage.plane).await?;
    let other = json!({ "metadata": { "name": "default", "uid": "of another cluster" } });
    let other = Fault::Instead(Reply::json(200, &other));
    let rule = proxy.always(Matcher::verb(Verb::Get).of("namespaces").named("default"), other);
    let caller = Caller { kubeconfig: proxy.kubeconfig(), ..caller };
    for command in ["tree cm/root", "explain cm/gone", "plan uid:nobody", "stuck"] {
        caller.says(&format!("{command} {debug}"), 9, &["it is of another cluster, or has not"]).await?;
    }
    rule.remove();
    let namespaces = || Matcher::verb(Verb::Get).of("namespaces");
    let denied = ["default", "kube-system"].map(|name| proxy.always(namespaces().named(name), forbidden()));
    // Its own namespace shows it, too.
    caller.says(&format!("stuck {debug}"), 0, &["Nothing is stuck.\n"]).await?;
    let other = json!({ "metadata": { "name": caller.namespace, "uid": "of another cluster" } });
    let _other = proxy.always(namespaces().named(caller.namespace), Fault::Instead(Reply::json(200, &other)));
    caller.says(&format!("stuck {debug}"), 9, &["it is of another cluster, or has not"]).await?;
    let _denied = (denied, proxy.always(namespaces(), forbidden()));
    let nowhere = Caller { namespace: "nowhere", ..caller };
    for command in ["tree cm/root", "explain cm/gone", "plan cm/root", "stuck"] {
        let said = ["nothing shows that the collector at "];
        nowhere.says(&format!("{command} {debug}"), 9, &said).await?;
    }
    collector.stop().await
}

/// Who may not get namespaces may have misspelled one.
async fn a_namespace_that_nobody_knows_is_not_in_order() -> Result<()> {
    let world = World::set().await?;
    let (_, ns, caller) = world.parts();
    ns.configmap("root").create().await?;
    let collector = world.stage.collector().await?;
    let proxy = Proxy::start(world.stage.plane).await?;
    proxy.forward_ports(collector.debug_address().parse()?);
    let _shown = show_pods(&proxy, "kube-gc");
    let _denied = proxy.always(Matcher::verb(Verb::Get).of("namespaces"), forbidden());
    let caller = Caller { kubeconfig: proxy.kubeconfig(), ..caller };
    let nowhere = Caller { namespace: "nowhere", ..caller };
    for command in ["stuck --from collector", "stuck --from lists", "check"] {
        caller.says(command, 0, &["Nothing is "]).await?;
        nowhere.says(command, 7, &["Not looked at: namespace nowhere: ", "does it exist?"]).await?;
    }
    collector.stop().await
}

/// What it has to do stays undone.
async fn a_collector_in_a_dry_run_says_so() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let root = ns.configmap("root").create().await?;
    let item = ns.secret("item").owned_by(&root).blocking().create().await?;
    let collector = world.stage.collector_with(Options::default().arg("--dry-run")).await?;
    let url = format!("--collector http://{}", collector.debug_address());
    // That is said once, and whether a collector runs is no question.
    let said = ["is in a dry run: it writes nothing.\n", "!if a collector runs"];
    caller.says(&format!("plan cm/root {url}"), 0, &said).await?;
    cluster.delete(&root, Policy::Foreground).await?;
    stuck(caller, &format!("stuck --older 0s {url}"), 1).await?;
    for (command, code) in [("stuck --older 0s", 1), ("explain cm/root", 0)] {
        let said = ["\nThe collector that answers has this to do.\n", "!look whether it runs"];
        caller.says(&format!("{command} {url}"), code, &said).await?;
        caller.says(&format!("{command} --from lists"), code, &["look whether it runs"]).await?;
    }
    for command in ["plan cm/root", "stuck --older 0s", "tree cm/root"] {
        let said = format!(
            "The collector at http://{} is in a dry run: it writes nothing.\n",
            collector.debug_address()
        );
        let ran = caller.ask(&format!("{command} {url}")).await?;
        ensure!(ran.out.contains(&said), "{ran:?}");
        ensure!(caller.json(&format!("{command} {url}")).await?["dryRun"] == true, "{command}");
        ensure!(caller.json(&format!("{command} --from lists")).await?["dryRun"] == false, "{command}");
    }
    collector.stop().await?;
    cluster.assert_kept([&root, &item]).await
}

/// A collector deletes one, and then a person deletes another one of that name.
async fn what_was_created_anew_is_not_said_to_be_deleted_by_a_collector() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let collector = world.stage.collector().await?;
    let root = ns.configmap("root").create().await?;
    let item = ns.secret("item").owned_by(&root).create().await?;
    cluster.delete(&root, Policy::Background).await?;
    cluster.gone(&item).await?;
    let anew = ns.secret("item").create().await?;
    cluster.delete(&anew, Policy::Background).await?;
    cluster.settled(&collector).await?;
    let url = format!("--collector http://{}", collector.debug_address());
    let deleted = format!("kube-gc deleted secrets/item (uid {}) at 2", item.uid);
    let later = "; if one was created after that and is gone, the API server's audit log says who deleted it: resource secrets";
    caller.says(&format!("explain secret/item {url}"), 8, &[&deleted, later]).await?;
    caller.says(&format!("explain uid:{} {url}", item.uid), 8, &[&deleted, "!after that"]).await?;
    collector.stop().await
}

/// It keeps no record of each object, while the namespace is being deleted and after that.
async fn what_was_in_a_namespace_that_a_collector_empties_is_said_to_be() -> Result<()> {
    let world = World::set().await?;
    let (cluster, _, caller) = world.parts();
    let doomed = cluster.namespace().await?;
    let item = doomed.secret("item").create().await?;
    let held = doomed.configmap("held").finalizer("example.com/x").create().await?;
    let options = Options::config("[namespaces]\nquiet = \"100ms\"\n").arg("--finish-namespaces");
    let collector = world.stage.collector_with(options).await?;
    cluster.delete(doomed.as_object(), Policy::Background).await?;
    cluster.gone(&item).await?;
    let caller = Caller { namespace: doomed.name(), ..caller };
    let line = format!("explain secret/item --collector http://{}", collector.debug_address());
    let emptied = |who: &str| {
        format!(
            ": namespace {} is being deleted, and {who} deletes what is in it and remembers no single object; if it \
             ever existed, ",
            doomed.name()
        )
    };
    let other = world.stage.collector().await?;
    let url = format!("--collector http://{}", other.debug_address());
    let others =
        "the namespace controller of kube-controller-manager or a collector with --finish-namespaces";
    for (source, who) in [
        ("--from lists", others),
        (&*url, others),
        (line.trim_start_matches("explain secret/item "), "the collector that answers"),
    ] {
        let said = [&*emptied(who), "audit log", "!does not remember"];
        caller.says(&format!("explain secret/item {source}"), 8, &said).await?;
    }
    other.stop().await?;
    cluster.set_finalizers(&held, &[]).await?;
    cluster.gone(doomed.as_object()).await?;
    caller.says(&line, 8, &[&format!("kube-gc: namespaces \"{}\" not found", doomed.name())]).await?;
    collector.stop().await
}

async fn what_is_not_found_is_said_or_answered_from_lists() -> Result<()> {
    let world = World::set().await?;
    let (_, ns, caller) = world.parts();
    ns.configmap("root").create().await?;
    let proxy = Proxy::start(world.stage.plane).await?;
    proxy.forward_ports(NOBODY);
    let caller = Caller { kubeconfig: proxy.kubeconfig(), ..caller };
    let none = json!({ "kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [] });
    let rule = proxy.always(pods(), Fault::Instead(Reply::json(200, &none)));
    // Without a sign of a collector, nothing is said of one.
    caller.says("explain cm/root", 0, &["!ollector at"]).await?;
    for command in ["explain cm/root", "tree cm/root", "plan cm/root", "stuck"] {
        let said = ["no collector was found: namespace kube-gc has no running pod"];
        caller.says(&format!("{command} --from collector"), 9, &said).await?;
    }
    rule.remove();
    let rule = proxy.always(pods(), forbidden());
    caller.says("explain cm/root", 0, &["!ollector at"]).await?;
    caller.says("stuck --collector-namespace gc", 6, &["no collector can be looked for: "]).await?;
    rule.remove();

    let _shown = show_pods(&proxy, "kube-gc");
    let dead = "dial tcp4 127.0.0.1:8081";
    caller.says("explain cm/root --from collector", 9, &[dead]).await?;
    caller.says("explain cm/root", 0, &["\nFrom lists: ", dead]).await?;
    let _rule = proxy.always(forwards(), forbidden());
    caller.says("stuck --from collector", 6, &["get and create pods/portforward"]).await?;
    caller.says("stuck", 0, &["From lists: the collector cannot be reached: "]).await
}
