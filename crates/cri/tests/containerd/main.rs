//! The same calls to a real containerd and to the server in the process: both have to answer the same.
//!
//! Needs root; without it, the tests are skipped and say why. With `KUBE_GC_CONTAINERD=required`, as in
//! continuous integration, that is a failure.

mod transcript;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube_gc_cri::client::{Coverage, PodKey};
use kube_gc_cri::messages::*;
use kube_gc_cri::server::{self, CriServer, Disk, Layer, NewImage, World};
use kube_gc_cri::testing::{Archive, ContainerSpec, Containerd, Options, Pod, can_run};
use kube_gc_cri::{Client, Endpoint, Error, client};
use transcript::transcript;

/// How long a process may take to end, and a disk to have room again.
const PATIENCE: Duration = Duration::from_secs(30);
/// The size of an image's own layer.
const BALLAST: u64 = 8 << 20;
const SLEEP: &[&str] = &["/busybox", "sleep", "3600"];

#[tokio::test(flavor = "multi_thread")]
async fn the_server_in_the_process_does_what_containerd_does() -> Result<()> {
    if !can_run("the_server_in_the_process_does_what_containerd_does") {
        return Ok(());
    }
    let containerd = Containerd::start(Options::default()).await?;
    for name in ["test.local/app:1", "test.local/job:1", "test.local/old:1"] {
        containerd.import(&Archive::runnable(name, usize::try_from(BALLAST)?)).await?;
    }
    let client = containerd.client().await?;
    let disk = containerd.disk();
    let used = async || used_of(&disk).await;
    let real = transcript(&client, &containerd.logs(), used).await.with_context(|| containerd.log())?;

    let sandbox_image = containerd.pause_image().to_owned();
    let world = world(&["app", "job", "old"], &sandbox_image);
    let fake = CriServer::start(server::Settings { sandbox_image, ..server::Settings::default() }, world)?;
    let client = Client::connect(fake.endpoint(), client::Settings::default()).await?;
    let used = async || Ok(fake.disk_usage().capacity - fake.disk_usage().available);
    let fake = transcript(&client, &containerd.logs(), used).await?;
    for (at, (real, fake)) in real.iter().zip(&fake).enumerate() {
        ensure!(real == fake, "step {at} differs\n  containerd: {real}\n  the server: {fake}");
    }
    ensure!(real.len() == fake.len());
    ensure!(real.len() > 50, "only {} steps", real.len());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_survives_a_killed_containerd() -> Result<()> {
    if !can_run("what_runs_survives_a_killed_containerd") {
        return Ok(());
    }
    let mut containerd = Containerd::start(Options::default()).await?;
    containerd.import(&Archive::runnable("test.local/app:1", 1 << 20)).await?;
    let client = containerd.client().await?;
    let pod = Pod::start(&client, &containerd.logs(), "default", "web", "uid-web", 0).await?;
    let running = pod.run(&client, &container("app", 0, "test.local/app:1", SLEEP)).await?;
    let created = pod.create(&client, &container("next", 0, "test.local/app:1", SLEEP)).await?;
    for _ in 0..3 {
        containerd.kill()?;
        let error = client.containers(None).await.expect_err("nothing listens");
        ensure!(matches!(error, Error::NotListening { .. } | Error::Disconnected { .. }), "{error}");
        containerd.restart().await?;
        // The same client, as soon as there is a connection again.
        let states = eventually(async || {
            let containers = client.containers(None).await.ok()?;
            Some(containers.iter().map(|c| (c.id.clone(), c.state())).collect::<Vec<_>>())
                .filter(|all| all.len() == 2)
        })
        .await?;
        ensure!(states.contains(&(running.clone(), ContainerState::ContainerRunning)), "{states:?}");
        ensure!(states.contains(&(created.clone(), ContainerState::ContainerCreated)), "{states:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_containerd_is_left() -> Result<()> {
    if !can_run("nothing_of_containerd_is_left") {
        return Ok(());
    }
    let containerd = Containerd::start(Options::default()).await?;
    let client = containerd.client().await?;
    let pod = Pod::start(&client, &containerd.logs(), "default", "web", "uid-web", 0).await?;
    pod.run(&client, &container("app", 0, containerd.pause_image(), SLEEP)).await?;
    let directory = containerd.disk().parent().context("a directory")?.to_owned();
    let name = directory.to_string_lossy().into_owned();
    ensure!(std::fs::read_to_string("/proc/mounts")?.contains(&name));
    ensure!(!processes(&name)?.is_empty());
    drop(containerd);
    ensure!(!directory.exists());
    ensure!(!std::fs::read_to_string("/proc/mounts")?.contains(&name));
    ensure!(processes(&name)?.is_empty(), "{:?}", processes(&name)?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_that_is_killed_leaves_nothing() -> Result<()> {
    const NAME: &str = "a_test_that_is_killed_leaves_nothing";
    const HOLD: &str = "KUBE_GC_TEST_HOLD";
    if !can_run(NAME) {
        return Ok(());
    }
    // This test in a process of its own: starts a container, says where, and waits for its end.
    if let Some(place) = std::env::var_os(HOLD) {
        let containerd = Containerd::start(Options::default()).await?;
        let client = containerd.client().await?;
        let pod = Pod::start(&client, &containerd.logs(), "default", "web", "uid-web", 0).await?;
        pod.run(&client, &container("app", 0, containerd.pause_image(), SLEEP)).await?;
        let directory = containerd.disk().parent().context("a directory")?.to_string_lossy().into_owned();
        std::fs::write(&place, directory)?;
        return std::future::pending().await;
    }
    let place = tempfile::NamedTempFile::new()?;
    let mut child = tokio::process::Command::new(std::env::current_exe()?)
        .args([NAME, "--exact"])
        .env(HOLD, place.path())
        .stdout(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let directory =
        eventually(async || std::fs::read_to_string(place.path()).ok().filter(|text| !text.is_empty()))
            .await?;
    ensure!(!processes(&directory)?.is_empty());
    child.kill().await?;
    eventually(async || {
        let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
        let is_gone = processes(&directory).ok()?.is_empty() && !mounts.contains(&directory);
        (is_gone && !Path::new(&directory).exists()).then_some(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_of_containerd_that_is_not_for_kubernetes_is_told() -> Result<()> {
    if !can_run("a_socket_of_containerd_that_is_not_for_kubernetes_is_told") {
        return Ok(());
    }
    let containerd = Containerd::start(Options::default()).await?;
    // It speaks another protocol, next to the real socket.
    let other =
        Endpoint::parse(&format!("{}.ttrpc", containerd.endpoint().path().with_extension("").display()))?;
    let error = Client::connect(&other, client::Settings::default()).await.expect_err("not CRI");
    ensure!(matches!(error, Error::NotCri { .. } | Error::Deadline { .. }), "{error}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_sends_no_list_beyond_16_mib_and_the_client_has_it_all_the_same() -> Result<()> {
    if !can_run("containerd_sends_no_list_beyond_16_mib_and_the_client_has_it_all_the_same") {
        return Ok(());
    }
    let containerd = Containerd::start(Options::default()).await?;
    let client = containerd.client().await?;
    let mut pods = Vec::new();
    // Eighteen of these lists are more than a message; nine are not.
    let labels: BTreeMap<String, String> = (0..270).map(|at| (format!("x{at}"), "x".repeat(4000))).collect();
    let mut created = BTreeSet::new();
    for uid in ["uid-a", "uid-b"] {
        let pod = Pod::start(&client, &containerd.logs(), "default", uid, uid, 0).await?.with_labels(&labels);
        for attempt in 0..9 {
            created.insert(
                pod.create(&client, &container("app", attempt, containerd.pause_image(), SLEEP)).await?,
            );
        }
        pods.push(PodKey { namespace: "default".to_owned(), uid: uid.to_owned() });
    }
    let error = client.containers(None).await.expect_err("more than a message");
    ensure!(matches!(error, Error::TooLarge { .. }), "{error}");
    let listing = client.all_containers(&pods).await?;
    ensure!(listing.coverage == Coverage::Partial { failed: 0 }, "{:?}", listing.coverage);
    ensure!(listing.items.iter().map(|container| container.id.clone()).collect::<BTreeSet<_>>() == created);
    Ok(())
}

/// The images of the test, as the server in the process has them.
fn world(names: &[&str], pause: &str) -> World {
    let mut world = World::new(Disk::new(256 << 20, 1_000_000));
    let program = Layer { digest: "program".to_owned(), bytes: 2 << 20, inodes: 2 };
    for name in names {
        let ballast = Layer { digest: (*name).to_owned(), bytes: BALLAST, inodes: 2 };
        let layers = vec![program.clone(), ballast];
        world.add_image(NewImage {
            tags: vec![format!("test.local/{name}:1")],
            layers,
            ..NewImage::default()
        });
    }
    world.add_image(NewImage { tags: vec![pause.to_owned()], layers: vec![program], ..NewImage::default() });
    world
}

fn container<'a>(name: &'a str, attempt: u32, image: &'a str, command: &'a [&'a str]) -> ContainerSpec<'a> {
    ContainerSpec { name, attempt, image, command }
}

/// Waits for something.
async fn eventually<T, F: Future<Output = Option<T>>>(look: impl Fn() -> F) -> Result<T> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return Ok(found);
        }
        ensure!(tokio::time::Instant::now() < deadline, "waited for too long");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The bytes that are used of a file system.
async fn used_of(directory: &Path) -> Result<u64> {
    let output = tokio::process::Command::new("df")
        .args(["--block-size=1", "--output=used"])
        .arg(directory)
        .output()
        .await?;
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().nth(1).context("a number")?.trim().parse()?)
}

/// The processes that name a directory.
fn processes(directory: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        if command.contains(directory) {
            found.push(command);
        }
    }
    Ok(found)
}
