//! I1 to I6: which images go, and in which order.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::containers::duplicates;
use crate::decision::Decision;
use crate::identity::escaped;
use crate::ledger::Record;
use crate::mutation::{self, Mutation};
use crate::pods::is_whole;
use crate::pressure::{self, Goal, Usage};
use crate::reference::{is_short, keys_of_image, keys_of_reference};
use crate::time::words;
use crate::view::{ContainerState, Extent, Image, Listed};
use crate::{Ledger, PodView, Rule, Rules, RuntimeView, Timestamp};
use kube_gc_core::order::sort_indexes_by_key;

/// What uses images (I1, B2): `detectImages` and `handleImageVolumes` in `image_gc_manager.go`.
#[derive(Debug, Default)]
pub struct Users {
    /// Keys of used images, with what uses them.
    used: HashMap<String, User>,
    /// Whether some of them are names without a registry.
    short: bool,
    /// The hints of these keys, as bits. Most keys of images are not among them, and a look here takes
    /// less time than a hash that nobody can predict.
    hints: [u64; 16],
    /// A container that does not say which image it uses: it could be any.
    unclear: Option<String>,
}

/// What uses an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum User {
    /// A container.
    Container(String),
    /// A container mounts it as a volume.
    Volume,
    /// The spec of a pod that is bound to this node (B2).
    Spec(String),
}

impl User {
    const fn rule(&self) -> Rule {
        match self {
            Self::Container(_) | Self::Volume => Rule::I1,
            Self::Spec(_) => Rule::B2,
        }
    }

    fn reason(&self) -> String {
        match self {
            Self::Container(id) => format!("container {} uses it", escaped(id)),
            Self::Volume => "a container mounts it as a volume".to_owned(),
            Self::Spec(pod) => format!("the spec of pod {} names it", escaped(pod)),
        }
    }
}

impl Users {
    /// Everything that uses images.
    #[must_use]
    pub fn of(runtime: &RuntimeView, pods: &PodView) -> Self {
        Self::without(runtime, pods, |_| false, true)
    }

    /// Everything that will use images when some containers, by their index, have gone.
    fn without(
        runtime: &RuntimeView,
        pods: &PodView,
        goes: impl Fn(usize) -> bool,
        spec_images: bool,
    ) -> Self {
        let mut users = Self::default();
        // Most containers share few images.
        let mut seen: HashSet<&str> = HashSet::new();
        for (index, container) in runtime.containers.iter().enumerate() {
            let only_running = mutation::is(Mutation::OnlyRunningUsesImages);
            if goes(index) || (only_running && container.state != ContainerState::Running) {
                continue;
            }
            if container.image_refs.iter().all(String::is_empty) {
                users.unclear = Some(container.id.clone());
            }
            for reference in container.image_refs.iter().filter(|reference| seen.insert(reference)) {
                users.add(reference, || User::Container(container.id.clone()));
            }
        }
        if !mutation::is(Mutation::ForgetImageVolumes) {
            for reference in &runtime.image_volumes {
                users.add(reference, || User::Volume);
            }
        }
        if let (PodView::Listed(Listed { pods, .. }), true) = (pods, spec_images)
            && !mutation::is(Mutation::ForgetSpecs)
        {
            for pod in pods {
                for reference in &pod.images {
                    users.add(reference, || User::Spec(format!("{}/{}", pod.pod.namespace, pod.pod.name)));
                }
            }
        }
        users
    }

    fn add(&mut self, reference: &str, user: impl Fn() -> User) {
        for key in keys_of_reference(reference) {
            self.short |= is_short(&key);
            let (word, bit) = hint(&key);
            self.hints[word] |= bit;
            self.used.entry(key).or_insert_with(&user);
        }
    }

    /// Whether something uses this image.
    #[must_use]
    pub fn uses(&self, image: &Image) -> bool {
        self.user(image).is_some()
    }

    /// What uses this image.
    #[must_use]
    pub fn user(&self, image: &Image) -> Option<&User> {
        let may_be_used = |key: &str| {
            let (word, bit) = hint(key);
            self.hints[word] & bit != 0
        };
        let keys = keys_of_image(image, self.short);
        keys.iter().filter(|key| may_be_used(key)).find_map(|key| self.used.get(key.as_ref()))
    }

    /// A container that does not say which image it uses.
    #[must_use]
    pub fn unclear(&self) -> Option<&str> {
        self.unclear.as_deref()
    }
}

