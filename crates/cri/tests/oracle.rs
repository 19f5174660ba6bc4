//! The kubelet's own garbage collectors, on the server in the process.
//!
//! It shows that the server is good enough for the kubelet, and what the kubelet does in the plain cases.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use kube_gc_cri::messages::*;
use kube_gc_cri::server::{
    CriServer, Disk, Effect, Fault, Layer, NewContainer, NewImage, NewSandbox, Settings, World,
};
use kube_gc_cri::testing::{Kubelet, KubeletOutcome, KubeletPass, KubeletRules};
use kube_gc_cri::{ApiVersion, Rpc};
use tonic::Code;

/// 2026, in nanoseconds since 1970.
const PAST: i64 = 1_767_225_600_000_000_000;
const HOUR: i64 = 3_600_000_000_000;

async fn kubelet(server: &CriServer, root: &Path, rules: &KubeletRules) -> Result<Kubelet> {
    let mut kubelet = Kubelet::start(&Kubelet::program().await?)?;
    kubelet.set_up(server.endpoint(), root, rules).await?;
    Ok(kubelet)
}

fn start(world: World) -> Result<CriServer> {
    // The kubelet 1.20.2 speaks nothing newer.
    Ok(CriServer::start(Settings { versions: vec![ApiVersion::V1Alpha2], ..Settings::default() }, world)?)
}

fn sandbox(world: &mut World, uid: &str, attempt: u32, stopped: bool) -> String {
    let pod = PodSandboxMetadata {
        name: format!("pod-{uid}"),
        uid: uid.to_owned(),
        namespace: "default".to_owned(),
        attempt,
    };
    world.add_sandbox(NewSandbox {
        pod,
        stopped,
        created_at: PAST + i64::from(attempt) * HOUR,
        ..NewSandbox::default()
    })
}

fn container(world: &mut World, sandbox: &str, attempt: u32, state: ContainerState, image: &str) -> String {
    world.add_container(NewContainer {
        sandbox: sandbox.to_owned(),
        name: "app".to_owned(),
        attempt,
        image: image.to_owned(),
        state,
        created_at: PAST + i64::from(attempt) * HOUR,
        log_path: format!("/var/log/pods/x/app/{attempt}.log"),
        ..NewContainer::default()
    })
}

fn image(world: &mut World, tag: &str, bytes: u64) -> String {
    let layers = vec![Layer { digest: tag.to_owned(), bytes, inodes: 10 }];
    world.add_image(NewImage { tags: vec![tag.to_owned()], layers, ..NewImage::default() })
}

fn pods(pods: &[&str]) -> Vec<String> {
    pods.iter().map(|uid| (*uid).to_owned()).collect()
}

#[tokio::test]
async fn the_kubelet_removes_dead_containers_sandboxes_and_logs() -> Result<()> {
    use ContainerState::{ContainerCreated, ContainerExited, ContainerRunning, ContainerUnknown};
    let mut world = World::new(Disk::default());
    let app = image(&mut world, "app:1", 1);
    let live = sandbox(&mut world, "live", 1, false);
    let running = container(&mut world, &live, 4, ContainerRunning, &app);
    let newest = container(&mut world, &live, 3, ContainerExited, &app);
    let older = container(&mut world, &live, 2, ContainerCreated, &app);
    let oldest = container(&mut world, &live, 1, ContainerUnknown, &app);
    let old_sandbox = sandbox(&mut world, "live", 0, true);
    let gone = sandbox(&mut world, "gone", 0, true);
    let of_gone = container(&mut world, &gone, 0, ContainerExited, &app);
    let stuck = sandbox(&mut world, "stuck", 0, false);
    let unknown = container(&mut world, &stuck, 0, ContainerUnknown, &app);

    let root = tempfile::tempdir()?;
    let log = |name: &str| root.path().join("var/log/pods").join(name);
    for name in ["default_pod-live_live", "default_pod-gone_gone"] {
        std::fs::create_dir_all(log(name))?;
    }
    let server = start(world)?;
    server.fault(Fault::about(
        Rpc::StopContainer,
        &unknown,
        Effect::Fail(Code::Unknown, "the container cannot be stopped".to_owned()),
    ));
    let mut kubelet = kubelet(&server, root.path(), &KubeletRules::default()).await?;
    let pass = KubeletPass {
        containers: true,
        pods: pods(&["live"]),
        sources_ready: true,
        ..KubeletPass::default()
    };
    assert_eq!(kubelet.pass(&pass).await?, KubeletOutcome::default());

    let left: BTreeSet<String> = server.world(|world| world.containers().map(|c| c.id.clone()).collect());
    assert_eq!(left, BTreeSet::from([running, newest, unknown.clone()]));
    // Oldest first, and what is unknown is stopped before.
    let removed = server.calls(Rpc::RemoveContainer);
    let of_live: Vec<&String> = removed.iter().filter(|id| **id != of_gone).collect();
    assert_eq!(of_live, [&oldest, &older]);
    assert_eq!(BTreeSet::from_iter(server.calls(Rpc::StopContainer)), BTreeSet::from([oldest, unknown]));
    let left: BTreeSet<String> = server.world(|world| world.sandboxes().map(|s| s.id.clone()).collect());
    assert_eq!(left, BTreeSet::from([live, stuck]));
    assert_eq!(BTreeSet::from_iter(server.calls(Rpc::RemovePodSandbox)), BTreeSet::from([old_sandbox, gone]));
    assert!(log("default_pod-live_live").exists() && !log("default_pod-gone_gone").exists());
    Ok(())
}

