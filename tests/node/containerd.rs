//! A real containerd with a full disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kube_gc_cri::Client;
use kube_gc_cri::messages::ContainerState;
use kube_gc_cri::testing::{Archive, Containerd, Pod, can_run};
use kube_gc_node::Ledger;
use kube_gc_node::ledger::Age;
use serde_json::Value;

use crate::eventually;
use crate::process::Place;

const IMAGES: usize = 30;
const MIB: u64 = 1 << 20;
/// The layer that an image has for itself.
const BALLAST: u64 = MIB;
const SLEEP: &[&str] = &["/busybox", "sleep", "3600"];
const TRUE: &[&str] = &["/busybox", "true"];

/// The percentages of the disk that are used before, and that `low` asks for.
const FULL: u64 = 86;
const LOW: u64 = 80;
/// By how much the first is above the second in permille; the kubelet's formula rounds up.
const ABOVE: u64 = 52;

/// How much has to be freed so that it takes three images both by their sizes and in truth.
///
/// The runtime says that an image has the size of its layers: the program, which all share, and its
/// own. Its removal frees its own layer twice, as content and as a snapshot, and the copy of the
/// program in that snapshot.
fn to_free() -> Result<u64> {
    let program = fs::metadata("/bin/busybox")?.len();
    let (said, frees) = (program + BALLAST, program + 2 * BALLAST);
    ensure!(3 * said > 2 * frees, "the program is too small");
    Ok(u64::midpoint(2 * frees, 3 * said))
}

/// Bytes of the file system: all and free ones.
fn space(containerd: &Containerd) -> Result<(u64, u64)> {
    let found = rustix::fs::statvfs(containerd.disk())?;
    Ok((found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize))
}

