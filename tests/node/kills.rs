//! SIGKILL in mid-pass: nothing that is used is lost, and the next pass finishes.

use anyhow::{Context as _, Result, ensure};
use kube_gc_cri::messages::ContainerState;
use kube_gc_cri::server::{Effect, Fault, NewImage};
use kube_gc_cri::testing::{Archive, Containerd, Pod, can_run};
use kube_gc_cri::{Client, Rpc};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::timeout;

use crate::input::runtime;
use crate::process::Place;
use crate::{PATIENCE, eventually};

/// How often each is killed.
const KILLS: u32 = 20;
const IMAGE: &str = "test.local/app:1";
const SLEEP: &[&str] = &["/busybox", "sleep", "3600"];
const TRUE: &[&str] = &["/busybox", "true"];

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_killed_during_a_removal_leaves_the_rest_to_the_next_one() -> Result<()> {
    for kill_at in 1..=2 {
        let server = runtime()?;
        let place = Place::new(server.endpoint())?;
        server.fault(Fault::nth(Rpc::RemoveContainer, kill_at, Effect::Hang));
        let mut running = place.command(&["once"]).spawn()?;
        // Two containers go at the same time.
        eventually("a removal", async || (server.calls(Rpc::RemoveContainer).len() >= kill_at).then_some(()))
            .await?;
        running.kill().await?;
        server.clear_faults();
        place.run(&["once"]).await?.expect(0, &[])?;
        let left = server.world(|world| world.containers().count());
        ensure!(left == 1, "{left} containers are left after a kill at removal {kill_at}");
    }
    Ok(())
}

/// Nothing has been removed then, so there is nothing to wait for.
#[tokio::test(flavor = "multi_thread")]
async fn once_ends_at_a_signal_while_it_connects_or_looks() -> Result<()> {
    for rpc in [Rpc::Version, Rpc::ListContainers] {
        let server = runtime()?;
        let place = Place::new(server.endpoint())?;
        server.fault(Fault::every(rpc, Effect::Hang));
        let running = place.command(&["once"]).spawn()?;
        let pid = running.id().and_then(|id| Pid::from_raw(id.cast_signed())).context("it has ended")?;
        eventually("the call", async || (!server.calls(rpc).is_empty()).then_some(())).await?;
        kill_process(pid, Signal::TERM)?;
        let output = timeout(PATIENCE, running.wait_with_output()).await??;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(stderr.contains("ended by SIGTERM before anything was removed"), "{rpc}: {stderr}");
        ensure!(output.status.code() == Some(1), "{rpc}: {output:?}");
    }
    Ok(())
}

/// Containers have been removed then, and images have not.
#[tokio::test(flavor = "multi_thread")]
async fn once_says_that_it_has_not_done_all_if_a_signal_ends_its_pass() -> Result<()> {
    let server = runtime()?;
    server.world(|world| world.add_image(NewImage::default()));
    let place = Place::new(server.endpoint())?;
    place.configure("images.min_age = \"0s\"")?;
    place.run(&["plan", "--all"]).await?.expect(0, &[])?;
    // Up to its pass, it looks as often as a plan does.
    let looks = server.calls(Rpc::ListContainers).len();
    server.fault(Fault::nth(Rpc::ListContainers, looks + 1, Effect::Hang));
    let running = place.command(&["once", "--all"]).spawn()?;
    let pid = running.id().and_then(|id| Pid::from_raw(id.cast_signed())).context("it has ended")?;
    let hangs = async || (server.calls(Rpc::ListContainers).len() > 2 * looks).then_some(());
    eventually("a list in the pass", hangs).await?;
    kill_process(pid, Signal::TERM)?;
    let output = timeout(PATIENCE, running.wait_with_output()).await??;
    let stdout = String::from_utf8_lossy(&output.stdout);
    ensure!(stdout.contains("The pass ended early: it was asked to end."), "{stdout}");
    ensure!(output.status.code() == Some(7) && server.calls(Rpc::RemoveImage).is_empty(), "{output:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_collectors_and_runtimes_lose_nothing_that_is_used() -> Result<()> {
    if !can_run("killed_collectors_and_runtimes_lose_nothing_that_is_used") {
        return Ok(());
    }
    let mut containerd = Containerd::start(256 << 20).await?;
    containerd.import(&Archive::runnable(IMAGE, 1 << 20)).await?;
    let client = containerd.client().await?;
    let pod = Pod::start(&client, &containerd.logs()).await?;
    let running = pod.run(&client, IMAGE, ("app", 0), SLEEP).await?;
    let place = Place::new(containerd.endpoint())?;
    place.configure_with_logs(&containerd.logs(), "max_per_container = 0")?;
    let mut attempt = 0;
    for kill in 0..2 * KILLS {
        let kills_runtime = kill % 2 == 1;
        for _ in 0..3 {
            pod.run(&client, IMAGE, ("job", attempt), TRUE).await?;
            attempt += 1;
        }
        eventually("the end of three containers", async || {
            let states = states(&client).await.ok()?;
            let dead = states.iter().filter(|(_, state)| *state == ContainerState::ContainerExited);
            (dead.count() == 3).then_some(())
        })
        .await?;
        let mut once = place.command(&["once"]).spawn()?;
        // After the first of three.
        eventually("a removal", async || (states(&client).await.ok()?.len() < 4).then_some(())).await?;
        if kills_runtime {
            containerd.kill()?;
            containerd.restart().await?;
            once.wait().await?;
        } else {
            once.kill().await?;
        }
        let used = (running.clone(), ContainerState::ContainerRunning);
        // The runtime may still carry out a removal of the collector that was killed. Until it has
        // given up, it refuses to remove that container, and a later pass does it.
        eventually("a pass that removes the rest", async || {
            let ended = place.run(&["once"]).await.ok()?;
            let left = states(&client).await.ok()?;
            (ended.code == Some(0) && left.iter().all(|container| *container == used)).then_some(())
        })
        .await
        .with_context(|| format!("kill {kill}"))?;
        ensure!(states(&client).await? == [used], "kill {kill}");
        ensure!(client.all_images().await?.iter().any(|image| image.repo_tags == [IMAGE]));
        let sandbox = client.sandbox(pod.sandbox()).await?.context("the sandbox is gone")?;
        ensure!(sandbox.state() == kube_gc_cri::messages::PodSandboxState::SandboxReady);
    }
    Ok(())
}

async fn states(client: &Client) -> Result<Vec<(String, ContainerState)>> {
    let containers = client.containers(None).await?;
    Ok(containers.iter().map(|container| (container.id.clone(), container.state())).collect())
}
