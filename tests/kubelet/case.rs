//! A random world: what is on a node, what the API server says, what fails, and the settings of both
//! collectors.
//!
//! Both find the same, but the kubelet leaves some things open and does others that are never done
//! here. A world has none of them, so that every difference counts:
//!
//! | left out | why |
//! |---|---|
//! | containers and sandboxes of one age; images detected and last used at the same times | the kubelet sorts by age alone, in no certain order |
//! | a gone pod with a log directory and something that runs | the kubelet removes the logs, kube-gc does not |
//! | fewer than half of the ready sandboxes known to the API server | to kube-gc the node has the wrong name |
//! | no sandbox of a pod that the API server lists | nothing shows kube-gc that the answers are about this node |
//! | a log directory of a gone pod whose name lacks namespace and name, without a sandbox | kube-gc cannot prove that the pod is gone |
//! | files whose names begin with that of a log, without a dot after it | the kubelet removes them with the log |
//! | images in the specs of pods, inodes | kube-gc counts them, 1.20.2 does not |
//! | attempts in another order than times of creation; images without a name | kube-gc goes by attempts first, and removes nameless images first |
//! | containers without labels, images without an id, pinned images, image volumes | 1.20.2 knows none of them |

use std::collections::BTreeMap;
use std::time::Duration;

use kube_gc_cri::Rpc;
use kube_gc_cri::messages::ContainerState;
use kube_gc_cri::server::{Layer, NewContainer, NewImage, NewSandbox, World};
use kube_gc_cri::testing::KubeletRules;
use kube_gc_node::rules::{Limits, Pressure};
use kube_gc_node::testing::{Random, uid};
use kube_gc_node::{Rules, Timestamp};

use super::files::{Files, Logs};
use super::pods::{Pod, PodState};

/// The image of sandboxes, which both protect.
pub const PAUSE: &str = "registry.k8s.io/pause:3.6";
const HOUR: u64 = 3600;

/// A world, and how both collectors are set.
pub struct Case {
    /// The settings of kube-gc.
    pub rules: Rules,
    /// The settings of the kubelet.
    pub kubelet: KubeletRules,
    /// The runtime at earlier times, from which both know the ages of images. The last one is now.
    pub history: Vec<World>,
    /// The pods.
    pub pods: Vec<Pod>,
    /// The logs.
    pub files: Files,
    /// Whether the node is under pressure.
    pub pressure: bool,
    /// Which removals fail: each with what it is about.
    pub faults: Vec<(Rpc, String)>,
}

/// Makes a case.
struct Maker<'a> {
    random: &'a mut Random,
    /// Above all logs.
    root: &'a str,
    now: Timestamp,
    /// How many moments were used, so that no two are the same.
    moments: u64,
    world: World,
    /// The ids of the images.
    images: Vec<String>,
    /// Containers that are only there in history.
    passing: Vec<String>,
    pods: Vec<Pod>,
    logs: Vec<Logs>,
    faults: Vec<(Rpc, String)>,
}

impl Case {
    /// The case of this seed, whose logs are below a directory.
    pub fn random(seed: u64, root: &str, now: Timestamp) -> Self {
        let mut random = Random::new(seed);
        let (rules, kubelet) = settings(&mut random, root);
        let pressure = random.percent(25);
        let mut maker = Maker {
            random: &mut random,
            root,
            now,
            moments: 0,
            world: World::default(),
            images: Vec::new(),
            passing: Vec::new(),
            pods: Vec::new(),
            logs: Vec::new(),
            faults: Vec::new(),
        };
        let history = maker.history();
        let Maker { pods, logs, faults, .. } = maker;
        let mut case = Self {
            rules,
            kubelet,
            history,
            pods,
            files: Files::random(&mut random, root, &logs),
            pressure,
            faults,
        };
        case.fill_disk(&mut random);
        if pressure {
            // The kubelet does not stop when the pressure is off; it never is here.
            case.rules.pressure = Some(Pressure { bytes: 99, inodes: 0 });
        }
        case
    }

    /// The runtime as it is now.
    pub fn world(&self) -> World {
        self.history.last().cloned().unwrap_or_default()
    }

