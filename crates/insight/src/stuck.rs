//! What was deleted long ago and is still there, by what holds it.

use std::collections::{BTreeMap, HashMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::explain::{Hold, leaf};
use crate::finalizers::FinalizerReport;
use crate::knowledge::{Asker, Live};
use crate::name::ObjectName;
use crate::sentence::{advice_on_finalizer, counted};
use kube_gc_core::object::{DeletionState, Identity, Key};
use kube_gc_core::text::{LISTED, listed};

/// The most objects that are named in each list.
const NAMED: usize = 20;
/// The most causes that are told apart.
const CAUSES: usize = 64;
/// What holds an object while its own dependents are deleted.
const FOREGROUND: &str = "foregroundDeletion";

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StuckReport {
    /// What holds objects, that of most objects first.
    pub groups: Vec<StuckGroup>,
    /// The number of objects that are stuck.
    pub stuck: usize,
    /// The number of objects that are being deleted, whenever that began.
    pub being_deleted: usize,
    /// How many of them were not read, because there are too many.
    pub not_read: usize,
}

/// Objects that wait for the same cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StuckGroup {
    /// In one word.
    pub cause: String,
    /// In one sentence.
    pub sentence: String,
    /// The first objects that hold themselves and the others.
    pub holders: Vec<ObjectName>,
    pub holder_count: usize,
    /// The first objects that are stuck for this cause.
    pub objects: Vec<ObjectName>,
    pub object_count: usize,
    /// When the first of them was deleted, in RFC 3339.
    pub oldest: Option<String>,
    /// The finalizers that hold the first holder.
    pub finalizers: Vec<FinalizerReport>,
    /// What a person can do.
    pub advice: Vec<String>,
}

/// What is known of a remaining object.
struct Known {
    /// When it was deleted, if that was long ago.
    stuck_since: Option<String>,
    /// What holds it, unless others do.
    hold: Option<(Hold, Vec<FinalizerReport>)>,
}

/// Groups what was deleted before a time in RFC 3339 by what holds it. An incomplete answer is
/// returned if more facts are needed.
pub fn stuck(asker: &mut Asker<'_>, remaining: &[Remaining], before: &str) -> StuckReport {
    let places: HashMap<Key, usize> =
        remaining.iter().enumerate().map(|(place, one)| (one.identity.key(), place)).collect();
    let owners: Vec<Vec<usize>> = remaining
        .iter()
        .map(|one| {
            let mut owners: Vec<usize> =
                one.blocks.iter().filter_map(|key| places.get(key).copied()).collect();
            owners.sort_unstable();
            owners.dedup();
            owners
        })
        .collect();
    let blocked: HashSet<usize> = owners.iter().flatten().copied().collect();
    let mut report = StuckReport::default();
    let mut known = Vec::with_capacity(remaining.len());
    for (place, one) in remaining.iter().enumerate() {
        known.push(look(asker, one, blocked.contains(&place), before, &mut report));
    }
    report.stuck = known.iter().filter(|known| known.stuck_since.is_some()).count();
    let mut causes: BTreeMap<(Hold, Vec<String>), Vec<usize>> = BTreeMap::new();
    for (place, known) in known.iter().enumerate() {
        let Some((hold, finalizers)) = &known.hold else { continue };
        let names: Vec<String> = finalizers.iter().map(|finalizer| finalizer.name.clone()).collect();
        let cause = (hold.clone(), names);
        if causes.len() < CAUSES || causes.contains_key(&cause) {
            causes.entry(cause).or_default().push(place);
        }
    }
    let mut explained: HashSet<usize> = HashSet::new();
    for ((hold, _), holders) in causes {
        let waiting = wait_for(&holders, &owners);
        let stuck: Vec<usize> =
            waiting.into_iter().filter(|&place| known[place].stuck_since.is_some()).collect();
        explained.extend(&stuck);
        if !stuck.is_empty() {
            report.groups.push(group(remaining, &known, Some(&hold), &holders, &stuck));
        }
    }
    let is_left = |place: &usize| known[*place].stuck_since.is_some() && !explained.contains(place);
    let left: Vec<usize> = (0..remaining.len()).filter(is_left).collect();
    if !left.is_empty() {
        report.groups.push(group(remaining, &known, None, &[], &left));
    }
    report.groups.sort_by_key(|group| std::cmp::Reverse(group.object_count));
    report
}

