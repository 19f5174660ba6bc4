//! What was deleted long ago and is still there, by what holds it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::explain::{Hold, leaf};
use crate::finalizers::FinalizerReport;
use crate::knowledge::{Asker, Live};
use crate::name::{ObjectName, Report};
use crate::sentence::{advice_on_finalizers, counted};
use kube_gc_core::object::{DeletionState, FOREGROUND_FINALIZER, Identity, Key};

/// The most objects that are named in each list.
const NAMED: usize = 20;
/// The most causes that are told apart.
const CAUSES: usize = 64;

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

impl Report for StuckReport {}

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

/// An object that is being deleted, or that blocks one.
struct Remaining {
    identity: Identity,
    deletion: DeletionState,
    /// The places of the owners in foreground deletion that wait for it.
    blocks: BTreeSet<usize>,
    /// When it was deleted, if that was long ago and it is to be reported.
    stuck_since: Option<String>,
    /// What holds it, unless others do.
    hold: Option<(Hold, Vec<FinalizerReport>)>,
}

/// Groups what was deleted before a time in RFC 3339 by what holds it, of these objects that are being
/// deleted. All of them count as causes, and those that are meant are reported. An incomplete answer is
/// returned if more facts are needed.
pub fn stuck(
    asker: &mut Asker<'_>,
    deleted: &[(Identity, DeletionState)],
    before: &str,
    is_meant: impl Fn(&Identity) -> bool,
) -> StuckReport {
    let mut remaining = remaining(asker, deleted);
    let blocked: HashSet<usize> = remaining.iter().flat_map(|one| one.blocks.iter().copied()).collect();
    let mut report = StuckReport::default();
    for (place, one) in remaining.iter_mut().enumerate() {
        let waits = one.deletion == DeletionState::DeletingDependents && blocked.contains(&place);
        one.look(asker, waits, before, is_meant(&one.identity), &mut report);
    }
    report.stuck = remaining.iter().filter(|one| one.stuck_since.is_some()).count();
    let mut causes: BTreeMap<(Hold, Vec<&str>), Vec<usize>> = BTreeMap::new();
    for (place, one) in remaining.iter().enumerate() {
        let Some((hold, finalizers)) = &one.hold else { continue };
        let names = finalizers.iter().map(|finalizer| finalizer.name.as_str());
        let cause = (hold.clone(), names.collect());
        if causes.len() < CAUSES || causes.contains_key(&cause) {
            causes.entry(cause).or_default().push(place);
        }
    }
    let is_stuck = |place: &usize| remaining[*place].stuck_since.is_some();
    let mut explained: HashSet<usize> = HashSet::new();
    for ((hold, _), holders) in causes {
        let mut stuck = wait_for(&holders, &remaining);
        stuck.retain(is_stuck);
        explained.extend(&stuck);
        if !stuck.is_empty() {
            report.groups.push(group(&remaining, Some(&hold), &holders, &stuck));
        }
    }
    let is_left = |place: &usize| is_stuck(place) && !explained.contains(place);
    let left: Vec<usize> = (0..remaining.len()).filter(is_left).collect();
    if !left.is_empty() {
        report.groups.push(group(&remaining, None, &[], &left));
    }
    report.groups.sort_by_key(|group| std::cmp::Reverse(group.object_count));
    report
}

/// The objects that are being deleted, and those that block one, as their dependents say. Those that hold
/// others come first.
fn remaining(asker: &mut Asker<'_>, deleted: &[(Identity, DeletionState)]) -> Vec<Remaining> {
    let mut all: HashMap<Key, (Identity, DeletionState, Vec<Key>)> = HashMap::new();
    for (identity, deletion) in deleted {
        all.insert(identity.key(), (identity.clone(), *deletion, Vec::new()));
    }
    for (owner, _) in deleted.iter().filter(|(_, state)| *state == DeletionState::DeletingDependents) {
        let view = asker.node(&owner.key()).flatten();
        for dependent in view.into_iter().flat_map(|view| &view.dependents) {
            if dependent.blocking && dependent.identity != *owner {
                let new = || (dependent.identity.clone(), dependent.deletion, Vec::new());
                all.entry(dependent.identity.key()).or_insert_with(new).2.push(owner.key());
            }
        }
    }
    let mut all: Vec<_> = all.into_values().collect();
    all.sort_by(|a, b| order(a).cmp(&order(b)));
    let places: HashMap<Key, usize> =
        all.iter().enumerate().map(|(place, (identity, ..))| (identity.key(), place)).collect();
    let blocks = |keys: Vec<Key>| keys.iter().filter_map(|key| places.get(key).copied()).collect();
    all.into_iter()
        .map(|(identity, deletion, keys)| Remaining {
            identity,
            deletion,
            blocks: blocks(keys),
            stuck_since: None,
            hold: None,
        })
        .collect()
}