    /// Makes the disk so large that a random share of it is used.
    fn fill_disk(&mut self, random: &mut Random) {
        let Some(world) = self.history.last_mut() else { return };
        let images: u64 = world.images().map(|image| image.size).sum();
        // Under pressure, more than a hundredth stays used in any case.
        let other = images / 10 + 1000 + random.below(20_000);
        world.other = other;
        let used = images + other;
        let percent = 55 + random.below(45);
        world.capacity = (used * 100).div_ceil(percent);
    }
}

fn settings(random: &mut Random, root: &str) -> (Rules, KubeletRules) {
    let mut rules = Rules::default();
    rules.images.keep_local = false;
    rules.limits = Limits { containers: usize::MAX, images: usize::MAX };
    rules.created_grace = Duration::ZERO;
    rules.containers.min_age = Duration::from_secs(random.pick(&[0, 0, HOUR]));
    rules.containers.max_per_container = random.pick(&[Some(0), Some(1), Some(1), Some(2), None]);
    rules.containers.max_total = random.pick(&[None, None, Some(0), Some(1), Some(4), Some(10)]);
    (rules.images.high, rules.images.low) =
        random.pick(&[(85, 80), (85, 80), (60, 10), (90, 89), (75, 0), (100, 50)]);
    rules.images.min_age = Duration::from_secs(random.pick(&[0, 0, 0, HOUR]));
    rules.roots.pods = format!("{root}/var/log/pods");
    rules.roots.containers = format!("{root}/var/log/containers");
    let seconds = |age: Duration| i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
    let limit = |most: Option<usize>| most.and_then(|most| i64::try_from(most).ok()).unwrap_or(-1);
    let kubelet = KubeletRules {
        min_age_seconds: seconds(rules.containers.min_age),
        max_per_container: limit(rules.containers.max_per_container),
        max_total: limit(rules.containers.max_total),
        image_high: rules.images.high.into(),
        image_low: rules.images.low.into(),
        image_min_age_seconds: seconds(rules.images.min_age),
        sandbox_image: PAUSE.to_owned(),
    };
    (rules, kubelet)
}

