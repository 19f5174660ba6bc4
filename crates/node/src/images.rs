//! I1 to I6: which images go, and in which order.

use std::borrow::Cow;
use std::collections::HashSet;
use std::time::Duration;

use crate::ledger::Record;
use crate::mutation::{self, Mutation};
use crate::plan::Inputs;
use crate::pods::is_whole;
use crate::pressure::{self, Goal, Usage};
use crate::rule::{Decision, escaped, words};
use crate::users::{Users, has_key, keys_of_reference};
use crate::view::{Extent, Image, duplicates};
use crate::{Ledger, Rule, Rules, Timestamp};

/// What becomes of the images.
#[derive(Debug)]
pub struct Selection {
    /// About every image, in the order of the view.
    pub decisions: Vec<Decision>,
    /// The indexes of those that go, in order: first by age (I6), then for space.
    pub removals: Vec<usize>,
    /// The indexes of those that go next if what goes frees less than it seems.
    pub in_line: Vec<usize>,
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

/// Decides about every image, to reach a goal. `goes` says whether a container, by its index, goes before, and
/// `freed_before` how many bytes these free.
pub fn decide(
    inputs: &Inputs<'_>,
    goal: Option<&Goal>,
    freed_before: u64,
    goes: impl Fn(usize) -> bool,
) -> Selection {
    let Inputs { runtime, pods, files, ledger, rules, now } = *inputs;
    let users = Users::without(runtime, pods, goes);
    let ambiguous = duplicates(runtime.images.iter().map(|image| image.id.as_str()));
    let whole =
        is_whole(runtime) && (runtime.images_extent == Extent::Whole || mutation::is(Mutation::TrustSlices));
    let is_pinning = runtime.images.iter().any(|image| image.pinned);
    let sandbox_image: Vec<String> = match &runtime.sandbox_image {
        Some(reference) if !is_pinning => keys_of_reference(reference),
        _ => Vec::new(),
    };
    let (no_goal, reason) = pressure::no_goal(files.image_usage.as_ref(), rules);
    let min_age = words(rules.images.min_age);
    let young = Decision::keep(Rule::I5, format!("it was detected less than {min_age} ago"));
    let mut decisions = Vec::with_capacity(runtime.images.len());
    let mut candidates = Vec::new();
    for (index, image) in runtime.images.iter().enumerate() {
        if let Some((rule, reason)) = users.user(image) {
            decisions.push(Decision::keep(*rule, reason.clone()));
            continue;
        }
        let key = image.key();
        let record = recorded(&key, ledger, now);
        let kept = if whole {
            unusable(image, &users, &ambiguous)
                .or_else(|| i2(image))
                .or_else(|| b5(image, rules, &sandbox_image))
                .or_else(|| i5_is_young(record, inputs).then(|| young.clone()))
        } else {
            Some(Decision::keep(Rule::B1, "images wait for whole lists"))
        };
        decisions.push(kept.unwrap_or_else(|| {
            candidates.push(Unused { index, record, key });
            Decision::keep(no_goal, reason.clone())
        }));
    }
    candidates.sort_by(|one, other| i3(one).cmp(&i3(other)));
    let mut selection = Selection { decisions, removals: Vec::new(), in_line: Vec::new() };
    i6(&mut candidates, inputs, &mut selection);
    for_space(&candidates, inputs, goal, freed_before, &mut selection);
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
    image.pinned.then(|| Decision::keep(Rule::I2, "the runtime has pinned it"))
}

/// B5: what `keep` names, what could not be pulled again, and what sandboxes need.
fn b5(image: &Image, rules: &Rules, sandbox_image: &[String]) -> Option<Decision> {
    let names = || image.names().chain([image.id.as_str()]);
    if let Some(glob) = rules.images.keep.iter().find(|glob| names().any(|name| glob.matches(name))) {
        return Some(Decision::keep(Rule::B5, format!("`keep` has {:?}", glob.pattern())));
    }
    if rules.images.keep_local && !image.has_repo_digest() {
        return Some(Decision::keep(Rule::B5, "no registry has it under a digest, so it may not come back"));
    }
    if has_key(image, |key| sandbox_image.iter().any(|of| of == key)) {
        return Some(Decision::keep(Rule::B5, "it is the image of sandboxes"));
    }
    None
}

/// I5, `freeSpace` in `image_gc_manager.go`: an image stays for `min_age` after its detection.
fn i5_is_young(record: Record, inputs: &Inputs<'_>) -> bool {
    !record.first_detected.is_older_than(inputs.rules.images.min_age, inputs.now)
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
/// whatever the usage. The others remain.
fn i6(candidates: &mut Vec<Unused<'_>>, inputs: &Inputs<'_>, selection: &mut Selection) {
    let Some(max_age) = inputs.rules.images.max_age else { return };
    candidates.retain(|image| {
        let is_old = unused_for(image.record, inputs.now) > max_age;
        if is_old {
            let reason = format!("unused for more than {}", words(max_age));
            selection.decisions[image.index] = Decision::remove(Rule::I6, reason);
            selection.removals.push(image.index);
        }
        !is_old
    });
}

/// I4, P1 and `--free`: in order, until the goal seems to be reached. How much really gets free
/// shows when it is measured after each removal (B3), so the others stay in line.
fn for_space(
    candidates: &[Unused<'_>],
    inputs: &Inputs<'_>,
    goal: Option<&Goal>,
    freed_before: u64,
    selection: &mut Selection,
) {
    let (Some(goal), Some(usage)) = (goal, &inputs.files.image_usage) else { return };
    let images = &inputs.runtime.images;
    let by_age = selection.removals.iter().map(|&index| images[index].bytes);
    let mut freed = by_age.fold(freed_before, u64::saturating_add);
    for &Unused { index, record, .. } in candidates {
        let seems_reached = goal.is_reached(&estimate(usage, freed));
        if seems_reached {
            let reason = format!("unused; what goes before it seems to be enough for {}", goal.rule);
            selection.decisions[index] = Decision::keep(goal.rule, reason);
            selection.in_line.push(index);
        } else {
            let reason = format!("unused{}", since_when(record, inputs.now));
            selection.decisions[index] = Decision::remove(goal.rule, reason);
            selection.removals.push(index);
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