#[tokio::test]
async fn without_all_sources_the_kubelet_takes_no_pod_for_gone() -> Result<()> {
    let mut world = World::new(Disk::default());
    let app = image(&mut world, "app:1", 1);
    let sandbox = sandbox(&mut world, "unknown", 0, true);
    container(&mut world, &sandbox, 0, ContainerState::ContainerExited, &app);
    let root = tempfile::tempdir()?;
    std::fs::create_dir_all(root.path().join("var/log/pods"))?;
    let server = start(world)?;
    let mut kubelet = kubelet(&server, root.path(), &KubeletRules::default()).await?;
    let pass = KubeletPass { containers: true, ..KubeletPass::default() };
    assert_eq!(kubelet.pass(&pass).await?, KubeletOutcome::default());
    assert!(server.calls(Rpc::RemoveContainer).is_empty());
    Ok(())
}

#[tokio::test]
async fn the_kubelet_removes_unused_images_above_the_high_threshold() -> Result<()> {
    let mut world = World::new(Disk::new(1000, 1000));
    let used = image(&mut world, "used:1", 300);
    let pause = image(&mut world, "pause:1", 100);
    let unused: BTreeSet<String> = (0..5).map(|at| image(&mut world, &format!("old:{at}"), 100)).collect();
    let sandbox = sandbox(&mut world, "live", 0, false);
    container(&mut world, &sandbox, 0, ContainerState::ContainerExited, &used);
    let root = tempfile::tempdir()?;
    let server = start(world)?;
    let rules = KubeletRules {
        image_min_age_seconds: 0,
        sandbox_image: "pause:1".to_owned(),
        ..KubeletRules::default()
    };
    let mut kubelet = kubelet(&server, root.path(), &rules).await?;
    let pass = async |kubelet: &mut Kubelet| {
        let usage = server.disk_usage();
        let (capacity, available) = (usage.capacity, usage.available);
        kubelet.pass(&KubeletPass { images: true, capacity, available, ..KubeletPass::default() }).await
    };
    // 900 of 1000 bytes are used; one image of 100 brings it to the low threshold.
    assert_eq!(pass(&mut kubelet).await?, KubeletOutcome::default());
    assert_eq!(server.calls(Rpc::RemoveImage).len(), 1);
    assert!(unused.contains(&server.calls(Rpc::RemoveImage)[0]));
    // At 80 % nothing more is removed.
    assert_eq!(pass(&mut kubelet).await?, KubeletOutcome::default());
    assert_eq!(server.calls(Rpc::RemoveImage).len(), 1);
    // Under pressure, everything that is not in use is.
    let pressure = KubeletPass { images: true, pressure: true, ..KubeletPass::default() };
    assert_eq!(kubelet.pass(&pressure).await?, KubeletOutcome::default());
    assert_eq!(BTreeSet::from_iter(server.calls(Rpc::RemoveImage)), unused);
    let left: BTreeSet<String> = server.world(|world| world.images().map(|image| image.id.clone()).collect());
    assert_eq!(left, BTreeSet::from([used, pause]));
    Ok(())
}
