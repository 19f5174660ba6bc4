//! Random worlds: a node with pods, containers, sandboxes, images and logs, ordinary and odd.

use std::time::Duration;

use wildmatch::WildMatch;

use super::{NOW, Random, container, image, log_directory, pod, sandbox, symlink, uid};
use crate::ledger::Age;
use crate::logs::c8_symlink;
use crate::pass::{Outcome, Record};
use crate::plan::{Inputs, Tried};
use crate::pressure::Usage;
use crate::rules::{Effects, Label, Pressure};
use crate::view::{
    Answer, ContainerDisk, ContainerState, Extent, Listed, Phase, Pod, Proof, SandboxImage, SandboxState,
    SymlinkState,
};
use crate::{Files, Ledger, PodRef, PodView, Rules, RuntimeView, Timestamp};

/// A node at one time, with the settings of a collector.
#[derive(Clone, Debug)]
pub struct World {
    /// The runtime.
    pub runtime: RuntimeView,
    /// The API server.
    pub pods: PodView,
    /// The file system.
    pub files: Files,
    /// The ages of images.
    pub ledger: Ledger,
    /// The settings.
    pub rules: Rules,
    /// What earlier passes have tried.
    pub tried: Tried,
    /// The time.
    pub now: Timestamp,
}

/// Text that no runtime should send.
const ODD: &[&str] = &["", "..", "../../etc", "a/b", "\u{1b}[2J", "*", "x y", "\u{0}"];

impl World {
    /// The world of this seed with up to so many pods. About a third are without oddities.
    pub fn random(seed: u64, pods: usize) -> Self {
        let mut random = Random::new(seed);
        let odd = random.percent(66);
        Self::build(&mut random, pods, if odd { 4 } else { 0 })
    }

