//! What happens on the node, and what must have come of it.

use std::collections::BTreeSet;

use kube_gc_cri::Rpc;
use kube_gc_cri::messages::ContainerState;
use kube_gc_cri::server::{Effect, Fault, NewContainer, Space, World};

use super::fixtures::{GIB, IMAGES, LATE, OTHER};
use super::host::Host;
use super::report::{Pass, Plan};

/// A scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// The disk is full, and a plan is carried out.
    FullDisk,
    /// An image begins to be used between the plan and its removal.
    LateUse,
    /// The disk is full of something else.
    NotEnough,
}

impl Scenario {
    /// All of them, in their order.
    pub const ALL: &[Self] = &[Self::FullDisk, Self::LateUse, Self::NotEnough];

    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FullDisk => "full_disk",
            Self::LateUse => "late_use",
            Self::NotEnough => "not_enough",
        }
    }

    pub const fn title(self) -> &'static str {
        match self {
            Self::FullDisk => "plan: what goes, what stays, and why",
            Self::LateUse => "a container starts after the plan was made",
            Self::NotEnough => "the disk is full of something else",
        }
    }

    pub const fn about(self) -> &'static str {
        match self {
            Self::FullDisk => {
                "The disk of the images is fuller than `high`. Two containers of pod web have crashed \
                 and were replaced, pod checkout-old is gone from the API server, and pod cart is about to \
                 start. Nothing is removed until the plan is carried out."
            }
            Self::LateUse => {
                "Something has written 12 GiB, and images have to go again. The plan is right when it is \
                 made. Then a container of the first image in it starts. Containers are listed again \
                 right before images go, so the image stays, and the plan has no more to offer."
            }
            Self::NotEnough => {
                "Logs or volumes fill the same disk. No image that may go is left, and the pass says \
                 what fills the disk and which rule keeps what."
            }
        }
    }

    /// What happens before the collector looks.
    pub fn prepare(self, host: &Host) {
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
    pub fn verify(self, host: &Host, plan: &Plan, pass: &Pass) -> Result<Vec<String>, String> {
        let mut verified = vec![nothing_running_was_touched(host)?, kept_images_are_there(host)?];
        let planned: Vec<&str> =
            ids(plan.items.iter().filter(|item| item.removes).map(|item| item.id.as_str()));
        let removed = pass.removals.iter().filter(|removal| removal.outcome == "removed");
        let removed: Vec<&str> = ids(removed.map(|removal| removal.id.as_str()));
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
        image_volumes: Vec::new(),
        log_path: String::new(),
        written: Space::default(),
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

fn ids<'a>(ids: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut ids: Vec<&str> = ids.collect();
    ids.sort_unstable();
    ids
}

fn must(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}