/// The bit of a key among the hints, from its end, where digests and tags differ.
fn hint(key: &str) -> (usize, u64) {
    let end = key
        .bytes()
        .rev()
        .take(8)
        .fold(key.len(), |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
    (end / 64 % 16, 1 << (end % 64))
}

/// The containers that may mount images as volumes, by their indexes: those whose pod has image volumes
/// in its spec, or whose spec is not known. Whoever looks asks them which images these are.
#[must_use]
pub fn i1_may_mount(runtime: &RuntimeView, pods: &PodView) -> Vec<usize> {
    let mut without: HashSet<&str> = HashSet::new();
    if let PodView::Listed(Listed { pods, .. }) = pods {
        for pod in pods.iter().filter(|pod| pod.without_image_volumes) {
            without.insert(&pod.pod.uid);
            without.extend(pod.mirror_of.as_deref());
        }
    }
    without.remove("");
    let containers = runtime.containers.iter().enumerate();
    containers
        .filter(|(_, container)| !without.contains(container.pod_uid.as_str()))
        .map(|(index, _)| index)
        .collect()
}

/// What becomes of the images.
#[derive(Debug)]
pub struct Selection {
    /// About every image, in the order of the view.
    pub decisions: Vec<Decision>,
    /// Whether something uses each image, in the order of the view.
    pub used: Vec<bool>,
    /// The indexes of those that go, in order: first by age, then for space.
    pub removals: Vec<(usize, Purpose)>,
    /// The indexes of those that go next if what goes frees less than it seems.
    pub in_line: Vec<usize>,
}

/// Why an image goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It has been unused for too long (I6).
    Age,
    /// Space is needed.
    Space,
}

/// Everything that decides about images.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// What is there.
    pub runtime: &'a RuntimeView,
    /// What specs name.
    pub pods: &'a PodView,
    /// Ages.
    pub ledger: &'a Ledger,
    /// Settings.
    pub rules: &'a Rules,
    /// The time.
    pub now: Timestamp,
    /// How full the file system is.
    pub usage: Option<&'a Usage>,
    /// What is to be freed.
    pub goal: Option<&'a Goal>,
    /// What the containers of this plan free.
    pub freed_before: u64,
}

/// An image that nothing uses, and that may go.
struct Unused<'a> {
    /// Its index in the view.
    index: usize,
    record: Record,
    key: Cow<'a, str>,
}

/// What the ledger has about an image. One that it does not know was detected just now.
fn recorded(key: &str, ledger: &Ledger, now: Timestamp) -> Record {
    ledger.record(key).unwrap_or(Record { first_detected: now, last_used: None })
}

/// Decides about every image. `goes` says whether a container, by its index, goes before.
#[must_use]
pub fn decide(input: &Input<'_>, goes: impl Fn(usize) -> bool) -> Selection {
    let Input { runtime, pods, ledger, rules, now, .. } = *input;
    let users = Users::without(runtime, pods, goes, rules.additions.spec_images);
    let ambiguous = duplicates(runtime.images.iter().map(|image| image.id.as_str()));
    let whole =
        is_whole(runtime) && (runtime.images_extent == Extent::Whole || mutation::is(Mutation::TrustSlices));
    let is_pinning = runtime.images.iter().any(|image| image.pinned);
    let sandbox_image: Vec<String> = match &runtime.sandbox_image {
        Some(reference) if !is_pinning => keys_of_reference(reference),
        _ => Vec::new(),
    };
    let (no_goal, reason) = pressure::no_goal(input.usage, rules);
    let min_age = words(rules.images.min_age);
    let young = Decision::keep(Rule::I5, format!("it was detected less than {min_age} ago"));
    let mut used = Vec::with_capacity(runtime.images.len());
    let mut decisions = Vec::with_capacity(runtime.images.len());
    let mut candidates = Vec::new();
    for (index, image) in runtime.images.iter().enumerate() {
        let user = users.user(image);
        used.push(user.is_some());
        if let Some(user) = user {
            decisions.push(Decision::keep(user.rule(), user.reason()));
            continue;
        }
        let key = image.key();
        let record = recorded(&key, ledger, now);
        let kept = if whole {
            unusable(image, &users, &ambiguous)
                .or_else(|| i2(image))
                .or_else(|| b5(image, rules, &sandbox_image))
                .or_else(|| i5_is_young(record, input).then(|| young.clone()))
        } else {
            Some(Decision::keep(Rule::B1, "images wait for whole lists"))
        };
        decisions.push(kept.unwrap_or_else(|| {
            candidates.push(Unused { index, record, key });
            Decision::keep(no_goal, reason.clone())
        }));
    }
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    sort_indexes_by_key(&mut order, |place| i3(&candidates[place]));
    let candidates = order.into_iter().map(|place| &candidates[place]).collect();
    let mut selection = Selection { decisions, used, removals: Vec::new(), in_line: Vec::new() };
    let candidates = i6(candidates, input, &mut selection);
    for_space(&candidates, input, &mut selection);
    selection
}

/// Images of which the runtime says too little, or nonsense, to judge them.
fn unusable(image: &Image, users: &Users, ambiguous: &HashSet<&str>) -> Option<Decision> {
    let keep = |reason: String| Some(Decision::keep(Rule::Safety1, reason));
    if image.id.is_empty() {
        return keep("it has no id".to_owned());
    }
    if ambiguous.contains(image.id.as_str()) && image.runtime_handler.is_none() {
        return keep("another image has the same id".to_owned());
    }
    let container = users.unclear()?;
    keep(format!("container {} does not say which image it uses", escaped(container)))
}

