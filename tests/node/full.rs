//! A file system that stays too full: everything that is told says what fills it (B9).

use std::fs;
use std::time::Duration;

use anyhow::{Result, ensure};
use kube_gc_cri::Rpc;
use kube_gc_cri::server::{Code, CriServer, Effect, Fault, Layer, NewImage, Settings, World};
use kube_gc_cri::testing::can_run;
use kube_gc_node::Ledger;
use kube_gc_node::ledger::Age;
use tempfile::TempDir;
use tokio::process::Command;

use crate::eventually;
use crate::process::{PROGRAM, Place, ended};

/// Something is on each file system, and with these thresholds that is too much.
const TOO_FULL: &str = "high = 1\nlow = 0";

/// A runtime whose images are on the file system of a directory.
fn runtime() -> Result<(CriServer, TempDir)> {
    let directory = tempfile::tempdir()?;
    let mountpoint = directory.path().display().to_string();
    let settings = Settings { mountpoint, ..Settings::default() };
    Ok((CriServer::start(settings, World::default())?, directory))
}

/// An image that can be pulled again.
fn add_image(server: &CriServer) -> String {
    let layers = vec![Layer { digest: "app".to_owned(), bytes: 1 << 20 }];
    let digests = vec!["registry.example/app@sha256:a".to_owned()];
    server.world(|world| world.add_image(NewImage { digests, layers, ..NewImage::default() }))
}

#[tokio::test(flavor = "multi_thread")]
async fn b9_a_pass_that_cannot_free_enough_ends_with_what_fills_the_disk() -> Result<()> {
    let (server, _directory) = runtime()?;
    let place = Place::new(server.endpoint())?;
    place.configure(TOO_FULL)?;
    let once = place.run(&["once"]).await?;
    once.expect(7, &[])?;
    for said in [
        "Not all that was wanted",
        "images in use",
        "images unused",
        "images kept",
        "dead containers",
        "other",
    ] {
        ensure!(once.stdout.contains(said), "does not say {said:?}: {}", once.stdout);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn once_waits_for_images_that_are_only_too_young_if_it_is_asked_to() -> Result<()> {
    for (min_age, older_than) in [("1s", "0s"), ("0s", "1s")] {
        let (server, _directory) = runtime()?;
        add_image(&server);
        let place = Place::new(server.endpoint())?;
        place.configure(&format!("{TOO_FULL}\nimages.min_age = \"{min_age}\""))?;
        for (wait, removed) in [(None, 0), (Some("--wait"), 1)] {
            let arguments = ["once", "--older-than", older_than].into_iter().chain(wait);
            // It is not enough: the disk has more than this image.
            place.run(&arguments.collect::<Vec<_>>()).await?.expect(7, &[])?;
            ensure!(server.calls(Rpc::RemoveImage).len() == removed, "{min_age} {older_than} {wait:?}");
            fs::remove_file(place.state())?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn once_waits_for_images_that_are_due_by_their_age_alone() -> Result<()> {
    let (server, _directory) = runtime()?;
    let id = add_image(&server);
    let place = Place::new(server.endpoint())?;
    place.configure("high = 100\nimages.min_age = \"0s\"\nimages.max_age = \"5s\"")?;
    for (wait, removed) in [(None, 0), (Some("--wait"), 1)] {
        let mut ledger = Ledger::default();
        // In whole five minutes, as the file has it.
        ledger.set(&id, Age { detected: Duration::from_secs(300), used: None });
        fs::write(place.state(), ledger.to_json()?)?;
        let arguments = ["once", "--older-than", "301s"].into_iter().chain(wait);
        place.run(&arguments.collect::<Vec<_>>()).await?.expect(0, &[])?;
        ensure!(server.calls(Rpc::RemoveImage).len() == removed, "{wait:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_runtime_only_says_is_gone_is_not_counted_as_removed() -> Result<()> {
    let (server, _directory) = runtime()?;
    add_image(&server);
    let missing = Effect::Fail(Code::NotFound, "made by the test".to_owned());
    server.fault(Fault::every(Rpc::RemoveImage, missing));
    let place = Place::new(server.endpoint())?;
    place.configure(&format!("{TOO_FULL}\nimages.min_age = \"0s\""))?;
    let run = place.run_on().await?;
    let page = eventually("a pass", async || {
        let page = run.metrics().await.ok()?;
        let failed = "kube_gc_node_removals_total{what=\"image\",rule=\"I4\",outcome=\"failed\"}";
        (*page.get(failed)? > 0.0).then_some(page)
    })
    .await?;
    let is_removal = |series: &str| series.contains("removed") || series.contains("collected");
    ensure!(page.iter().all(|(series, count)| !is_removal(series) || *count < 1.0), "{page:?}");
    run.stop().await
}

/// The disk that is full is often that of the state file. The next process knows the ages all the same.
#[tokio::test(flavor = "multi_thread")]
async fn b4_without_room_for_the_state_file_it_is_kept_in_memory_until_there_is_some() -> Result<()> {
    if !can_run("b4_without_room_for_the_state_file_it_is_kept_in_memory_until_there_is_some") {
        return Ok(());
    }
    let (server, _directory) = runtime()?;
    let place = Place::new(server.endpoint())?;
    place.configure("high = 100")?;
    let (full, run) = (place.path("full"), place.path("run"));
    fs::create_dir(&full)?;
    let once = |by| {
        let mut command = place.command_by(by, &["once"]);
        command.env("KUBE_GC__NODE__STATE", full.join("state.json"));
        ended(command)
    };
    let mut on_full_disk = Command::new("unshare");
    let script = "mount -t tmpfs -o size=4k none \"$0\" && echo >\"$0/filler\" && exec \"$@\"";
    on_full_disk.args(["--mount", "sh", "-c", script]).arg(&full).arg(PROGRAM);
    once(on_full_disk).await?.expect(0, &["it is kept at"])?;
    ensure!(fs::read_dir(&run)?.count() == 1);
    once(Command::new(PROGRAM)).await?.expect(0, &[])?;
    ensure!(fs::read_dir(&full)?.count() == 1 && fs::read_dir(&run)?.count() == 0);
    Ok(())
}

/// Passes of containers are more frequent than those of images, and say nothing of space.
#[tokio::test(flavor = "multi_thread")]
async fn b9_what_is_missing_is_warned_of_and_stays_in_the_metric_until_the_next_pass_of_images() -> Result<()>
{
    let (server, _directory) = runtime()?;
    let place = Place::new(server.endpoint())?;
    add_image(&server);
    let images = "images.min_age = \"0s\"\nimages.period = \"1d\"";
    place.configure(&format!("{TOO_FULL}\nperiod = \"1s\"\n{images}"))?;
    let run = place.run_on().await?;
    let warning = run.log_line("still missing").await?;
    // The only one has gone.
    for said in ["Images in use have", "unused 0 B", "kept", "dead containers", "the rest"] {
        ensure!(warning.contains(said), "does not say {said:?}: {warning}");
    }
    let page = eventually("three passes of containers", async || {
        let page = run.metrics().await.ok()?;
        (*page.get("kube_gc_node_pass_seconds_count{scope=\"containers\"}")? >= 3.0).then_some(page)
    })
    .await?;
    ensure!(page["kube_gc_node_pass_seconds_count{scope=\"images\"}"].to_string() == "1", "{page:?}");
    ensure!(page["kube_gc_node_wanted_bytes"] > 0.0, "{page:?}");
    run.stop().await
}
