//! The truth table of what holds objects: for each cause, what `stuck`, `explain` and the pages of a collector say.
//! Then what they name is done, and the object goes, or has to stay.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::fixtures::{World, unserved};
use super::kubectl::in_shell;
use super::{Caller, values, words};
use crate::conformance::stage::own;
use crate::conformance::user::User;
use kube_gc_insight::Hold;
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::{Collector, Ns, Obj, Options, Policy};

kube_gc_testkit::scenarios! {
    each_cause_is_named_and_what_is_said_of_it_comes_true,
}

/// One row: an object that is held.
struct Row {
    hold: Hold,
    ns: Ns,
    object: Obj,
    /// As people name it.
    name: &'static str,
    /// What `stuck` says of it.
    said: &'static str,
    end: End,
    /// Who asks, if it is somebody with few rights.
    user: Option<User>,
}

/// What ends a hold.
enum End {
    /// The work of a collector.
    Collector,
    /// Somebody removes finalizers.
    Finalizers(Vec<Obj>),
    /// The kubelet confirms the end of a pod.
    Kubelet(Obj),
    /// Somebody removes owner references.
    References(Obj),
    /// The namespace controller, and whoever else has a finalizer in the spec.
    Spec,
}

/// A finalizer of nobody.
const BACKUP: &str = "example.com/backup";
/// More causes than are told apart.
const MANY: usize = 70;

/// Brings about a cause in a namespace of its own. A new cause does not compile without a row.
async fn plant(world: &World, hold: Hold) -> Result<Option<Row>> {
    let cluster = &world.stage.cluster;
    let ns = cluster.namespace().await?;
    let root = async || ns.configmap("root").create().await;
    let below = async |root: &Obj| ns.secret("below").owned_by(root).blocking().create().await;
    let pod = |seconds: u32| {
        ns.pod("pod").field(
            "spec",
            json!({
                "nodeName": "nowhere",
                "terminationGracePeriodSeconds": seconds,
                "containers": [{ "name": "main", "image": "none" }],
            }),
        )
    };
    let (background, foreground) = (Policy::Background, Policy::Foreground);
    let mut user = None;
    let (object, policy, said, end) = match hold {
        Hold::Finalizers => {
            let root = ns.configmap("root").finalizer(BACKUP).create().await?;
            let end = End::Finalizers(vec![root.clone()]);
            (root, background, "ConfigMap/root waits for finalizer example.com/backup", end)
        }
        Hold::SpecFinalizers => {
            ns.set_spec_finalizers(&["kubernetes", BACKUP]).await?;
            let said = " waits for finalizer example.com/backup in its spec";
            (ns.as_object().clone(), background, said, End::Spec)
        }
        Hold::NamespaceController => {
            let said = " waits for the namespace controller of kube-controller-manager";
            (ns.as_object().clone(), background, said, End::Spec)
        }
        Hold::GracePeriod => {
            let root = root().await?;
            let pod = pod(3600).owned_by(&root).blocking().create().await?;
            cluster.delete(&pod, background).await?;
            (
                root,
                foreground,
                "ConfigMap/root waits for Pod/pod (the end of its grace period)",
                End::Kubelet(pod),
            )
        }
        Hold::Kubelet => {
            let pod = pod(1).create().await?;
            (pod.clone(), background, "Pod/pod: its grace period of 1 s ended", End::Kubelet(pod))
        }
        Hold::Orphaning => {
            let said = "ConfigMap/root waits for the collector to release its dependents";
            (root().await?, Policy::Orphan, said, End::Collector)
        }
        Hold::Unblocked => {
            let said = "ConfigMap/root waits for the collector to remove its finalizer";
            (root().await?, foreground, said, End::Collector)
        }
        Hold::ToBeDeleted => {
            let root = root().await?;
            below(&root).await?;
            let said = "ConfigMap/root waits for Secret/below, which the collector has to delete";
            (root, foreground, said, End::Collector)
        }
        Hold::ToBeReleased => {
            let root = root().await?;
            let other = ns.configmap("other").create().await?;
            ns.secret("below").owned_by(&root).blocking().owned_by(&other).create().await?;
            let said =
                "ConfigMap/root waits for Secret/below, whose owner reference the collector has to remove";
            (root, foreground, said, End::Collector)
        }
        Hold::Undecided => {
            let root = root().await?;
            let below =
                ns.secret("below").owned_by(&root).blocking().owner_reference(unserved()).create().await?;
            let said = "ConfigMap/root waits for Secret/below (an owner that cannot be resolved)";
            (root, foreground, said, End::References(below))
        }
        Hold::Unknown => {
            let root = root().await?;
            let below = below(&root).await?;
            let below = cluster.set_finalizers(&below, &[BACKUP]).await?;
            cluster.delete(&below, background).await?;
            let rules = json!([
                { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"] },
                { "apiGroups": [""], "resources": ["secrets"], "verbs": ["list"] },
            ]);
            user = Some(User::create(world.stage.plane, cluster, &ns, rules).await?);
            let said = "ConfigMap/root waits for Secret/below (something that could not be looked at)";
            (root, foreground, said, End::Finalizers(vec![below]))
        }
        Hold::Circle => {
            let (one, other) = (root().await?, ns.configmap("other").create().await?);
            own(cluster, &one, &other, true).await?;
            own(cluster, &other, &one, true).await?;
            cluster.delete(&other, foreground).await?;
            (one, foreground, " for a circle of objects that block each other", End::Collector)
        }
        Hold::Other => {
            let of = |number| ns.configmap(format!("c{number}")).finalizer(&format!("example.com/f{number}"));
            let all = create_all((10..10 + MANY).map(of)).await?;
            cluster.delete_all(&all[..MANY - 1], background).await?;
            (all[MANY - 1].clone(), background, " wait for other causes", End::Finalizers(all))
        }
        // `stuck::what_holds_a_namespace_and_a_definition_is_named` shows it alone: every namespace waits for that.
        Hold::SilentApi => return Ok(None),
        // No API server shows one; the unit tests do.
        Hold::Unexplained => return Ok(None),
    };
    cluster.delete(&object, policy).await?;
    let name = match &*object.resource.kind {
        "Namespace" => "ns",
        "Pod" => "pod/pod",
        _ if hold == Hold::Other => "cm/c79",
        _ => "cm/root",
    };
    Ok(Some(Row { hold, ns, object, name, said, end, user }))
}

/// The group of an answer that has an object.
fn group_of<'a>(answer: &'a Value, object: &Obj) -> Option<&'a Value> {
    let mut groups = answer["groups"].as_array()?.iter();
    groups.find(|group| group["objects"].to_string().contains(&object.uid))
}