/// I2, `imagesInEvictionOrder` in `image_gc_manager.go`: pinned images stay.
fn i2(image: &Image) -> Option<Decision> {
    (image.pinned && !mutation::is(Mutation::PinnedMayGo))
        .then(|| Decision::keep(Rule::I2, "the runtime has pinned it"))
}

/// B5: what `keep` names, what could not be pulled again, and what sandboxes need.
fn b5(image: &Image, rules: &Rules, sandbox_image: &[String]) -> Option<Decision> {
    let names = || image.names().chain([image.id.as_str()]);
    if let Some(glob) = rules.images.keep.iter().find(|glob| names().any(|name| glob.matches(name))) {
        return Some(Decision::keep(Rule::B5, format!("`keep` has {:?}", glob.as_str())));
    }
    if rules.images.keep_local && !image.has_repo_digest() {
        return Some(Decision::keep(Rule::B5, "no registry has it under a digest, so it may not come back"));
    }
    let is_of_sandboxes = |key: &str| sandbox_image.iter().any(|other| other == key);
    if !sandbox_image.is_empty() && keys_of_image(image, true).iter().any(|key| is_of_sandboxes(key)) {
        return Some(Decision::keep(Rule::B5, "it is the image of sandboxes"));
    }
    None
}

/// I5, `freeSpace` in `image_gc_manager.go`: an image stays for `min_age` after its detection.
fn i5_is_young(record: Record, input: &Input<'_>) -> bool {
    let is_old = record.first_detected.is_older_than(input.rules.images.min_age, input.now);
    !is_old && !mutation::is(Mutation::YoungImagesMayGo)
}

/// I3, `byLastUsedAndDetected` in `image_gc_manager.go`: least recently used first, never used before
/// all others, then first detected. What it leaves open, the key decides.
fn i3<'a>(image: &'a Unused<'_>) -> (Option<Timestamp>, Timestamp, &'a str) {
    (image.record.last_used, image.record.first_detected, &image.key)
}

/// How long an image has been unused: since the later of its detection and its last use (B8).
fn unused_for(record: Record, now: Timestamp) -> Duration {
    let since = record.last_used.map_or(record.first_detected, |used| used.max(record.first_detected));
    since.age(now).unwrap_or_default()
}

/// I6, `freeOldImages` in `image_gc_manager.go`: what has been unused for more than `max_age` goes,
/// whatever the usage. Returns the others.
fn i6<'a>(
    mut candidates: Vec<&'a Unused<'a>>,
    input: &Input<'_>,
    selection: &mut Selection,
) -> Vec<&'a Unused<'a>> {
    let Some(max_age) = input.rules.images.max_age else { return candidates };
    candidates.retain(|image| {
        let is_old = unused_for(image.record, input.now) > max_age;
        if is_old {
            let reason = format!("unused for more than {}", words(max_age));
            selection.decisions[image.index] = Decision::remove(Rule::I6, reason);
            selection.removals.push((image.index, Purpose::Age));
        }
        !is_old
    });
    candidates
}

/// I4, P1 and `--free`: in order, until the goal seems to be reached. How much really gets free
/// shows when it is measured after each removal (B3), so the others stay in line.
fn for_space(candidates: &[&Unused<'_>], input: &Input<'_>, selection: &mut Selection) {
    let (Some(goal), Some(usage)) = (input.goal, input.usage) else { return };
    let images = &input.runtime.images;
    let by_age: u64 = selection
        .removals
        .iter()
        .map(|&(index, _)| images[index].bytes)
        .fold(input.freed_before, u64::saturating_add);
    let mut freed = by_age;
    for &&Unused { index, record, .. } in candidates {
        let seems_reached = goal.is_reached(&estimate(usage, freed));
        if seems_reached {
            let reason = format!("unused; what goes before it seems to be enough for {}", goal.rule);
            selection.decisions[index] = Decision::keep(goal.rule, reason);
            selection.in_line.push(index);
        } else {
            let reason = format!("unused{}", since_when(record, input.now));
            selection.decisions[index] = Decision::remove(goal.rule, reason);
            selection.removals.push((index, Purpose::Space));
            freed = freed.saturating_add(images[index].bytes);
        }
    }
}

/// How full the file system seems to be when so many bytes have been freed. How many inodes
/// an image has is not known, so each byte is taken to have as many as on average.
fn estimate(usage: &Usage, freed: u64) -> Usage {
    let used_inodes = usage.inodes.saturating_sub(usage.inodes_free);
    let inodes = u128::from(used_inodes) * u128::from(freed) / u128::from(usage.used().max(1));
    let inodes = u64::try_from(inodes).unwrap_or(u64::MAX).min(used_inodes);
    Usage {
        available: usage.available.saturating_add(freed).min(usage.capacity),
        inodes_free: usage.inodes_free.saturating_add(inodes),
        ..*usage
    }
}

fn since_when(record: Record, now: Timestamp) -> String {
    match record.last_used {
        Some(used) => {
            let seconds = used.age(now).unwrap_or_default().as_secs();
            format!(" for {}", words(Duration::from_secs(seconds)))
        }
        None => " since it was detected".to_owned(),
    }
}

#[cfg(test)]
mod tests;
