//! B1: more dead containers than a runtime can list in one message. The kubelet never removes any of
//! them, because it never gets a list.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Result, ensure};
use kube_gc::internals::node::now;
use kube_gc_cri::messages::ContainerState;
use kube_gc_cri::server::{NewContainer, NewSandbox, World};
use kube_gc_cri::testing::{KubeletPass, KubeletRules};
use kube_gc_cri::{Client, Error, Rpc};
use kube_gc_node::Rules;
use kube_gc_node::pass::Scope;
use kube_gc_node::testing::uid;
use tokio_util::sync::CancellationToken;

use super::files::{Files, Logs};
use super::pods::{Pod, PodState};
use super::run::Stage;

/// How many dead containers kubernetes#134750 reports.
const DEAD: u32 = 18_500;
/// How many pods they belong to. Each is gone.
const PODS: u64 = 74;
const EACH: u32 = DEAD / 74;

fn pod(number: u64, state: PodState) -> Pod {
    // Long names, so that so many containers do not fit into a message.
    let name = format!("job-{number}-{}", "x".repeat(190));
    Pod { namespace: format!("team-{}", number % 2), name, uid: uid(number), state }
}

/// A node with so many dead containers, and one that runs.
fn world(root: &str) -> (World, Vec<Pod>, Vec<Logs>) {
    let mut world = World::new(100 << 30);
    let image = format!("registry.example.com/{}/job:1", "y".repeat(200));
    let living = pod(1000, PodState::Running);
    let mut logs = Vec::new();
    let mut add = |pod: &Pod, stopped, count, state| {
        let of_pod = Logs { pod: pod.clone(), containers: BTreeMap::new() };
        let sandbox = NewSandbox::of(&pod.namespace, &pod.name, &pod.uid);
        let sandbox = world.add_sandbox(NewSandbox { stopped, ..sandbox });
        let name = "main".repeat(15);
        for attempt in 0..count {
            world.add_container(NewContainer {
                sandbox: sandbox.clone(),
                log_path: format!("{root}/{}", of_pod.path_of(&name, attempt)),
                name: name.clone(),
                attempt,
                image: image.clone(),
                state,
                created_at: 1 + i64::from(attempt),
                ..NewContainer::default()
            });
        }
        of_pod
    };
    add(&living, false, 1, ContainerState::ContainerRunning);
    for number in 0..PODS {
        logs.push(add(&pod(number, PodState::Absent), true, EACH, ContainerState::ContainerExited));
    }
    (world, vec![living], logs)
}

/// Lets the kubelet try, and then kube-gc.
pub async fn go_to_zero(stage: &mut Stage) -> Result<()> {
    let started = Instant::now();
    let root = stage.root.path().to_string_lossy().into_owned();
    let (world, pods, logs) = world(&root);
    let files = Files::random(&mut kube_gc_node::testing::Random::new(0), &root, &logs);
    files.plant()?;
    stage.runtime.clear_faults();
    stage.runtime.world(|now| *now = world);
    stage.runtime.clear_journal();
    let dead = || stage.runtime.world(|world| world.containers().count() - 1);
    ensure!(dead() == usize::try_from(DEAD)?, "{} dead containers", dead());
    let client = Client::connect(stage.runtime.endpoint(), kube_gc_cri::Settings::default()).await?;
    let list = client.containers(None).await;
    ensure!(matches!(list, Err(Error::TooLarge { .. })), "the list fits into a message");

    let endpoint = stage.runtime.endpoint().clone();
    stage.kubelet.set_up(&endpoint, stage.root.path(), &KubeletRules::default()).await?;
    let pass = KubeletPass {
        containers: true,
        pods: pods.iter().map(|pod| pod.uid.clone()).collect(),
        sources_ready: true,
        ..KubeletPass::default()
    };
    let outcome = stage.kubelet.pass(&pass).await?;
    ensure!(outcome.containers.contains("ResourceExhausted"), "{outcome:?}");
    ensure!(stage.runtime.calls(Rpc::RemoveContainer).is_empty(), "the kubelet removes some");
    // It has removed the logs, by whose names the pods are found.
    files.plant()?;

    let mut rules = Rules::default();
    rules.roots.pods = format!("{root}/var/log/pods");
    rules.roots.containers = format!("{root}/var/log/containers");
    rules.created_grace = std::time::Duration::ZERO;
    let mut collector = stage.collector(&rules, &pods).await?;
    let dead = || stage.runtime.world(|world| world.containers().count() - 1);
    let mut passes = 0;
    while dead() > 0 {
        let before = dead();
        let look = collector.look(now()).await?;
        collector.carry_out(&look, Scope::All, &CancellationToken::new()).await?;
        passes += 1;
        ensure!(dead() < before, "nothing goes any more, and {before} are left: {:?}", look.notes);
    }
    // With whole lists, sandboxes and logs go, too.
    let look = collector.look(now()).await?;
    collector.carry_out(&look, Scope::All, &CancellationToken::new()).await?;
    let (running, sandboxes) =
        stage.runtime.world(|world| (world.containers().count(), world.sandboxes().count()));
    ensure!((running, sandboxes) == (1, 1), "{running} containers and {sandboxes} sandboxes are left");
    println!(
        "kubelet: {DEAD} dead containers are gone after {passes} passes and {:.1?}; the kubelet removes none",
        started.elapsed()
    );
    Ok(())
}
