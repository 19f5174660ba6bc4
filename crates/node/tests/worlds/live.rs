//! Carries out a plan on a node that goes on living: between the steps, containers start, others
//! remove things, and the runtime fails.

use std::collections::BTreeMap;

use kube_gc_node::pass::{Outcome, PATIENCE_FOR_LAYERS, Pass, Record, Scope, Step};
use kube_gc_node::plan::{Candidate, Target, What};
use kube_gc_node::pressure::Usage;
use kube_gc_node::recheck::Fresh;
use kube_gc_node::rules::Effects;
use kube_gc_node::testing::{Random, World, container};
use kube_gc_node::view::{
    ContainerDisk, ContainerState, Extent, Listed, PodView, SandboxImage, SandboxState, SymlinkState,
};
use kube_gc_node::{Plan, Rule, still_removable};

/// The node, as it is by now.
struct Node {
    world: World,
    usage: Usage,
    /// What the file system shows later, of layers of containers.
    pending: u64,
    wrong: Vec<String>,
    removed: BTreeMap<What, usize>,
}

/// What went wrong while the plan was carried out.
pub fn carry_out(world: &World, plan: &Plan, random: &mut Random) -> Vec<String> {
    let mut pass = Pass::new(plan, Scope::All);
    let usage = world.files.image_usage.unwrap_or_default();
    let mut node =
        Node { world: world.clone(), usage, pending: 0, wrong: Vec::new(), removed: BTreeMap::new() };
    // What lists in slices have not shown is there nevertheless.
    let runtime = &mut node.world.runtime;
    runtime.containers_extent = Extent::Whole;
    runtime.sandboxes_extent = Extent::Whole;
    runtime.images_extent = Extent::Whole;
    let eventful = random.percent(70);
    // Each candidate takes a few steps; a pass that takes more never ends.
    for _ in 0..(10 + 5 * (plan.removals.len() + plan.in_line.len())) {
        match pass.next_step() {
            Step::Done => {
                for (what, removed) in node.removed {
                    let images = if world.rules.all { usize::MAX } else { world.rules.limits.images };
                    let most = if what == What::Image { images } else { world.rules.limits.containers };
                    if removed > most {
                        node.wrong.push(format!("{removed} of {what:?} are removed in one pass"));
                    }
                }
                return node.wrong;
            }
            Step::Remove(candidates) => {
                let is_image = candidates[0].what() == What::Image;
                if is_image && candidates.len() > 1 {
                    node.wrong.push("several images go after one look".to_owned());
                }
                let outcomes = node.remove_all(&candidates, plan, eventful, random);
                // Nothing can be listed.
                if is_image && random.percent(2) {
                    return node.wrong;
                }
                if is_image && !matches!(outcomes[0], Outcome::Refused(_)) {
                    pass.listed(&node.world.runtime.images);
                }
                for (candidate, outcome) in candidates.into_iter().zip(outcomes) {
                    pass.record(Record { candidate, outcome });
                }
            }
            Step::Measure { patience, .. } => {
                if patience == PATIENCE_FOR_LAYERS {
                    // Or the layers free nothing at all.
                    let shown = if random.percent(80) { node.pending } else { 0 };
                    node.pending = 0;
                    node.usage.available =
                        node.usage.available.saturating_add(shown).min(node.usage.capacity);
                }
                let failed = random.percent(3);
                pass.measured((!failed).then_some(node.usage));
            }
        }
    }
    node.wrong.push("the pass does not end".to_owned());
    node.wrong
}

