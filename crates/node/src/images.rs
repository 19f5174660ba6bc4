//! I1 to I6: which images go, and in which order.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::time::Duration;

use wildmatch::WildMatch;

use crate::ledger::Age;
use crate::mutation::{self, Mutation};
use crate::plan::{Inputs, What, Young};
use crate::pods::{Pods, is_whole};
use crate::pressure::{self, Goal, Usage};
use crate::rule::{Decision, escaped, words};
use crate::users::{Users, has_key, keys_of_reference};
use crate::view::{Extent, Image, SandboxImage, duplicates};
use crate::{PodView, Rule, Rules, RuntimeView};

/// What becomes of the images.
#[derive(Debug)]
pub struct Selection {
    /// About every image, in the order of the view.
    pub decisions: Vec<Decision>,
    /// The indexes of those that go, in order: first by age (I6), then for space.
    pub removals: Vec<usize>,
    /// The indexes of those that go next if what goes frees less than it seems.
    pub in_line: Vec<usize>,
    /// Those that only their age keeps, and that would go now.
    pub young: Option<Young>,
}

/// An image that nothing uses, and that may go.
struct Unused<'a> {
    /// Its index in the view.
    index: usize,
    age: Age,
    key: Cow<'a, str>,
    /// Whether an earlier pass could not remove it.
    has_failed: bool,
    has_name: bool,
}

/// Decides about every image, to reach a goal. `goes` says whether a container, by its index, goes before, and
/// `freed_before` how many bytes these free.
pub fn decide(
    inputs: &Inputs<'_>,
    goal: Option<&Goal>,
    freed_before: u64,
    goes: impl Fn(usize) -> bool,
) -> Selection {
    let Inputs { runtime, pods, files, ledger, rules, tried, .. } = *inputs;
    let users = Users::without(runtime, pods, goes);
    let unread = b2(inputs);
    let ambiguous = duplicates(runtime.images.iter().map(|image| image.id.as_str()));
    let whole =
        is_whole(runtime) && (runtime.images_extent == Extent::Whole || mutation::is(Mutation::TrustSlices));
    let sandbox_image = match &runtime.sandbox_image {
        SandboxImage::Named(reference) => keys_of_reference(reference),
        SandboxImage::None | SandboxImage::Unknown => Vec::new(),
    };
    let (no_goal, reason) = pressure::no_goal(files.image_usage.as_ref(), rules);
    let mut decisions = Vec::with_capacity(runtime.images.len());
    let mut candidates = Vec::new();
    let mut too_young_ones = Vec::new();
    for (index, image) in runtime.images.iter().enumerate() {
        if let Some((rule, reason)) = users.user(image) {
            decisions.push(Decision::keep(*rule, reason.clone()));
            continue;
        }
        let key = image.key();
        // One that the ledger does not know was detected just now.
        let age = ledger.age(&key).unwrap_or_default();
        // Without that, more than its age keeps it.
        let goes_anyway = rules.all || is_old(age, rules);
        let is_due = goal.is_some() || goes_anyway;
        let kept = if whole {
            unusable(image, &users, &ambiguous)
                .or_else(|| i2(image))
                .or_else(|| unread.clone())
                .or_else(|| b5(image, runtime, rules, &sandbox_image))
                .or_else(|| lacks_label(image, rules).filter(|_| is_due))
        } else {
            Some(Decision::keep(Rule::B1, "images wait for whole lists"))
        };
        decisions.push(if let Some(decision) = kept {
            decision
        } else if let Some((decision, wait)) = too_young(age, is_due, rules) {
            if is_due {
                too_young_ones.push((image.bytes, wait, goes_anyway));
            }
            decision
        } else {
            let has_failed = tried.has_failed(What::Image, &image.id);
            let has_name = image.names().next().is_some();
            candidates.push(Unused { index, age, key, has_failed, has_name });
            Decision::keep(no_goal, reason.clone())
        });
    }
    candidates.sort_by(|one, other| i3(one).cmp(&i3(other)));
    let mut selection = Selection { decisions, removals: Vec::new(), in_line: Vec::new(), young: None };
    i6(&mut candidates, rules, &mut selection);
    let is_enough = for_space(&candidates, inputs, goal, freed_before, &mut selection);
    for (bytes, wait, _) in too_young_ones.into_iter().filter(|(.., goes_anyway)| *goes_anyway || !is_enough)
    {
        let young = selection.young.get_or_insert_default();
        young.count += 1;
        young.bytes = young.bytes.saturating_add(bytes);
        let wait = u64::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u64::MAX);
        young.wait_seconds = young.wait_seconds.max(wait);
    }
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
    keep(format!("container {container} does not say which image it uses"))
}