fn name(image: usize) -> String {
    format!("test.local/image-{image:02}:1")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_brought_below_low_by_exactly_what_the_plan_said() -> Result<()> {
    if !can_run("a_full_disk_is_brought_below_low_by_exactly_what_the_plan_said") {
        return Ok(());
    }
    let to_free = to_free()?;
    let disk = to_free * 1000 / ABOVE;
    let containerd = Containerd::start(disk).await?;
    for image in 0..IMAGES {
        containerd.import(&Archive::runnable(&name(image), usize::try_from(BALLAST)?)).await?;
    }
    let client = containerd.client().await?;
    let pod = Pod::start(&client, &containerd.logs()).await?;
    let names: Vec<String> = (0..IMAGES).map(name).collect();
    let running = pod.run(&client, &names[0], ("running", 0), SLEEP).await?;
    let exited = pod.run(&client, &names[1], ("exited", 0), TRUE).await?;
    let created = pod.create(&client, &names[2], ("created", 0), SLEEP).await?;
    eventually("the end of a container", async || {
        let status = client.container(&exited).await.ok()??;
        (status.state() == ContainerState::ContainerExited).then_some(())
    })
    .await?;
    // The rest is filled by something else.
    let (capacity, available) = space(&containerd)?;
    let wanted = capacity * (100 - LOW) / 100 - to_free;
    let filler = available.checked_sub(wanted);
    let filler =
        filler.with_context(|| format!("the images leave {available} of {capacity}, not {wanted}"))?;
    fs::write(containerd.disk().join("filler"), vec![0; usize::try_from(filler)?])?;
    let (capacity, available) = space(&containerd)?;
    ensure!(100 - available * 100 / capacity == FULL, "{available} of {capacity} bytes are free");

    let ids = ids(&client).await?;
    let place = Place::new(containerd.endpoint())?;
    // All but the last image have been there for long; the first ones longest.
    remember(&place, &names[..IMAGES - 1], &ids)?;
    place.configure_with_logs(
        &containerd.logs(),
        "period = \"1s\"\n[node.images]\nmin_age = \"1h\"\nperiod = \"1s\"\nkeep_local = false\nkeep = [\"*/image-03:*\"]",
    )?;
    let of = |image: usize| ids[&names[image]].clone();

    // containerd measures every ten seconds what containers have written.
    eventually("the size of a dead container", async || {
        let plan = place.run(&["plan", "-o", "json"]).await.ok()?.json().ok()?;
        (plan["breakdown"]["deadContainers"].as_u64()? > 0).then_some(())
    })
    .await?;
    let plan = place.run(&["plan", "-o", "json"]).await?.json()?;
    let planned = removed(&plan);
    ensure!(planned == [of(4), of(5), of(6)], "{plan:#}");
    for (image, rule) in [(0, "I1"), (1, "I1"), (2, "I1"), (3, "B5"), (IMAGES - 1, "I5")] {
        ensure!(rule_of(&plan, &of(image)) == Some(rule), "{image}: {plan:#}");
    }
    // containerd's own record of the sandbox names it.
    ensure!(rule_of(&plan, &ids[containerd.pause_image()]) == Some("I1"), "{plan:#}");

    let run = place.run_on().await?;
    let report: Value = eventually("a pass", async || {
        let report = run.get_debug("/debug/node").await.ok()?.json().ok()?;
        (report["usage"]["available"].as_u64()? * 100 >= capacity * (100 - LOW)).then_some(report)
    })
    .await?;
    ensure!(report["wrongNode"] == false);
    let ready = run.get("/readyz?verbose").await?;
    ensure!(ready.status == 200, "{}", ready.body);
    let metrics = run.metrics().await?;
    for series in [
        "kubelet_image_garbage_collected_total{reason=\"space\"}",
        "kube_gc_node_removals_total{what=\"image\",rule=\"I4\",outcome=\"removed\"}",
        "kubelet_runtime_operations_total{operation_type=\"remove_image\"}",
    ] {
        ensure!(
            metrics.get(series).copied().unwrap_or_default().to_string() == "3",
            "{series} in\n{metrics:?}"
        );
    }
    run.stop().await?;

    // Exactly what was planned has gone.
    let left: BTreeSet<String> = self::ids(&client).await?.into_values().collect();
    let expected: BTreeSet<String> = ids.into_values().filter(|id| !planned.contains(id)).collect();
    ensure!(left == expected, "{left:?}");
    let (capacity, available) = space(&containerd)?;
    ensure!(100 - available * 100 / capacity <= LOW, "{available} of {capacity} bytes are free");
    // All that ran still runs.
    for (id, state) in [
        (running, ContainerState::ContainerRunning),
        (exited, ContainerState::ContainerExited),
        (created, ContainerState::ContainerCreated),
    ] {
        let status = client.container(&id).await?.context("a container is gone")?;
        ensure!(status.state() == state, "{status:?}");
    }
    Ok(())
}

/// Lists over CRI lack that container, although it has the label of those that are made over it, as one that was not
/// loaded has.
#[tokio::test(flavor = "multi_thread")]
async fn the_image_of_a_container_that_ctr_runs_stays() -> Result<()> {
    if !can_run("the_image_of_a_container_that_ctr_runs_stays") {
        return Ok(());
    }
    let containerd = Containerd::start(256 * MIB).await?;
    let names: Vec<String> = (0..2).map(name).collect();
    for name in &names {
        containerd.import(&Archive::runnable(name, usize::try_from(BALLAST)?)).await?;
    }
    let label = ["--label", "io.cri-containerd.kind=container"];
    let run =
        ["run", "--detach", "--null-io", "--snapshotter", "native", label[0], label[1], &names[0], "by-ctr"];
    containerd.ctr(&[&run[..], SLEEP].concat()).await?;
    let client = containerd.client().await?;
    ensure!(client.containers(None).await?.is_empty());
    let place = Place::new(containerd.endpoint())?;
    remember(&place, &names, &ids(&client).await?)?;
    place.configure_with_logs(&containerd.logs(), "high = 1\nlow = 0\n[node.images]\nkeep_local = false")?;
    let once = place.run(&["once"]).await?;
    let left = ids(&client).await?;
    ensure!(left.contains_key(&names[0]) && !left.contains_key(&names[1]), "{once:?}");
    ensure!(!once.stdout.contains("CRI does not list"), "{}", once.stdout);

    // A pass in which no image may go remembers the use, too.
    let place = Place::new(containerd.endpoint())?;
    remember(&place, &names[..1], &left)?;
    place.configure_with_logs(&containerd.logs(), "high = 100\n[node.images]\nkeep_local = false")?;
    place.run(&["once"]).await?.expect(0, &[])?;
    containerd.ctr(&["tasks", "rm", "--force", "by-ctr"]).await?;
    containerd.ctr(&["containers", "rm", "by-ctr"]).await?;
    let once = place.run(&["once", "--all", "--older-than", "15s"]).await?;
    ensure!(self::ids(&client).await?.contains_key(&names[0]), "{once:?}");
    Ok(())
}

/// The label of an image of a test is its name.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_image_with_the_label_goes() -> Result<()> {
    if !can_run("only_the_image_with_the_label_goes") {
        return Ok(());
    }
    let containerd = Containerd::start(256 * MIB).await?;
    let names: Vec<String> = (0..3).map(name).collect();
    for name in &names {
        containerd.import(&Archive::runnable(name, usize::try_from(BALLAST)?)).await?;
    }
    let client = containerd.client().await?;
    let before = ids(&client).await?;
    let place = Place::new(containerd.endpoint())?;
    remember(&place, &names, &before)?;
    place.configure_with_logs(&containerd.logs(), "high = 100\n[node.images]\nkeep_local = false")?;
    let label = format!("name={}", names[1]);
    for (labels, removed) in [(["name", "name=other"], 0), (["name", &label], 1)] {
        let once = ["once", "--all", "--label", labels[0], "--label", labels[1]];
        let once = place.run(&once).await?;
        once.expect(0, &[])?;
        ensure!(!once.stdout.contains("does not tell"), "{}", once.stdout);
        let left = ids(&client).await?;
        ensure!(before.len() - left.len() == removed && left.contains_key(&names[0]), "{once:?}");
        ensure!(left.contains_key(&names[1]) == (removed == 0), "{left:?}");
    }
    Ok(())
}

/// The images by their names.
async fn ids(client: &Client) -> Result<BTreeMap<String, String>> {
    let images = client.all_images().await?.into_iter();
    Ok(images
        .flat_map(|image| image.repo_tags.clone().into_iter().map(move |tag| (tag, image.id.clone())))
        .collect())
}

/// Writes a state file by which these images have been there for hours, the first ones longest.
fn remember(place: &Place, names: &[String], ids: &BTreeMap<String, String>) -> Result<()> {
    let mut ledger = Ledger::default();
    for (name, at) in names.iter().zip(0..) {
        ledger.set(&ids[name], Age { detected: Duration::from_secs(7200 - at), used: None });
    }
    Ok(fs::write(place.state(), ledger.to_json()?)?)
}

/// What a plan removes, in order.
fn removed(plan: &Value) -> Vec<String> {
    let entries = plan["entries"].as_array().into_iter().flatten();
    let removed = entries.filter(|entry| entry["decision"] == "remove");
    removed.filter_map(|entry| entry["id"].as_str().map(str::to_owned)).collect()
}

/// The rule that keeps an item.
fn rule_of<'a>(plan: &'a Value, id: &str) -> Option<&'a str> {
    let mut entries = plan["entries"].as_array()?.iter();
    entries.find(|entry| entry["id"] == id && entry["decision"] == "keep")?["rule"].as_str()
}