    /// All of it, for the checks.
    pub const fn inputs(&self) -> Inputs<'_> {
        let Self { runtime, pods, files, ledger, rules, tried, now } = self;
        Inputs { runtime, pods, files, ledger, rules, tried, now: *now }
    }

    /// The plan for it.
    pub fn plan(&self) -> crate::Plan {
        crate::plan(&self.inputs())
    }

    fn build(random: &mut Random, pods: usize, oddity: u64) -> Self {
        let mut world = Self {
            runtime: RuntimeView::default(),
            pods: PodView::None,
            files: Files::default(),
            ledger: Ledger::default(),
            rules: rules(random),
            tried: Tried::default(),
            now: NOW,
        };
        let images = random.index(12);
        for number in 0..images {
            world.add_image(number, random, oddity);
        }
        let mut listed = Listed { consistent: !random.percent(5), ..Listed::default() };
        let pods = random.index(pods + 1) as u64;
        for number in 0..pods {
            world.add_pod(number, &mut listed, random, oddity);
        }
        if random.percent(oddity * 10) {
            world.repeat_ids(random);
        }
        world.pods = match random.below(20) {
            0 | 1 => PodView::None,
            2 => {
                let known = random.percent(50).then_some(listed.pods);
                PodView::Unavailable { why: "no connection".to_owned(), known }
            }
            _ => PodView::Listed(listed),
        };
        let mut slice = || if random.percent(8) { Extent::Slice } else { Extent::Whole };
        let extents = (slice(), slice(), slice());
        (world.runtime.containers_extent, world.runtime.sandboxes_extent, world.runtime.images_extent) =
            extents;
        world.files.image_usage = (!random.percent(5)).then(|| usage(random));
        if random.percent(15) {
            world.files.container_disk = ContainerDisk::Own((!random.percent(20)).then(|| usage(random)));
        }
        if random.percent(10) {
            let labels =
                ["a", "b=1"].map(|label| Label::parse(label).unwrap_or_else(|error| panic!("{error}")));
            world.rules.labels = labels[random.index(2)..].to_vec();
            for image in &mut world.runtime.images {
                let some = labels.iter().filter(|_| random.percent(70)).cloned().collect();
                image.labels = random.percent(80).then_some(some);
            }
        }
        if random.percent(20) {
            let plan = world.plan();
            let some = plan.removals.iter().filter(|_| random.percent(30)).cloned();
            let records = some.map(|candidate| Record { candidate, outcome: Outcome::Failed(String::new()) });
            world.tried.update(&plan, &records.collect::<Vec<_>>());
        }
        world
    }

    fn add_image(&mut self, number: usize, random: &mut Random, oddity: u64) {
        let mut image = image(&format!("i{number}"));
        image.bytes = if random.percent(oddity) { u64::MAX } else { random.below(200) };
        image.pinned = random.percent(10);
        if random.percent(40) {
            image.repo_tags.push(format!("registry.example/team/app-{number}:1"));
        }
        if random.percent(15) {
            image.repo_digests.clear();
        }
        if random.percent(oddity) {
            image.id = random.pick(ODD).to_owned();
        }
        let detected = Duration::from_secs(random.below(8000));
        let used = random.percent(50).then(|| Duration::from_secs(random.below(8000)).min(detected));
        if random.percent(90) {
            self.ledger.set(&image.key(), Age { detected, used });
        }
        for users in [&mut self.runtime.image_volumes, &mut self.runtime.foreign_images] {
            if random.percent(4) {
                users.push(image.id.clone());
            }
        }
        match random.below(100) {
            0..5 => self.runtime.sandbox_image = SandboxImage::Named(image.id.clone()),
            5 => self.runtime.sandbox_image = SandboxImage::Unknown,
            _ => {}
        }
        self.runtime.images.push(image);
    }

    /// A pod in one of the ways in which a pod can be there or not, with what is left of it.
    fn add_pod(&mut self, number: u64, listed: &mut Listed, random: &mut Random, oddity: u64) {
        let mut known = pod(number);
        let mut source = "api";
        for _ in 0..random.below(3) {
            known.images.extend(self.any_image(random));
        }
        match random.below(14) {
            0..=3 => listed.pods.push(known),
            4 => listed.pods.push(Pod { phase: Phase::Succeeded, containers_running: false, ..known }),
            5 => listed.pods.push(Pod { phase: Phase::Failed, evicted: true, ..known }),
            6 => {
                let containers_running = random.percent(50);
                listed.pods.push(Pod { deleting: true, containers_running, ..known });
            }
            7..=9 => listed.proofs.push(Proof { pod: known.pod, answer: Answer::NotFound }),
            10 => {
                let mirror_of = random.percent(50).then(|| uid(number));
                listed.proofs.push(Proof { pod: known.pod, answer: Answer::OtherUid { mirror_of } });
            }
            11 => {
                let answer = random.pick(&[Answer::SameUid, Answer::Forbidden, Answer::Failed]);
                listed.proofs.push(Proof { pod: known.pod, answer });
            }
            12 => {
                // A static pod, with its mirror or without, and an API server that knows nothing.
                source = "file";
                listed.proofs.push(Proof { pod: known.pod.clone(), answer: Answer::NotFound });
                if random.percent(50) {
                    let pod = PodRef { uid: uid(number + 1000), ..known.pod };
                    listed.pods.push(Pod { pod, mirror_of: Some(uid(number)), ..super::pod(number) });
                }
            }
            _ => {}
        }
        for instance in 0..random.below(3) {
            let mut sandbox = sandbox(&format!("s{number}-{instance}"), &uid(number));
            sandbox.attempt = u32::try_from(instance).unwrap_or_default();
            sandbox.state = if random.percent(40) { SandboxState::Ready } else { SandboxState::NotReady };
            sandbox.created_at = ago(random, 9000);
            sandbox.config_source = (source == "file" || random.percent(90)).then(|| source.to_owned());
            if random.percent(oddity) {
                sandbox.uid = random.pick(ODD).to_owned();
            }
            self.runtime.sandboxes.push(sandbox);
        }
        for instance in 0..random.below(6) {
            self.add_container(number, instance, random, oddity);
        }
        if random.percent(60) {
            self.add_logs(number, random, oddity);
        }
    }

    fn add_container(&mut self, number: u64, instance: u64, random: &mut Random, oddity: u64) {
        let name = random.pick(&["app", "sidecar"]);
        let used = self.any_image(random).unwrap_or_else(|| "missing".to_owned());
        let mut container = container(&format!("c{number}-{instance}-0123456789"), &uid(number), name, &used);
        container.sandbox_id = format!("s{number}-{}", random.below(2));
        container.attempt = u32::try_from(random.below(4)).unwrap_or_default();
        container.state = match random.below(10) {
            0 => ContainerState::Created,
            1 | 2 => ContainerState::Running,
            3 => ContainerState::Unknown,
            _ => ContainerState::Exited,
        };
        let oldest = if random.percent(20) { 500 } else { 9000 };
        container.created_at = ago(random, oldest);
        container.layer_bytes = random.percent(30).then(|| random.below(50));
        let directory = format!("/var/log/pods/default_pod-{number}_{}", uid(number));
        container.log_path = random.percent(80).then(|| format!("{directory}/{name}/{instance}.log"));
        if random.percent(oddity) {
            match random.below(6) {
                0 => container.created_at = Timestamp::from_nanos(random.pick(&[0, -1, i64::MIN, i64::MAX])),
                1 => container.pod_uid = random.pick(ODD).to_owned(),
                2 => container.pod_name = random.pick(ODD).to_owned(),
                3 => container.pod_uid = uid(number + 1),
                4 => container.image_refs = vec![random.pick(ODD).to_owned()],
                _ => container.sandbox_id = container.id.clone(),
            }
        }
        if random.percent(oddity * 5) {
            let odd = random.pick(ODD);
            let path = random.pick(&[odd.to_owned(), format!("{directory}/../{odd}"), format!("/etc/{odd}")]);
            container.log_path = Some(path);
        }
        if random.percent(40) {
            let state =
                random.pick(&[SymlinkState::Leads, SymlinkState::Dangling, SymlinkState::NotASymlink]);
            let name = c8_symlink(&container).unwrap_or_else(|| "odd-0123456789.log".to_owned());
            let mut symlink = symlink(&name, state);
            symlink.target = container.log_path.clone().unwrap_or_default();
            self.files.log_symlinks.push(symlink);
        }
        self.runtime.containers.push(container);
    }

    fn add_logs(&mut self, number: u64, random: &mut Random, oddity: u64) {
        let mut directory = log_directory(number);
        directory.modified = ago(random, 2000);
        directory.is_directory = !random.percent(5);
        if random.percent(20) {
            directory.name = uid(number);
        }
        if random.percent(oddity) {
            directory.name = format!("{}_{}", random.pick(ODD), directory.name);
        }
        self.files.log_directories.push(directory);
        if random.percent(20) {
            let name = format!("gone_default_app-{number}0123456789.log");
            self.files.log_symlinks.push(symlink(&name, SymlinkState::Dangling));
        }
    }

    /// One of the names of one of the images.
    fn any_image(&self, random: &mut Random) -> Option<String> {
        if self.runtime.images.is_empty() {
            return None;
        }
        let image = random.pick(&self.runtime.images);
        let names: Vec<String> = image.names().map(str::to_owned).chain([image.id.clone()]).collect();
        Some(random.pick(&names))
    }

    /// Gives some items the ids of others.
    fn repeat_ids(&mut self, random: &mut Random) {
        let RuntimeView { containers, sandboxes, .. } = &mut self.runtime;
        if containers.len() > 1 {
            let (from, to) = (random.index(containers.len()), random.index(containers.len()));
            containers[to].id = containers[from].id.clone();
        }
        if sandboxes.len() > 1 {
            let (from, to) = (random.index(sandboxes.len()), random.index(sandboxes.len()));
            sandboxes[to].id = sandboxes[from].id.clone();
        }
    }
}

