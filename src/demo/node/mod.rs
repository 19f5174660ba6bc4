//! `kube-gc demo --node`: a container runtime with a full disk, an API server and node collection in
//! one process. There are three scenarios: what would be removed, and why; an image that is used
//! between the plan and its removal; and a disk that is full of something else.

mod host;
mod output;

use std::collections::BTreeSet;

use kube_gc_cri::Rpc;
use kube_gc_cri::messages::ContainerState;
use kube_gc_cri::server::{Effect, Fault, NewContainer, Space, World};
use serde_json::json;

use super::output::{Format, Output, READING_PAUSE, heading};
use crate::app::{Error, ErrorKind, block_on_one_runtime, termination};
use host::{GIB, Host, IMAGES, LATE, OTHER};
use output::{Pass, Plan};

/// Runs the demo of node collection.
///
/// # Errors
/// The demo cannot start, or a scenario does not end as expected.
pub fn run(format: Format) -> Result<(), Error> {
    block_on_one_runtime(demo(format))?
}

async fn demo(format: Format) -> Result<(), Error> {
    let terminated = termination()?;
    let output = Output::new(format);
    let result = tokio::select! {
        biased;
        _ = terminated => return Ok(()),
        result = play(&output) => result,
    };
    output.end(result.as_ref().map_err(String::clone));
    result.map_err(|error| Error::new(ErrorKind::Internal, error))
}

async fn play(output: &Output) -> Result<(), String> {
    let mut host = Host::set_up().await?;
    let overview = host.overview();
    output.text(|| output::begin(&overview));
    output.event("node", &json!({ "node": overview }));
    output.pause(2 * READING_PAUSE).await;
    for (number, scenario) in (1..).zip(Scenario::ALL) {
        let (name, title, about) = scenario.texts();
        output.text(|| heading(number, Scenario::ALL.len(), title, about));
        output.pause(READING_PAUSE).await;
        scenario.prepare(&host);
        let (plan, look) = host.look().await?;
        output.text(|| output::plan(&plan));
        let mut line = json!(plan);
        line["scenario"] = number.into();
        line["name"] = name.into();
        output.event("plan", &line);
        output.pause(2 * READING_PAUSE).await;
        let pass = host.carry_out(&look).await?;
        let verified = scenario.verify(&host, &plan, &pass)?;
        output.text(|| output::pass(&pass, &verified));
        output
            .event("pass", &json!({ "scenario": number, "name": name, "pass": pass, "verified": verified }));
        output.pause(READING_PAUSE).await;
    }
    Ok(())
}

/// A scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scenario {
    /// The disk is full, and a plan is carried out.
    FullDisk,
    /// An image begins to be used between the plan and its removal.
    LateUse,
    /// The disk is full of something else.
    NotEnough,
}

impl Scenario {
    /// All of them, in their order.
    const ALL: &[Self] = &[Self::FullDisk, Self::LateUse, Self::NotEnough];