impl Row {
    /// Fails unless the commands and the pages of a collector name the cause.
    async fn is_said(&self, world: &World, watcher: &Collector) -> Result<()> {
        let Self { hold, ns, object, name, said, user, .. } = self;
        let kubeconfig = user.as_ref().map_or(world.stage.plane.kubeconfig(), User::kubeconfig);
        let caller = Caller { kubeconfig, namespace: ns.name() };
        let kinds = if user.is_some() { "--kinds configmaps,secrets" } else { "" };
        let line = format!("stuck --older 0s --from lists {kinds}");
        let is_stuck = async || anyhow::Ok(group_of(&caller.json(&line).await?, object).is_some());
        poll("the second of the deletion to pass", is_stuck).await.with_context(|| format!("{hold:?}"))?;
        let answer = caller.json(&line).await?;
        let group = group_of(&answer, object).with_context(|| format!("{hold:?}: {answer}"))?;
        let sentence = group["sentence"].as_str().unwrap_or_default();
        ensure!(
            group["cause"] == hold.into_str() && sentence.contains(said),
            "{hold:?}: not {said:?} in {group}"
        );
        let name = if *name == "ns" { format!("ns/{}", ns.name()) } else { (*name).to_owned() };
        let explained = caller.json(&format!("explain {name} --from lists")).await?;
        // What the collector does at once goes; everything else waits.
        let outcome = if matches!(hold, Hold::Unblocked | Hold::Circle) { "goes" } else { "waits" };
        ensure!(explained["outcome"] == outcome, "{hold:?}: {explained}");
        if matches!(hold, Hold::Finalizers | Hold::SpecFinalizers | Hold::NamespaceController | Hold::Kubelet)
        {
            ensure!(explained["heldBy"][0]["cause"] == hold.into_str(), "{hold:?}: {explained}");
        }
        if *hold == Hold::Kubelet {
            let said = ["and node nowhere does not exist", "!the kubelet of"];
            caller.says("plan pod/pod", 0, &said).await?;
        }
        if user.is_some() {
            return Ok(());
        }
        let causes = format!("/debug/stuck/causes?namespace={}&older=0", ns.name());
        let page = async || watcher.get_debug(&causes).await?.json();
        let same = async || {
            anyhow::Ok(group_of(&page().await?, object).is_some_and(|found| found["cause"] == group["cause"]))
        };
        poll("the page to say the same", same).await.with_context(|| format!("{hold:?}: {group}"))?;
        let page = watcher.get_debug(&format!("/debug/explain?uid={}", object.uid)).await?.json()?;
        // The watcher is in a dry run.
        let age = |text: &Value| {
            let text = text.as_str().unwrap_or_default().to_owned();
            let would = |text: String, does: &str| {
                text.replace(&format!(" would {does}"), &format!(", if one runs, {does}s"))
            };
            words(&["remove", "break", "release"].into_iter().fold(text, would))
        };
        ensure!(
            age(&page["verdict"]) == age(&explained["verdict"]),
            "{hold:?}: {page} instead of {explained}"
        );
        Ok(())
    }