/// I2, `imagesInEvictionOrder` in `image_gc_manager.go`: pinned images stay.
fn i2(image: &Image) -> Option<Decision> {
    image.pinned.then(|| Decision::keep(Rule::I2, "the runtime has pinned it"))
}

/// B2: as long as no pod of this node was ever read, any may name any image.
fn b2(inputs: &Inputs<'_>) -> Option<Decision> {
    let is_unread = matches!(inputs.pods, PodView::Unavailable { known: None, .. })
        || Pods::of(inputs.runtime, inputs.pods, inputs.files).may_be_of_another_node();
    (is_unread && !mutation::is(Mutation::UnreadPodsUseNoImages))
        .then(|| Decision::keep(Rule::B2, "the pods of this node are not known, and any may name it"))
}

/// B5: what `keep` names, what could not be pulled again, and what sandboxes need. What has no name at all cannot
/// be asked for, so it need not come back.
fn b5(image: &Image, runtime: &RuntimeView, rules: &Rules, sandbox_image: &[String]) -> Option<Decision> {
    let keep = |reason: String| Some(Decision::keep(Rule::B5, reason));
    if let Some(glob) = rules.images.keep.iter().find(|glob| is_named_by(glob, image)) {
        return keep(format!("`keep` has {:?}", glob.pattern()));
    }
    if rules.images.keep_local && !image.has_repo_digest() && image.names().next().is_some() {
        return keep("it has no digest of a registry, so it may not come back".to_owned());
    }
    let is_it = || has_key(image, |key| sandbox_image.iter().any(|of| of == key));
    match runtime.sandbox_image {
        SandboxImage::Named(_) | SandboxImage::None if mutation::is(Mutation::SandboxImageMayGo) => None,
        SandboxImage::Named(_) if is_it() => keep("it is the image of sandboxes".to_owned()),
        SandboxImage::None if image.names().any(is_pause) => {
            keep("by its name, it is the image of sandboxes, which the runtime does not name".to_owned())
        }
        SandboxImage::Unknown => {
            keep("it is not known whether sandboxes or others than CRI use it".to_owned())
        }
        SandboxImage::Named(_) | SandboxImage::None => None,
    }
}

/// Whether a name ends as the image of sandboxes is called everywhere: `pause`, and `mirrored-pause` by k3s.
fn is_pause(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or_default();
    let name = name.split([':', '@']).next().unwrap_or_default();
    name == "pause" || name.ends_with("-pause")
}

/// Whether a pattern of `keep` names an image.
fn is_named_by(glob: &WildMatch, image: &Image) -> bool {
    image.names().chain([image.id.as_str()]).any(|name| glob.matches(name))
}

/// The patterns of `keep` that name no image.
pub(crate) fn unmatched_keep(runtime: &RuntimeView, rules: &Rules) -> Vec<String> {
    if runtime.images_extent == Extent::Slice {
        return Vec::new();
    }
    let names_none = |glob: &&WildMatch| !runtime.images.iter().any(|image| is_named_by(glob, image));
    rules.images.keep.iter().filter(names_none).map(WildMatch::pattern).collect()
}

/// `--label`: an image that lacks one of these stays. Before its age is looked at, so that nobody waits for it.
fn lacks_label(image: &Image, rules: &Rules) -> Option<Decision> {
    let labels = rules.labels.iter().filter(|_| !mutation::is(Mutation::IgnoreLabels));
    let has = image.labels.as_deref();
    let lacking = labels.into_iter().find(|label| !has.is_some_and(|has| has.contains(label)))?;
    Some(match has {
        Some(_) => Decision::keep(Rule::Label, format!("it lacks the label {}", escaped(&lacking.0))),
        None => Decision::keep(Rule::Label, "its labels are not known"),
    })
}