fn look(
    asker: &mut Asker<'_>,
    one: &Remaining,
    is_blocked: bool,
    before: &str,
    report: &mut StuckReport,
) -> Known {
    let mut known = Known { stuck_since: None, hold: None };
    let mut is_read = true;
    if one.deletion.is_being_deleted() {
        report.being_deleted += usize::from(one.is_meant);
        match asker.live(&one.identity) {
            Some(Live::Found(live)) => {
                // The server writes all times in one form, so their order is that of their texts.
                let deleted = live.details.deleted.clone().filter(|deleted| **deleted < *before);
                known.stuck_since = deleted.filter(|_| one.is_meant);
            }
            // It is gone.
            Some(Live::Absent(_)) => return known,
            Some(Live::NotAsked) => {
                report.not_read += 1;
                is_read = false;
            }
            Some(Live::Failed(_)) | None => is_read = false,
        }
    }
    let waits_for_others = one.deletion == DeletionState::DeletingDependents && is_blocked;
    if !is_read {
        known.hold = (!waits_for_others).then_some((Hold::Unknown, Vec::new()));
    } else if !waits_for_others {
        let leaf = leaf(asker, &one.identity, one.deletion, (&one.identity).into());
        let mut finalizers = leaf.finalizers;
        if leaf.hold == Hold::Finalizers {
            finalizers.retain(|finalizer| finalizer.name != FOREGROUND);
        } else {
            finalizers.clear();
        }
        known.hold = Some((leaf.hold, finalizers));
    }
    known
}

/// These objects, and all that wait for them.
fn wait_for(holders: &[usize], owners: &[Vec<usize>]) -> Vec<usize> {
    let mut seen: HashSet<usize> = holders.iter().copied().collect();
    let mut waiting = holders.to_vec();
    let mut next = 0;
    while let Some(&place) = waiting.get(next) {
        next += 1;
        waiting.extend(owners[place].iter().copied().filter(|&owner| seen.insert(owner)));
    }
    waiting
}

fn group(
    remaining: &[Remaining],
    known: &[Known],
    hold: Option<&Hold>,
    holders: &[usize],
    stuck: &[usize],
) -> StuckGroup {
    let name = |place: &usize| ObjectName::from(&remaining[*place].identity);
    let held = holders.first().and_then(|&place| known[place].hold.as_ref());
    let finalizers = held.map(|(_, finalizers)| finalizers.clone()).unwrap_or_default();
    let why = match hold {
        None => "a circle of objects that block each other, or an object that is not known".to_owned(),
        Some(hold) => why(hold, &finalizers),
    };
    let holding: HashSet<usize> = holders.iter().copied().collect();
    let others = stuck.iter().filter(|place| !holding.contains(place)).count();
    let sentence = match holders {
        [] => format!("{} {} for {why}", counted(stuck.len(), "object"), waits(stuck.len())),
        [only] if others == 0 => format!("{} waits for {why}", name(only)),
        several if others == 0 => format!("{} wait for {why}", counted(several.len(), "object")),
        [only] => format!("{} {} for {} ({why})", counted(others, "object"), waits(others), name(only)),
        [first, ..] => format!(
            "{} {} for {}, such as {} ({why})",
            counted(others, "object"),
            waits(others),
            counted(holders.len(), "object"),
            name(first)
        ),
    };
    let advice = match hold {
        Some(Hold::Finalizers) => finalizers.iter().take(LISTED).map(advice_on_finalizer).collect(),
        Some(Hold::Unblocked | Hold::ToBeDeleted | Hold::ToBeReleased | Hold::Orphaning) | None => {
            vec!["The collector has this to do. If it does not change, look whether it runs.".to_owned()]
        }
        Some(Hold::Undecided) => vec!["`check` says which owner cannot be resolved.".to_owned()],
        Some(Hold::GracePeriod) => {
            vec!["If it is a pod, look whether the kubelet of its node runs.".to_owned()]
        }
        Some(Hold::Unknown) => Vec::new(),
    };
    StuckGroup {
        cause: hold.map_or("circle", Hold::into_str).to_owned(),
        sentence,
        holders: holders.iter().take(NAMED).map(name).collect(),
        holder_count: holders.len(),
        objects: stuck.iter().take(NAMED).map(name).collect(),
        object_count: stuck.len(),
        oldest: stuck.iter().filter_map(|&place| known[place].stuck_since.clone()).min(),
        finalizers,
        advice,
    }
}

