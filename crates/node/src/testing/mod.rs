//! What tests build worlds with.

#![allow(clippy::missing_panics_doc, reason = "only tests call this")]

mod options;
mod random;
mod world;

use std::time::Duration;

pub use options::Options;
pub use random::Random;
pub use world::World;

use crate::view::{
    Answer, Container, ContainerState, Image, Listed, LogDirectory, LogSymlink, Phase, Pod, Proof, Sandbox,
    SandboxState, SymlinkState,
};
use crate::{Files, PodRef, PodView, RuntimeView, Timestamp};

/// When tests take place.
pub const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

/// The uid of the pod with this number, as the API server gives them.
pub fn uid(pod: u64) -> String {
    format!("{pod:08x}-0000-4000-8000-000000000000")
}

/// A pod of this number that is running.
pub fn pod(number: u64) -> Pod {
    let pod = PodRef::new("default", &format!("pod-{number}"), &uid(number));
    Pod { pod, phase: Phase::Running, containers_running: true, ..Pod::default() }
}

/// The name of the pod that has this uid, if [`uid`] has made it.
fn name_of(uid: &str) -> String {
    let number = uid.get(..8).and_then(|hex| u64::from_str_radix(hex, 16).ok());
    number.map_or_else(|| "static-pod".to_owned(), |number| format!("pod-{number}"))
}

/// An exited container that was created an hour ago.
pub fn container(id: &str, uid: &str, name: &str, image: &str) -> Container {
    Container {
        id: id.to_owned(),
        sandbox_id: format!("sandbox of {uid}"),
        name: name.to_owned(),
        pod_uid: uid.to_owned(),
        pod_namespace: "default".to_owned(),
        pod_name: name_of(uid),
        attempt: 0,
        state: ContainerState::Exited,
        created_at: NOW.minus(Duration::from_secs(3600)),
        image_refs: vec![image.to_owned()],
        log_path: None,
        layer_bytes: None,
    }
}

/// A ready sandbox that was created an hour ago.
pub fn sandbox(id: &str, uid: &str) -> Sandbox {
    Sandbox {
        id: id.to_owned(),
        uid: uid.to_owned(),
        namespace: "default".to_owned(),
        name: name_of(uid),
        attempt: 0,
        state: SandboxState::Ready,
        created_at: NOW.minus(Duration::from_secs(3600)),
        config_source: Some("api".to_owned()),
    }
}

/// An image that can be pulled again.
pub fn image(id: &str) -> Image {
    Image {
        id: id.to_owned(),
        repo_digests: vec![format!("registry.example/{id}@sha256:{id}")],
        bytes: 100,
        ..Image::default()
    }
}

/// The log directory of the pod with this number, unchanged for an hour.
pub fn log_directory(number: u64) -> LogDirectory {
    LogDirectory {
        name: format!("default_pod-{number}_{}", uid(number)),
        is_directory: true,
        bytes: 10,
        modified: NOW.minus(Duration::from_secs(3600)),
    }
}

/// A symlink to a log.
pub fn symlink(name: &str, state: SymlinkState) -> LogSymlink {
    LogSymlink { name: name.to_owned(), state, target: String::new() }
}

/// No files.
pub fn files() -> Files {
    Files::default()
}

/// A consistent list of pods.
pub fn listed(pods: Vec<Pod>, proofs: Vec<Proof>) -> PodView {
    PodView::Listed(Listed { pods, consistent: true, proofs })
}

/// A list with these answers, and with a pod that runs here: it confirms that they are about this node.
pub fn confirmed(runtime: &mut RuntimeView, proofs: Vec<Proof>) -> PodView {
    let here = pod(1 << 31);
    runtime.sandboxes.push(sandbox("here", &here.pod.uid));
    listed(vec![here], proofs)
}

/// An answer about the pod with this number.
pub fn proof(number: u64, answer: Answer) -> Proof {
    Proof { pod: pod(number).pod, answer }
}