impl Maker<'_> {
    /// The runtime, step by step. Each step detects one image at most, so that no two images have
    /// been detected at the same time.
    fn history(&mut self) -> Vec<World> {
        let images = self.random.below(7);
        let pods = self.random.below(8);
        let mut history = Vec::new();
        let mut left = pods;
        let (namespace, name, uid) = ("default".to_owned(), "here".to_owned(), uid(pods));
        let here = Pod { namespace, name, uid, state: PodState::Running };
        self.add_sandbox(&here, 0, false);
        self.pods.push(here);
        for step in 0..=images {
            if step < images {
                self.add_image(step);
            }
            let share = if step == images { left } else { self.random.below(left + 1).min(3) };
            for _ in 0..share {
                self.add_pod(pods - left);
                left -= 1;
            }
            if step == images {
                for id in std::mem::take(&mut self.passing) {
                    self.world.remove_container(&id);
                }
                self.keep_the_name_right();
            }
            history.push(self.world.clone());
        }
        history
    }

    fn add_image(&mut self, number: u64) {
        let tags = match self.random.below(6) {
            0 => vec![PAUSE.to_owned()],
            1 => Vec::new(),
            _ => vec![format!("registry.example/app-{number}:1")],
        };
        // A second pause image would be another one with the same name.
        let tags = if self.has_tag(&tags) { Vec::new() } else { tags };
        let digests = match tags.is_empty() || self.random.percent(70) {
            true => vec![format!("registry.example/app-{number}@sha256:{number:064x}")],
            false => Vec::new(),
        };
        let layer = Layer { digest: number.to_string(), bytes: 1 + self.random.below(15_000) };
        let id = self.world.add_image(NewImage { tags, digests, layers: vec![layer], ..NewImage::default() });
        if self.random.percent(10) {
            self.faults.push((Rpc::RemoveImage, id.clone()));
        }
        self.images.push(id);
    }

    fn has_tag(&self, tags: &[String]) -> bool {
        self.world.images().any(|image| image.repo_tags.iter().any(|tag| tags.contains(tag)))
    }

    fn add_pod(&mut self, number: u64) {
        let pod = Pod::random(self.random, number);
        let has_logs = self.random.percent(60);
        // Of a gone pod with logs, nothing runs.
        let at_rest = has_logs && pod.state.is_gone();
        let mut logs = Logs { pod: pod.clone(), containers: BTreeMap::new() };
        for instance in 0..self.random.below(3) {
            let ready = !at_rest && self.random.percent(40);
            let sandbox = self.add_sandbox(&pod, instance, ready);
            for _ in 0..self.random.below(4) {
                self.add_container(&sandbox, at_rest, &mut logs);
            }
        }
        if has_logs {
            self.logs.push(logs);
        }
        self.pods.push(pod);
    }

    fn add_sandbox(&mut self, pod: &Pod, instance: u64, ready: bool) -> String {
        let source = if pod.state == PodState::Static { "file" } else { "api" };
        let annotations = [("kubernetes.io/config.source".to_owned(), source.to_owned())].into();
        let mut new = NewSandbox::of(&pod.namespace, &pod.name, &pod.uid);
        new.pod.attempt = u32::try_from(instance).unwrap_or_default();
        let created_at = self.moment();
        let new = NewSandbox { stopped: !ready, created_at, annotations, ..new };
        let id = self.world.add_sandbox(new);
        match self.random.below(30) {
            0 => self.faults.push((Rpc::StopPodSandbox, id.clone())),
            1 => self.faults.push((Rpc::RemovePodSandbox, id.clone())),
            _ => {}
        }
        id
    }

    fn add_container(&mut self, sandbox: &str, at_rest: bool, logs: &mut Logs) {
        use ContainerState::{ContainerCreated, ContainerExited, ContainerRunning, ContainerUnknown};
        let state = match self.random.below(10) {
            0 => ContainerCreated,
            1 | 2 if !at_rest => ContainerRunning,
            3 if !at_rest => ContainerUnknown,
            _ => ContainerExited,
        };
        let name = self.random.pick(&["app", "sidecar"]);
        let image = match self.images.is_empty() {
            true => "sha256:missing".to_owned(),
            false => self.random.pick(&self.images),
        };
        let instance = u32::try_from(self.moments).unwrap_or_default();
        // Never an empty path: to the kubelet, that would be all files where it runs.
        let log_path = format!("{}/{}", self.root, logs.path_of(name, instance));
        let created_at = self.moment();
        let since = created_at - self.now.minus(Duration::from_secs(2_000_000)).nanos();
        let attempt = u32::try_from(since / 1_000_000_000).unwrap_or_default();
        let id = self.world.add_container(NewContainer {
            sandbox: sandbox.to_owned(),
            name: name.to_owned(),
            attempt,
            image,
            state,
            created_at,
            log_path,
            ..NewContainer::default()
        });
        if self.random.percent(15) {
            self.passing.push(id);
            return;
        }
        logs.containers.insert(id.clone(), (name.to_owned(), instance));
        match self.random.below(20) {
            0 => self.faults.push((Rpc::RemoveContainer, id)),
            1 if state == ContainerUnknown => self.faults.push((Rpc::StopContainer, id)),
            _ => {}
        }
    }

    /// A moment in the past that nothing else has: either far within the last hour, or long before it.
    fn moment(&mut self) -> i64 {
        self.moments += 1;
        let ago = match self.random.percent(40) {
            true => 600 + self.random.below(2000),
            false => 2 * HOUR + self.random.below(1_000_000),
        };
        let moment = self.now.minus(Duration::from_secs(ago));
        moment.nanos() + i64::try_from(self.moments).unwrap_or_default()
    }

    /// Stops sandboxes of gone pods until at least half of the ready ones are known.
    fn keep_the_name_right(&mut self) {
        let gone = |uid: &str| self.pods.iter().any(|pod| pod.uid == uid && !pod.state.is_listed());
        let ready = self.world.sandboxes().filter(|sandbox| sandbox.state == 0);
        let uid = |sandbox: &kube_gc_cri::messages::PodSandbox| {
            sandbox.metadata.as_ref().map(|metadata| metadata.uid.clone()).unwrap_or_default()
        };
        let (unknown, known): (Vec<_>, Vec<_>) =
            ready.map(|sandbox| (sandbox.id.clone(), uid(sandbox))).partition(|(_, uid)| gone(uid));
        for (id, _) in unknown.into_iter().skip(known.len()) {
            self.world.set_ready(&id, false);
        }
    }
}