    /// Does what is said that it waits for.
    async fn end(&self, world: &World) -> Result<()> {
        let Self { hold, ns, end, .. } = self;
        let cluster = &world.stage.cluster;
        match end {
            End::Collector => Ok(()),
            End::Finalizers(all) => {
                for object in all {
                    cluster.set_finalizers(object, &[]).await?;
                }
                Ok(())
            }
            End::Kubelet(pod) if *hold == Hold::GracePeriod => {
                cluster.delete_with(pod, &json!({ "gracePeriodSeconds": 0 })).await
            }
            End::Kubelet(pod) => {
                let caller = Caller { kubeconfig: world.stage.plane.kubeconfig(), namespace: ns.name() };
                let explained = caller.json(&format!("explain pod/{} --from lists", pod.name)).await?;
                let advice = explained["advice"][0].as_str().unwrap_or_default();
                let command = advice.split_once(": echo ").map(|(_, command)| format!("echo {command}"));
                let command = command.with_context(|| format!("no command in {explained}"))?;
                // Another pod may have the name by then.
                for (command, is_done) in [(command.replace(&pod.uid, "x"), false), (command, true)] {
                    let ran = in_shell(&world.stage, &command).await?;
                    ensure!((ran.code == 0) == is_done, "{command}: {ran:?}");
                }
                Ok(())
            }
            End::References(object) => cluster.set_owner_references(object, &[]).await.map(drop),
            End::Spec => ns.finalize().await,
        }
    }
}

async fn each_cause_is_named_and_what_is_said_of_it_comes_true() -> Result<()> {
    let world = World::set().await?;
    let cluster = &world.stage.cluster;
    // It only looks.
    let watcher = world.stage.collector_with(Options::default().arg("--dry-run")).await?;
    let mut rows = Vec::new();
    for hold in values::<Hold>("explanation", "Hold")? {
        rows.extend(plant(&world, hold).await.with_context(|| format!("{hold:?}"))?);
    }
    for row in &rows {
        row.is_said(&world, &watcher).await?;
    }
    cluster.assert_kept(rows.iter().map(|row| &row.object)).await?;
    watcher.stop().await?;
    let collector = world.stage.collector().await?;
    cluster.settled_with_parked(&collector).await?;
    for Row { hold, object, end, .. } in &rows {
        let goes = matches!(end, End::Collector);
        ensure!(cluster.exists_with_uid(object).await? != goes, "{hold:?} of {object}");
    }
    for row in &rows {
        row.end(&world).await.with_context(|| format!("{:?}", row.hold))?;
        cluster.gone(&row.object).await?;
    }
    collector.stop().await
}
