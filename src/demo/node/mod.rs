//! `kube-gc demo --node`: a container runtime with a full disk, an API server and node collection in
//! one process. There are three scenarios: what would be removed, and why; an image that is used
//! between the plan and its removal; and a disk that is full of something else.

mod host;

use std::collections::BTreeSet;

use kube_gc_cri::Rpc;
use kube_gc_cri::messages::ContainerState;
use kube_gc_cri::server::{Effect, Fault, NewContainer, World};
use kube_gc_node::pass::Outcome;
use kube_gc_node::plan::Plan;
use serde_json::{Value, json};

use super::output::{Format, Output, READING_PAUSE, Styled, TITLE, checked, heading};
use crate::app::process::{block_on, termination, unmarked};
use crate::app::{Error, ErrorKind};
use crate::node::{PassResult, Report};
use host::{GIB, Host, IMAGES, LATE, OTHER};

/// A plan, or what came of it, for people.
type Text = fn(&Report) -> String;

/// Runs the demo of node collection.
///
/// # Errors
/// The demo cannot start, or a scenario does not end as expected.
pub fn run(format: Format, text: Text) -> Result<(), Error> {
    block_on(1, unmarked, |_| demo(format, text))?
}

async fn demo(format: Format, text: Text) -> Result<(), Error> {
    let terminated = termination()?;
    let output = Output::new(format);
    let result = tokio::select! {
        biased;
        _ = terminated => return Ok(()),
        result = play(&output, text) => result,
    };
    output.end(result.as_ref().map_err(String::clone));
    result.map_err(|error| Error::new(ErrorKind::Internal, error))
}

/// A scenario.
struct Scenario {
    /// The identifier in JSON.
    name: &'static str,
    title: &'static str,
    about: &'static str,
    /// What happens before the collector looks.
    prepare: fn(&Host),
    /// What has come of it, in sentences; an error if that is not as it must be.
    verify: fn(&Host, &Plan, &PassResult) -> Result<Vec<String>, String>,
}

const SCENARIOS: [Scenario; 3] = [
    Scenario {
        name: "full_disk",
        title: "plan: what goes, what stays, and why",
        about: "The disk of the images is fuller than `high`. Two containers of pod web have crashed \
                and were replaced, pod checkout-old is gone from the API server, and pod cart is about to \
                start. Nothing is removed until the plan is carried out.",
        prepare: |_| {},
        verify: |host, plan, pass| {
            let planned: BTreeSet<&str> = plan.removed().map(|entry| entry.id.as_str()).collect();
            let removed = pass.items.iter().filter(|item| item.outcome == Outcome::Removed);
            let removed: BTreeSet<&str> = removed.map(|item| item.candidate.id()).collect();
            must(planned == removed, "something else went than the plan has said")?;
            must(host.percent() <= 80, "the disk is still too full")?;
            must(!host.has_logs("checkout-old"), "the logs of a pod that is gone are there")?;
            Ok(vec![
                format!("exactly what the plan has said is gone, {} items", removed.len()),
                format!("the disk is {} % full", host.percent()),
            ])
        },
    },
    Scenario {
        name: "late_use",
        title: "a container starts after the plan was made",
        about: "Something has written 12 GiB, and images have to go again. The plan is right when it is \
                made. Then a container of the first image in it starts. Containers are listed again \
                right before images go, so the image stays, and the plan has no more to offer.",
        prepare: |host| {
            set_other(host, OTHER + 12 * GIB);
            host.runtime.clear_journal();
            let image = host.images.get(LATE).cloned().unwrap_or_default();
            // The first list is for the plan, the next one is right before images go.
            let start = move |world: &mut World, _: &str| start_container(world, &image);
            host.runtime.fault(Fault::nth(Rpc::ListContainers, 2, Effect::before(start)));
        },
        verify: |host, _, pass| {
            must(host.has_image(LATE), "an image that a container uses is gone")?;
            let late = pass.items.iter().find(|item| item.candidate.name == LATE);
            let why = late.and_then(|item| item.outcome.reason());
            let why = why.ok_or("the image was not refused")?;
            Ok(vec![format!("image {LATE} stays: {why}")])
        },
    },
    Scenario {
        name: "not_enough",
        title: "the disk is full of something else",
        about: "Logs or volumes fill the same disk. No image that may go is left, and the pass says \
                what fills the disk and which rule keeps what.",
        prepare: |host| {
            host.runtime.clear_faults();
            set_other(host, OTHER + 20 * GIB);
        },
        verify: |_, _, pass| {
            must(pass.removed == 0, "something was removed that should stay")?;
            must(pass.missing_bytes > 0, "enough is free")?;
            Ok(vec![
                "nothing was removed; `kube-gc node once` would end with exit code 7, and `run` would write \
                 the event FreeDiskSpaceFailed"
                    .to_owned(),
            ])
        },
    },
];

async fn play(output: &Output, text: Text) -> Result<(), String> {
    let mut host = Host::set_up().await?;
    let overview = host.overview();
    output.text(&begin(&overview));
    output.event("node", &json!({ "node": overview }));
    output.pause(2 * READING_PAUSE).await;
    for (number, Scenario { name, title, about, prepare, verify }) in (1..).zip(SCENARIOS) {
        output.text(&heading(number, SCENARIOS.len(), title, about));
        output.pause(READING_PAUSE).await;
        prepare(&host);
        let look = host.look().await?;
        let report = host.report(&look);
        output.text(&format!("\n{}", text(&report)));
        output.event("plan", &json!({ "scenario": number, "name": name, "report": report }));
        output.pause(2 * READING_PAUSE).await;
        let pass = host.carry_out(&look).await?;
        let mut verified = vec![nothing_running_was_touched(&host)?, kept_images_are_there(&host)?];
        verified.extend(verify(&host, &look.plan, &pass)?);
        let report = report.with(pass);
        output.text(&format!("\n{}\n{}", text(&report), checked(&verified)));
        let pass = json!({ "scenario": number, "name": name, "report": report, "verified": verified });
        output.event("pass", &pass);
        output.pause(READING_PAUSE).await;
    }
    Ok(())
}

/// What is on the disk apart from images and containers.
fn set_other(host: &Host, bytes: u64) {
    host.runtime.world(|world| world.other = bytes);
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
        created_at: crate::node::now().wall.nanos(),
        ..NewContainer::default()
    });
}

fn nothing_running_was_touched(host: &Host) -> Result<String, String> {
    // The calls that could have.
    let calls = [Rpc::RemoveContainer, Rpc::StopContainer].map(|rpc| host.runtime.calls(rpc));
    let touched: BTreeSet<String> = calls.into_iter().flatten().collect();
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

fn begin(overview: &Value) -> String {
    let of = |field: &str| &overview[field];
    format!(
        "{}\n\
         A container runtime, a Kubernetes API server and node collection, all in this process.\n\n  \
           {} pods, {} containers, {} sandboxes, {} images\n  \
           The disk of the images is {} % full. Images go from {} % on, down to {} %.\n",
        Styled(TITLE, "kube-gc demo --node"),
        of("pods"),
        of("containers"),
        of("sandboxes"),
        of("images"),
        of("percent"),
        of("high"),
        of("low"),
    )
}