impl Node {
    const fn fresh(&self) -> Fresh<'_> {
        let World { runtime, pods, files, .. } = &self.world;
        Fresh { runtime, pods, files }
    }

    /// Removes candidates at the same time: each is looked at, and something happens, before any of
    /// them goes or after some have gone, as chance has it.
    fn remove_all(
        &mut self,
        candidates: &[Candidate],
        plan: &Plan,
        eventful: bool,
        random: &mut Random,
    ) -> Vec<Outcome> {
        let mut outcomes = vec![None; candidates.len()];
        while outcomes.contains(&None) {
            let index = random.index(candidates.len());
            if outcomes[index].is_some() {
                continue;
            }
            let candidate = &candidates[index];
            if eventful {
                self.live(random);
            }
            outcomes[index] = Some(match still_removable(candidate, &self.fresh()) {
                Err(refusal) => Outcome::Refused(refusal),
                Ok(()) if random.percent(10) => Outcome::Failed("the runtime has failed".to_owned()),
                Ok(()) => {
                    *self.removed.entry(candidate.what()).or_default() += 1;
                    self.remove(candidate, plan, random);
                    Outcome::Removed
                }
            });
        }
        outcomes.into_iter().flatten().collect()
    }

    /// Something happens.
    fn live(&mut self, random: &mut Random) {
        let World { runtime, pods, files, .. } = &mut self.world;
        match random.below(16) {
            0 | 1 => {
                let created = |container: &&mut _| {
                    let container: &kube_gc_node::view::Container = container;
                    container.state == ContainerState::Created
                };
                if let Some(container) = runtime.containers.iter_mut().find(created) {
                    container.state = ContainerState::Running;
                }
            }
            2..=5 if !runtime.images.is_empty() && !runtime.sandboxes.is_empty() => {
                let sandbox = random.pick(&runtime.sandboxes);
                let image = random.pick(&runtime.images);
                let name = format!("late-{}", runtime.containers.len());
                let mut late = container(&name, &sandbox.uid, "app", &image.id);
                late.state = ContainerState::Running;
                late.sandbox_id.clone_from(&sandbox.id);
                late.pod_namespace.clone_from(&sandbox.namespace);
                late.pod_name.clone_from(&sandbox.name);
                runtime.containers.push(late);
            }
            6 if !runtime.sandboxes.is_empty() => {
                let index = random.index(runtime.sandboxes.len());
                runtime.sandboxes[index].state = SandboxState::Ready;
            }
            7 if !runtime.images.is_empty() => {
                let index = random.index(runtime.images.len());
                runtime.images[index].pinned = true;
            }
            8 if !runtime.containers.is_empty() => {
                let index = random.index(runtime.containers.len());
                runtime.containers.remove(index);
            }
            9 if !runtime.images.is_empty() => {
                let index = random.index(runtime.images.len());
                runtime.images.remove(index);
            }
            10 if !files.log_directories.is_empty() => {
                let index = random.index(files.log_directories.len());
                files.log_directories[index].is_directory = false;
            }
            11 if !files.log_symlinks.is_empty() => {
                let index = random.index(files.log_symlinks.len());
                files.log_symlinks[index].state = SymlinkState::Leads;
            }
            12 => {
                if let PodView::Listed(Listed { pods, .. }) = pods {
                    pods.push(kube_gc_node::testing::pod(random.below(6)));
                }
            }
            _ => {}
        }
    }

    /// Removes a candidate, after a look at what is true now.
    fn remove(&mut self, candidate: &Candidate, plan: &Plan, random: &mut Random) {
        let id = candidate.id();
        let World { runtime, rules, files, pods, .. } = &mut self.world;
        let mut wrong =
            |why: &str| self.wrong.push(format!("{:?} {id:?} was removed: {why}", candidate.what()));
        if rules.dry_run || rules.beside_kubelet == Some(Effects::Nothing) {
            wrong("this is a dry run");
        }
        if matches!(candidate.rule, Rule::C3 | Rule::L1)
            && let Target::Container { uid, .. } | Target::LogDirectory { uid, .. } = &candidate.target
            && let PodView::Listed(Listed { pods, .. }) = pods
            && pods.iter().any(|pod| pod.pod.uid == *uid && pod.containers_running && !pod.evicted)
        {
            wrong("its pod is there");
        }
        match &candidate.target {
            Target::Container { stop_first, .. } => {
                match runtime.containers.iter().find(|container| container.id == id).map(|found| found.state)
                {
                    None => wrong("there was none"),
                    Some(ContainerState::Running) => wrong("it was running"),
                    Some(ContainerState::Unknown) if !stop_first => wrong("it was not stopped"),
                    Some(_) => {}
                }
                if files.container_disk == ContainerDisk::OfImages {
                    self.pending = self.pending.saturating_add(candidate.bytes.unwrap_or_default());
                }
                runtime.containers.retain(|container| container.id != id);
            }
            Target::Sandbox { .. } => {
                if runtime.containers.iter().any(|container| container.sandbox_id == id) {
                    wrong("it had containers");
                }
                match runtime.sandboxes.iter().find(|sandbox| sandbox.id == id).map(|found| found.state) {
                    None => wrong("there was none"),
                    Some(SandboxState::Ready) => wrong("it was ready"),
                    Some(SandboxState::NotReady) => {}
                }
                runtime.sandboxes.retain(|sandbox| sandbox.id != id);
            }
            Target::LogDirectory { name, uid } => {
                if !files
                    .log_directories
                    .iter()
                    .any(|directory| directory.name == *name && directory.is_directory)
                {
                    wrong("it was no directory");
                }
                let running = |container: &&_| -> bool { is_running(container, uid) };
                if runtime.containers.iter().any(|container| running(&container)) {
                    wrong("something of its pod was running");
                }
                files.log_directories.retain(|directory| directory.name != *name);
                // What led into it leads nowhere now.
                let inside = format!("{}/{name}/", rules.roots.pods);
                for symlink in &mut files.log_symlinks {
                    if symlink.state == SymlinkState::Leads && symlink.target.starts_with(&inside) {
                        symlink.state = SymlinkState::Dangling;
                    }
                }
            }
            Target::LogSymlink { name } => {
                let state =
                    files.log_symlinks.iter().find(|symlink| symlink.name == *name).map(|found| found.state);
                if state != Some(SymlinkState::Dangling) {
                    wrong("it did not lead nowhere");
                }
                files.log_symlinks.retain(|symlink| symlink.name != *name);
            }
            Target::Image { runtime_handler, .. } => {
                let same = |image: &kube_gc_node::view::Image| {
                    image.id == id && image.runtime_handler == *runtime_handler
                };
                if let Some(image) = runtime.images.iter().find(|image| same(image)) {
                    let names: Vec<&str> = image.names().chain([image.id.as_str()]).collect();
                    let mut refs = runtime.containers.iter().flat_map(|container| &container.image_refs);
                    if refs.any(|reference| names.contains(&reference.as_str())) {
                        wrong("a container used it");
                    }
                    if image.pinned {
                        wrong("it was pinned");
                    }
                    if runtime.sandbox_image == SandboxImage::Named(image.id.clone()) {
                        wrong("it was the image of sandboxes");
                    }
                    let bytes = image.bytes.saturating_mul(random.below(3)) / 2;
                    let reached = plan.goal.is_none_or(|goal| {
                        let available = self.usage.available.saturating_add(self.pending);
                        available >= goal.available && self.usage.inodes_free >= goal.inodes_free
                    });
                    if !matches!(candidate.rule, Rule::I6 | Rule::All) && reached {
                        wrong("enough was free, or soon would be");
                    }
                    self.usage.available =
                        self.usage.available.saturating_add(bytes).min(self.usage.capacity);
                    self.usage.inodes_free = self.usage.inodes_free.saturating_add(5).min(self.usage.inodes);
                }
                runtime.images.retain(|image| !same(image));
            }
        }
    }
}

fn is_running(container: &kube_gc_node::view::Container, uid: &str) -> bool {
    container.pod_uid == uid && container.state == ContainerState::Running
}