/// What an object waits for.
fn why(hold: &Hold, finalizers: &[FinalizerReport]) -> String {
    match hold {
        Hold::Finalizers => {
            let what = if finalizers.len() == 1 { "finalizer" } else { "finalizers" };
            let names = finalizers.iter().map(|finalizer| &finalizer.name);
            format!("{what} {}", listed(", ", finalizers.len(), names))
        }
        Hold::GracePeriod => "the end of its grace period".to_owned(),
        Hold::Orphaning => "the collector to release its dependents".to_owned(),
        Hold::Unblocked => "the collector to remove its finalizer".to_owned(),
        Hold::ToBeDeleted => "the collector to delete it".to_owned(),
        Hold::ToBeReleased => "the collector to remove its owner reference".to_owned(),
        Hold::Undecided => "an owner that cannot be resolved".to_owned(),
        Hold::Unknown => "something that could not be looked at".to_owned(),
    }
}

const fn waits(count: usize) -> &'static str {
    if count == 1 { "waits" } else { "wait" }
}

/// An object that is being deleted, or that blocks one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remaining {
    pub identity: Identity,
    pub deletion: DeletionState,
    /// The owners in foreground deletion that wait for it.
    pub blocks: Vec<Key>,
    /// Whether it is reported itself, and not only what it holds.
    pub is_meant: bool,
}

impl Remaining {
    /// The objects that are being deleted, and those that block one, as their dependents say. Those that hold
    /// others come first. Incomplete if more facts are needed.
    #[must_use]
    pub fn around(asker: &mut Asker<'_>, deleted: &[(Identity, DeletionState)]) -> Vec<Self> {
        let mut places: HashMap<Key, usize> = HashMap::new();
        let mut all: Vec<Self> = Vec::with_capacity(deleted.len());
        for (identity, deletion) in deleted {
            places.insert(identity.key(), all.len());
            let (identity, deletion) = (identity.clone(), *deletion);
            all.push(Self { identity, deletion, blocks: Vec::new(), is_meant: true });
        }
        for (owner, deletion) in deleted {
            if *deletion != DeletionState::DeletingDependents {
                continue;
            }
            let key = owner.key();
            let view = asker.node(&key).flatten();
            for dependent in view.into_iter().flat_map(|view| &view.dependents) {
                if !dependent.blocking || dependent.identity == *owner {
                    continue;
                }
                let place = *places.entry(dependent.identity.key()).or_insert_with(|| {
                    let (identity, deletion) = (dependent.identity.clone(), dependent.deletion);
                    all.push(Self { identity, deletion, blocks: Vec::new(), is_meant: true });
                    all.len() - 1
                });
                all[place].blocks.push(key.clone());
            }
        }
        in_order(all)
    }
}

fn in_order(mut all: Vec<Remaining>) -> Vec<Remaining> {
    fn place(remaining: &Remaining) -> impl Ord + '_ {
        let Identity { namespace, resource, name, .. } = &remaining.identity;
        let waits = remaining.deletion == DeletionState::DeletingDependents;
        (waits, namespace, &resource.group_resource, name)
    }
    all.sort_by(|a, b| place(a).cmp(&place(b)));
    all
}