/// I5 and `--older-than`: what is too young stays. Also returns how long both will keep it.
fn too_young(age: Age, is_due: bool, rules: &Rules) -> Option<(Decision, Duration)> {
    let min_age = rules.images.min_age;
    let asks = is_due && !mutation::is(Mutation::IgnoreOlderThan);
    let older_than = rules.older_than.filter(|_| asks).unwrap_or_default();
    let (detected, unused) = (min_age.saturating_sub(age.detected), older_than.saturating_sub(age.unused()));
    let wait = detected.max(unused);
    let decision = || match unused == wait {
        true => {
            Decision::keep(Rule::OlderThan, format!("it has been unused for less than {}", words(older_than)))
        }
        false => Decision::keep(Rule::I5, format!("kube-gc first saw it less than {} ago", words(min_age))),
    };
    (!wait.is_zero()).then(|| (decision(), wait))
}

/// I3, `byLastUsedAndDetected` in `image_gc_manager.go`: least recently used first, never used before
/// all others, then first detected. What it leaves open, the key decides. Images without a name go before,
/// and what could not be removed goes after, so that it starves nothing.
fn i3<'a>(image: &'a Unused<'_>) -> (bool, bool, Option<Reverse<Duration>>, Reverse<Duration>, &'a str) {
    let Unused { age, has_failed, has_name, .. } = image;
    let has_failed = *has_failed && !mutation::is(Mutation::FailedKeepTheirPlace);
    let has_name = *has_name || mutation::is(Mutation::NamelessWait);
    (has_failed, has_name, age.used.map(Reverse), Reverse(age.detected), &*image.key)
}

/// I6, `freeOldImages` in `image_gc_manager.go`: what has been unused for more than `max_age` goes,
/// whatever the usage. The others remain.
fn i6(candidates: &mut Vec<Unused<'_>>, rules: &Rules, selection: &mut Selection) {
    let Some(max_age) = rules.images.max_age else { return };
    candidates.retain(|image| {
        let is_old = is_old(image.age, rules);
        if is_old {
            let reason = format!("unused for more than {}", words(max_age));
            selection.decisions[image.index] = Decision::remove(Rule::I6, reason);
            selection.removals.push(image.index);
        }
        !is_old
    });
}

fn is_old(age: Age, rules: &Rules) -> bool {
    rules.images.max_age.is_some_and(|max_age| age.unused() > max_age)
}

/// I4, P1 and `--free`: in order, until the goal seems to be reached. How much really gets free
/// shows when it is measured after each removal (B3), so the others stay in line. `--all` has no goal. Returns
/// whether the goal seems to be reached.
fn for_space(
    candidates: &[Unused<'_>],
    inputs: &Inputs<'_>,
    goal: Option<&Goal>,
    freed_before: u64,
    selection: &mut Selection,
) -> bool {
    let images = &inputs.runtime.images;
    let goal = goal.zip(inputs.files.image_usage.as_ref());
    let is_reached = |freed| goal.is_some_and(|(goal, usage)| goal.is_reached(&estimate(usage, freed)));
    let by_age = selection.removals.iter().map(|&index| images[index].bytes);
    let mut freed = by_age.fold(freed_before, u64::saturating_add);
    for &Unused { index, age, .. } in candidates {
        let decision = &mut selection.decisions[index];
        match goal {
            _ if inputs.rules.all => *decision = Decision::remove(Rule::All, unused(age)),
            Some((goal, _)) if is_reached(freed) => {
                let reason =
                    format!("unused; goes only if what goes before it is not enough for {}", goal.rule);
                *decision = Decision::keep(goal.rule, reason);
                selection.in_line.push(index);
                continue;
            }
            Some((goal, _)) => *decision = Decision::remove(goal.rule, unused(age)),
            None => break,
        }
        selection.removals.push(index);
        freed = freed.saturating_add(images[index].bytes);
    }
    is_reached(freed)
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

fn unused(age: Age) -> String {
    match age.used {
        Some(used) => format!("unused for {}", words(Duration::from_secs(used.as_secs()))),
        None => "unused since kube-gc first saw it".to_owned(),
    }
}

#[cfg(test)]
mod tests;