fn ago(random: &mut Random, most: u64) -> Timestamp {
    NOW.minus(Duration::from_secs(random.below(most)))
}

fn usage(random: &mut Random) -> Usage {
    let capacity = random.pick(&[0, 1000, 1000, 1000, 1000, u64::MAX]);
    let inodes = random.pick(&[0, 1000, 1000]);
    Usage {
        capacity,
        available: random.below(400),
        inodes,
        inodes_free: if random.percent(70) { inodes / 2 } else { random.below(200) },
    }
}

fn rules(random: &mut Random) -> Rules {
    let mut rules = Rules::default();
    rules.containers.min_age = Duration::from_secs(random.pick(&[0, 0, 60, 3600]));
    rules.containers.max_per_container = random.pick(&[Some(0), Some(1), Some(1), Some(2), None]);
    rules.containers.max_total = random.pick(&[None, None, Some(0), Some(3), Some(10)]);
    (rules.images.high, rules.images.low) = random.pick(&[(85, 80), (85, 80), (60, 10), (100, 90), (1, 0)]);
    rules.images.min_age = Duration::from_secs(random.pick(&[0, 120, 120, 5000]));
    rules.images.max_age = random.pick(&[None, None, Some(100), Some(5000)]).map(Duration::from_secs);
    rules.images.keep_local = random.percent(50);
    if random.percent(30) {
        rules.images.keep.push(WildMatch::new(random.pick(&["*app-1*", "i3", "registry.example/i?@*"])));
    }
    rules.pressure = random.percent(30).then(Pressure::default);
    rules.free = random.percent(15).then_some(50);
    rules.all = random.percent(8);
    rules.older_than = random.percent(8).then_some(Duration::from_secs(2000));
    rules.limits.containers = random.pick(&[1000, 1000, 3]);
    rules.limits.images = random.pick(&[50, 50, 2]);
    rules.beside_kubelet =
        random.pick(&[None, None, Some(Effects::All), Some(Effects::Images), Some(Effects::Nothing)]);
    rules.dry_run = random.percent(10);
    rules
}
