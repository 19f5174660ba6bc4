//! A file system that stays too full: everything that is told says what fills it (B9).

use std::fs;

use anyhow::{Result, ensure};
use kube_gc_cri::Rpc;
use kube_gc_cri::server::{CriServer, NewImage, Settings, World};
use kube_gc_cri::testing::can_run;
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
        let digests = vec!["registry.example/app@sha256:a".to_owned()];
        server.world(|world| world.add_image(NewImage { digests, ..NewImage::default() }));
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
    ensure!(full.join("state.json").exists() && fs::read_dir(&run)?.count() == 0);
    Ok(())
}

/// Passes of containers are more frequent than those of images, and say nothing of space.
#[tokio::test(flavor = "multi_thread")]
async fn b9_what_is_missing_is_warned_of_and_stays_in_the_metric_until_the_next_pass_of_images() -> Result<()>
{
    let (server, _directory) = runtime()?;
    let place = Place::new(server.endpoint())?;
    place.configure(&format!("{TOO_FULL}\nperiod = \"1s\"\nimages.period = \"1d\""))?;
    let run = place.run_on().await?;
    let warning = run.log_line("missing").await?;
    for said in ["Images in use have", "unused", "kept", "dead containers", "the rest"] {
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