    /// The name in JSON, the title, and what it is about.
    const fn texts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::FullDisk => (
                "full_disk",
                "plan: what goes, what stays, and why",
                "The disk of the images is fuller than `high`. Two containers of pod web have crashed \
                 and were replaced, pod checkout-old is gone from the API server, and pod cart is about to \
                 start. Nothing is removed until the plan is carried out.",
            ),
            Self::LateUse => (
                "late_use",
                "a container starts after the plan was made",
                "Something has written 12 GiB, and images have to go again. The plan is right when it is \
                 made. Then a container of the first image in it starts. Containers are listed again \
                 right before images go, so the image stays, and the plan has no more to offer.",
            ),
            Self::NotEnough => (
                "not_enough",
                "the disk is full of something else",
                "Logs or volumes fill the same disk. No image that may go is left, and the pass says \
                 what fills the disk and which rule keeps what.",
            ),
        }
    }

    /// What happens before the collector looks.
    fn prepare(self, host: &Host) {
        let other = |bytes: u64| {
            host.runtime().world(|world| world.disk.other = Space { bytes, inodes: 0 });
        };
        match self {
            Self::FullDisk => {}
            Self::LateUse => {
                other(OTHER + 12 * GIB);
                host.runtime().clear_journal();
                let image = host.image(LATE).unwrap_or_default().to_owned();
                // The first list is for the plan, the next one is right before images go.
                let start = move |world: &mut World, _: &str| start_container(world, &image);
                host.runtime().fault(Fault::nth(Rpc::ListContainers, 2, Effect::before(start)));
            }
            Self::NotEnough => {
                host.runtime().clear_faults();
                other(OTHER + 20 * GIB);
            }
        }
    }

    /// What has come of it, in sentences; an error if that is not as it must be.
    fn verify(self, host: &Host, plan: &Plan, pass: &Pass) -> Result<Vec<String>, String> {
        let mut verified = vec![nothing_running_was_touched(host)?, kept_images_are_there(host)?];
        let planned: BTreeSet<&str> =
            plan.items.iter().filter(|item| item.removes).map(|item| item.id.as_str()).collect();
        let removed = pass.removals.iter().filter(|removal| removal.outcome == "removed");
        let removed: BTreeSet<&str> = removed.map(|removal| removal.id.as_str()).collect();
        match self {
            Self::FullDisk => {
                must(planned == removed, "something else went than the plan has said")?;
                must(pass.percent <= 80, "the disk is still too full")?;
                must(!host.has_logs("checkout-old"), "the logs of a pod that is gone are there")?;
                verified.push(format!("exactly what the plan has said is gone, {} items", removed.len()));
                verified.push(format!("the disk is {} % full", pass.percent));
            }
            Self::LateUse => {
                must(host.has_image(LATE), "an image that a container uses is gone")?;
                let refused = pass.removals.iter().find(|removal| removal.name == LATE);
                let why = refused
                    .and_then(|removal| removal.reason.as_deref())
                    .ok_or("the image was not refused")?;
                verified.push(format!("image {LATE} stays: {why}"));
            }
            Self::NotEnough => {
                must(removed.is_empty(), "something was removed that should stay")?;
                must(pass.missing_bytes > 0, "enough is free")?;
                verified.push(
                    "nothing was removed; `kube-gc node once` would end with exit code 7, and `run` would write \
                     the event FreeDiskSpaceFailed"
                        .to_owned(),
                );
            }
        }
        Ok(verified)
    }
}

/// A container of the pod web, from another image.
fn start_container(world: &mut World, image: &str) {
    let sandbox = world.sandboxes().find(|sandbox| sandbox.state == 0).map(|sandbox| sandbox.id.clone());
    world.add_container(NewContainer {
        sandbox: sandbox.unwrap_or_default(),
        name: "checkout".to_owned(),
        attempt: 0,
        image: image.to_owned(),
        state: ContainerState::ContainerRunning,
        created_at: crate::node::now().nanos(),
        ..NewContainer::default()
    });
}

fn nothing_running_was_touched(host: &Host) -> Result<String, String> {
    // The calls that could have.
    let touched: BTreeSet<String> = [Rpc::RemoveContainer, Rpc::StopContainer]
        .into_iter()
        .flat_map(|rpc| host.runtime().calls(rpc))
        .collect();
    let running = host.running();
    must(!running.is_empty(), "nothing runs any more")?;
    must(!running.iter().any(|id| touched.contains(id)), "a running container was touched")?;
    let count = running.len();
    Ok(format!("all that ran still runs: {count} container{}", if count == 1 { "" } else { "s" }))
}

fn kept_images_are_there(host: &Host) -> Result<String, String> {
    // Pinned, without a digest, kept by name, named by a pod's spec, or young.
    let keeps = IMAGES.iter().filter(|image| {
        image.pinned || !image.from_registry || image.name.contains("/base/") || image.detected <= 1
    });
    let mut count = 0;
    for image in keeps {
        must(host.has_image(image.name), &format!("the image {} is gone", image.name))?;
        count += 1;
    }
    Ok(format!("{count} unused images that should stay are there"))
}

fn must(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}