fn order<T>((identity, deletion, _): &(Identity, DeletionState, T)) -> impl Ord + '_ {
    let Identity { namespace, resource, name, uid } = identity;
    (*deletion == DeletionState::DeletingDependents, namespace, &resource.group_resource, name, uid)
}

impl Remaining {
    /// Finds out when it was deleted and what holds it.
    fn look(
        &mut self,
        asker: &mut Asker<'_>,
        waits_for_others: bool,
        before: &str,
        is_meant: bool,
        report: &mut StuckReport,
    ) {
        let mut is_read = true;
        if self.deletion.is_being_deleted() {
            report.being_deleted += usize::from(is_meant);
            match asker.live(&self.identity) {
                Some(Live::Found(live)) => {
                    // The server writes all times in one form, so their order is that of their texts.
                    let deleted = live.details.deleted.clone().filter(|deleted| **deleted < *before);
                    self.stuck_since = deleted.filter(|_| is_meant);
                }
                // It is gone.
                Some(Live::Absent(_)) => return,
                Some(Live::NotAsked) => {
                    report.not_read += 1;
                    is_read = false;
                }
                Some(Live::Failed(_)) | None => is_read = false,
            }
        }
        if waits_for_others {
            return;
        }
        self.hold = Some((Hold::Unknown, Vec::new()));
        if is_read {
            let leaf = leaf(asker, &self.identity, self.deletion, (&self.identity).into());
            let mut finalizers = leaf.finalizers;
            let holds = leaf.hold == Hold::Finalizers;
            finalizers.retain(|finalizer| holds && finalizer.name != FOREGROUND_FINALIZER);
            self.hold = Some((leaf.hold, finalizers));
        }
    }
}

/// These objects, and all that wait for them.
fn wait_for(holders: &[usize], remaining: &[Remaining]) -> Vec<usize> {
    let mut seen: HashSet<usize> = holders.iter().copied().collect();
    let mut waiting = holders.to_vec();
    let mut next = 0;
    while let Some(&place) = waiting.get(next) {
        next += 1;
        waiting.extend(remaining[place].blocks.iter().copied().filter(|&owner| seen.insert(owner)));
    }
    waiting
}

fn group(remaining: &[Remaining], hold: Option<&Hold>, holders: &[usize], stuck: &[usize]) -> StuckGroup {
    let name = |place: &usize| ObjectName::from(&remaining[*place].identity);
    let held = holders.first().and_then(|&place| remaining[place].hold.as_ref());
    let finalizers = held.map(|(_, finalizers)| finalizers.clone()).unwrap_or_default();
    let why = match hold {
        None => "a circle of objects that block each other, or an object that is not known".to_owned(),
        Some(hold) => why(hold, &finalizers),
    };
    let holding: HashSet<usize> = holders.iter().copied().collect();
    let others = stuck.iter().filter(|place| !holding.contains(place)).count();
    let wait = |count: usize| counted(count, "object") + if count == 1 { " waits" } else { " wait" };
    let sentence = match holders {
        [] => format!("{} for {why}", wait(stuck.len())),
        [only] if others == 0 => format!("{} waits for {why}", name(only)),
        several if others == 0 => format!("{} for {why}", wait(several.len())),
        [only] => format!("{} for {} ({why})", wait(others), name(only)),
        [first, ..] => format!(
            "{} for {}, such as {} ({why})",
            wait(others),
            counted(holders.len(), "object"),
            name(first)
        ),
    };
    let advice = match hold {
        Some(Hold::Finalizers) => advice_on_finalizers(&finalizers),
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
        oldest: stuck.iter().filter_map(|&place| remaining[place].stuck_since.clone()).min(),
        finalizers,
        advice,
    }
}

/// What an object waits for.
fn why(hold: &Hold, finalizers: &[FinalizerReport]) -> String {
    let why = match hold {
        Hold::Finalizers => return FinalizerReport::names(finalizers),
        Hold::GracePeriod => "the end of its grace period",
        Hold::Orphaning => "the collector to release its dependents",
        Hold::Unblocked => "the collector to remove its finalizer",
        Hold::ToBeDeleted => "the collector to delete it",
        Hold::ToBeReleased => "the collector to remove its owner reference",
        Hold::Undecided => "an owner that cannot be resolved",
        Hold::Unknown => "something that could not be looked at",
    };
    why.to_owned()
}
