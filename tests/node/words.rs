//! What plans and passes say to people and to programs.

use anyhow::{Context as _, Result, ensure};
use kube_gc_cri::Rpc;
use kube_gc_cri::server::{CriServer, NewImage, Settings, World};
use kube_gc_testkit::schema::check;
use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Ended, Place};

/// However full the disk is that this test runs on.
const NEVER_FULL: &str = "high = 100";
const SCHEMA: &str = include_str!("../../docs/node-plan.schema.json");

/// A runtime with a pod that has three dead containers, and with an image that nothing uses. The file system
/// of the images has something on it.
fn node() -> Result<(CriServer, TempDir)> {
    let mut world = World::default();
    let image = |tags: &[&str]| NewImage {
        tags: tags.iter().map(|tag| format!("registry.example/{tag}")).collect(),
        digests: vec![format!("registry.example/{}@sha256:1", tags[0])],
        ..NewImage::default()
    };
    let used = world.add_image(image(&["app:1"]));
    world.add_image(image(&["old:1", "old:latest"]));
    world.add_crashed(&used, 3);
    let directory = tempfile::tempdir()?;
    let mountpoint = directory.path().display().to_string();
    Ok((CriServer::start(Settings { mountpoint, ..Settings::default() }, world)?, directory))
}

fn says(ended: &Ended, texts: &[&str]) -> Result<()> {
    for text in texts {
        ensure!(ended.stdout.contains(text), "does not say {text:?}:\n{}", ended.stdout);
    }
    Ok(())
}

/// The items of a list in JSON that have this kind.
fn of_kind<'a>(list: &'a Value, kind: &'a str) -> Vec<&'a Value> {
    list.as_array().into_iter().flatten().filter(|item| item["what"] == kind).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wide_plan_has_states_ages_and_all_tags_and_only_some_are_shown_on_request() -> Result<()> {
    let (server, _directory) = node()?;
    let place = Place::new(server.endpoint())?;
    let wide = place.run(&["plan", "-o", "wide", "--only", "keep"]).await?;
    says(&wide, &["exited", "registry.example/old:1,registry.example/old:latest"])?;
    ensure!(!wide.stdout.contains("\nremove"), "{}", wide.stdout);
    let table = place.run(&["plan", "--only", "remove"]).await?;
    says(&table, &["default/web/app", "To remove: 2 containers"])?;
    ensure!(!table.stdout.contains("\nkeep"), "{}", table.stdout);

    let plan = place.run(&["plan", "-o", "json", "--only", "keep"]).await?.json()?;
    check(&serde_json::from_str(SCHEMA)?, &plan).map_err(anyhow::Error::msg)?;
    let images = of_kind(&plan["entries"], "image");
    let tags = images.iter().find_map(|image| image["tags"].as_array().filter(|tags| tags.len() == 2));
    ensure!(tags.is_some(), "{plan}");
    let containers = of_kind(&plan["entries"], "container");
    ensure!(containers.len() == 1 && containers[0]["state"] == "exited", "{plan}");
    ensure!(containers[0]["createdSeconds"].as_u64() > Some(0), "{plan}");
    Ok(())
}

/// Nobody can look an id up after the removal.
#[tokio::test(flavor = "multi_thread")]
async fn once_names_what_went_in_its_output_in_json_and_in_the_log() -> Result<()> {
    let (server, _directory) = node()?;
    let place = Place::new(server.endpoint())?;
    place.configure(&format!("{NEVER_FULL}\nimages.min_age = \"0s\""))?;
    let ids = server.world(|world| world.images().map(|image| image.id.clone()).collect::<Vec<_>>());
    let once = place.run(&["once", "--all"]).await?;
    let state = std::fs::read_to_string(place.state())?;
    ensure!(ids.iter().filter(|id| state.contains(*id)).count() == 1, "knows what has gone: {state}");
    once.expect(0, &["name=\"registry.example/old:1,registry.example/old:latest\""])?;
    says(&once, &["OUTCOME", "registry.example/old:1", "--all", "Removed 3, ", "File system of the images"])?;

    let (server, _directory) = node()?;
    let place = Place::new(server.endpoint())?;
    place.configure(NEVER_FULL)?;
    let report = place.run(&["once", "-o", "json"]).await?.json()?;
    check(&serde_json::from_str(SCHEMA)?, &report).map_err(anyhow::Error::msg)?;
    let items = of_kind(&report["result"]["items"], "container");
    let name = items.first().and_then(|item| item["name"].as_str()).context("nothing went")?;
    ensure!(name == "default/web/app", "{report}");
    Ok(())
}

/// On the first pass, every image was first seen just now.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_pass_says_why_no_image_goes_and_with_wait_they_go() -> Result<()> {
    let (server, _directory) = node()?;
    let place = Place::new(server.endpoint())?;
    place.configure(NEVER_FULL)?;
    let config = place.path("config.toml").display().to_string();
    let command = format!("once --all --config {config} --wait` waits 2m for it");
    let why = ["1 unused image (", "stays only because kube-gc first saw it", &*command];
    let plan = place.run(&["plan", "--all"]).await?;
    says(&plan, &why)?;
    let plan = place.run(&["plan", "--all", "--older-than", "24h"]).await?;
    says(
        &plan,
        &[
            "or saw it in use, less than `--older-than` ago",
            &format!("once --all --older-than 1day --config {config} --wait` waits 24h for it"),
        ],
    )?;
    // Who lacks the label would not go even then.
    let plan = place.run(&["plan", "--all", "--label", "a b=1"]).await?;
    says(&plan, &["--label", "its labels are not known", "images stay whose labels"])?;
    ensure!(!plan.stdout.contains("--wait"), "{}", plan.stdout);
    let told = r#"{"imageSpec":{"config":{"Labels":{"a b":"1","c":""}}}}"#;
    let new = NewImage {
        info: Some(told.to_owned()),
        digests: vec!["x/y@sha256:2".to_owned()],
        ..NewImage::default()
    };
    let labelled = server.world(|world| world.add_image(new));
    let plan = place.run(&["plan", "--all", "--label", "a b=1", "--label", "c"]).await?;
    says(&plan, &["1 unused image (0 B) stays", "once --all --label 'a b=1' --label c --config"])?;
    server.world(|world| world.remove_image(&labelled));
    place.run(&["plan", "--label", "=1"]).await?.expect(2, &["it has no key"])?;
    let plan = place.run(&["plan", "--older-than", "24h"]).await?;
    ensure!(!plan.stdout.contains("older-than"), "nothing is due: {}", plan.stdout);
    let once = place.run(&["once", "--free", "99"]).await?;
    once.expect(7, &[])?;
    says(&once, &["Not all that was wanted", "stays only because kube-gc first saw it"])?;
    ensure!(server.calls(Rpc::RemoveImage).is_empty());
    place.configure(&format!("{NEVER_FULL}\nimages.min_age = \"1s\""))?;
    place.run(&["once", "--all", "--wait"]).await?.expect(0, &[])?;
    ensure!(server.calls(Rpc::RemoveImage).len() == 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pattern_of_keep_that_matches_no_image_is_named() -> Result<()> {
    let (server, _directory) = node()?;
    let place = Place::new(server.endpoint())?;
    place.configure("images.keep = [\"old\", \"*/app:1\"]")?;
    let plan = place.run(&["plan"]).await?;
    says(&plan, &["\"old\" in `node.images.keep` matches no image here"])?;
    ensure!(!plan.stdout.contains("*/app:1\" in"), "{}", plan.stdout);
    Ok(())
}
