//! What was deleted long ago and is still there, by what holds it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::advice::Advice;
use crate::finalizers::FinalizerReport;
use crate::hold::{Held, Hold, holds};
use crate::knowledge::{Asker, Live};
use crate::name::{ObjectName, Report, Source};
use crate::plan::Container;
use crate::sentence::counted;
use kube_gc_core::object::{DeletionState, Identity, Key, Namespace};

/// The most objects that are named in each list.
const NAMED: usize = 20;
/// The most causes that are told apart.
const CAUSES: usize = 64;

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StuckReport {
    /// What holds objects, that of most objects first.
    pub groups: Vec<StuckGroup>,
    /// The number of objects that are stuck.
    pub stuck: usize,
    /// The number of objects that a collector cannot finish, for other reasons than that they wait for dependents.
    /// Only a collector knows that.
    pub unfinished: usize,
    /// The number of objects that are being deleted, whenever that began.
    pub being_deleted: usize,
    /// How many of them were not read, because there are too many.
    pub not_read: usize,
    /// When the first of them was deleted, in RFC 3339.
    pub oldest: Option<String>,
    /// When they were read, by the clock of the API server.
    pub as_of: Option<String>,
    /// What a person can do about all groups, each once: the command for an object of one stands for all.
    #[serde(default)]
    pub advice: Vec<String>,
}

impl StuckReport {
    /// Gathers the advice of all groups.
    fn gather(&mut self) {
        self.advice = Advice::once(self.groups.iter().flat_map(|group| &group.advice));
    }

    /// Adds objects that a collector cannot finish, for a reason of its own.
    pub fn add_unfinished(
        &mut self,
        (reason, hint): (&str, &str),
        objects: &[(Identity, String)],
        since: String,
    ) {
        self.unfinished += objects.len();
        let to_do = Advice::from(format!("What to do ({reason}): {hint}."));
        let mut left: Vec<(ObjectName, &String)> =
            objects.iter().map(|(object, message)| (object.into(), message)).collect();
        for group in &mut self.groups {
            // What others wait for is named with them.
            if let Some((name, message)) = left.iter().find(|(name, _)| group.holders.contains(name)) {
                // The reason says more.
                group.advice.retain(|line| *line != Source::Collector.advice());
                let cannot = format!("The collector cannot finish with {name} ({reason}): {message}.");
                group.advice.extend([cannot.into(), to_do.clone()]);
                left.retain(|(name, _)| !group.holders.contains(name));
            }
        }
        let Some((first, message)) = left.first() else { return self.gather() };
        let (count, cannot) = (left.len(), "the collector cannot finish with");
        let sentence = match counted(count, "object") {
            _ if count == 1 => format!("{first}: {cannot} it ({reason}): {message}"),
            several => format!("{several}, such as {first}: {cannot} them ({reason}); of {first}: {message}"),
        };
        let names: Vec<ObjectName> = left.iter().take(NAMED).map(|(name, _)| name.clone()).collect();
        self.groups.push(StuckGroup {
            cause: reason.to_owned(),
            sentence,
            holders: names.clone(),
            holder_count: count,
            objects: names,
            object_count: count,
            oldest: Some(since),
            finalizers: Vec::new(),
            advice: vec![to_do],
        });
        self.gather();
    }
}

impl Report for StuckReport {}

/// Objects that wait for the same cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StuckGroup {
    /// In one word: that of a [`Hold`], or a reason of a collector that cannot finish with these objects.
    pub cause: String,
    /// In one sentence.
    pub sentence: String,
    /// The first objects that hold themselves and the others, of those that were asked about.
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
    #[cfg_attr(feature = "schemas", schemars(with = "Vec<String>"))]
    pub advice: Vec<Advice>,
}

/// An object that is being deleted, or that blocks one.
struct Remaining {
    identity: Identity,
    deletion: DeletionState,
    /// The places of what waits for it: owners in foreground deletion, its namespace, its definition.
    blocks: BTreeSet<usize>,
    /// When it was deleted, if that was long ago and it is to be reported.
    stuck_since: Option<String>,
    /// Whether it was asked about: what is not stuck holds others, and nothing is advised for it.
    is_asked: bool,
    /// What holds it, unless others do.
    holds: Vec<Held>,
}

/// Groups what was deleted, with its grace period, longer ago than this by what holds it, of these objects that are
/// being deleted. All of them count as causes, and those that are meant are reported. An incomplete answer is returned
/// if more facts are needed.
pub fn stuck(
    asker: &mut Asker<'_>,
    deleted: &[(Identity, DeletionState)],
    older: Duration,
    is_meant: impl Fn(&Identity) -> bool,
) -> StuckReport {
    let mut remaining = remaining(asker, deleted);
    let blocked: HashSet<usize> = remaining.iter().flat_map(|one| one.blocks.iter().copied()).collect();
    let mut report = StuckReport::default();
    for place in in_turns(&remaining) {
        let one = &mut remaining[place];
        one.look(asker, blocked.contains(&place), older, is_meant(&one.identity), &mut report);
    }
    report.stuck = remaining.iter().filter(|one| one.stuck_since.is_some()).count();
    let mut causes: BTreeMap<(Hold, &str, Vec<usize>), Vec<usize>> = BTreeMap::new();
    for (place, one) in remaining.iter().enumerate() {
        // What waits in two namespaces has two causes, unless that would be too many.
        let contain = |place: &&usize| Container::of(&remaining[**place].identity).is_some();
        let containers: Vec<usize> = one.blocks.iter().filter(contain).copied().collect();
        for held in &one.holds {
            let about = held.about.as_str();
            let of =
                [(CAUSES / 2, (held.hold, about, containers.clone())), (CAUSES, (held.hold, about, vec![]))];
            let fits = |(most, cause): &(usize, _)| causes.len() < *most || causes.contains_key(cause);
            let cause = of.into_iter().find(fits).map(|(_, cause)| cause);
            causes.entry(cause.unwrap_or((Hold::Other, "", vec![]))).or_default().push(place);
        }
    }
    let is_stuck = |place: &usize| remaining[*place].stuck_since.is_some();
    let mut explained: HashSet<usize> = HashSet::new();
    for ((hold, about, _), mut holders) in causes {
        // The first stands for all.
        holders.sort_by_key(|&place| !remaining[place].is_asked);
        let mut stuck = wait_for(&holders, &remaining);
        stuck.retain(is_stuck);
        explained.extend(&stuck);
        if !stuck.is_empty() {
            let is_it = |held: &&Held| held.hold == hold && held.about == about;
            let held = remaining[holders[0]].holds.iter().find(is_it).cloned();
            let held = held.unwrap_or_else(|| Held::new(hold));
            report.groups.push(group(&remaining, &held, &holders, &stuck, asker.outside().source));
        }
    }
    let is_left = |place: &usize| is_stuck(place) && !explained.contains(place);
    let left: Vec<usize> = (0..remaining.len()).filter(is_left).collect();
    if !left.is_empty() {
        report.groups.push(group(&remaining, &Held::new(Hold::Circle), &[], &left, asker.outside().source));
    }
    report.groups.sort_by_key(|group| std::cmp::Reverse(group.object_count));
    report.gather();
    report
}

/// All places, one of each namespace after the other: if not all can be read, some of each are.
fn in_turns(remaining: &[Remaining]) -> Vec<usize> {
    let mut counts: HashMap<Option<&Namespace>, usize> = HashMap::new();
    let turns = remaining.iter().enumerate().map(|(place, one)| {
        let count = counts.entry(one.identity.namespace.as_ref()).or_default();
        *count += 1;
        (*count, place)
    });
    let mut turns: Vec<_> = turns.collect();
    turns.sort_unstable();
    turns.into_iter().map(|(_, place)| place).collect()
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
    // What is in a namespace, or of the type of a definition, holds that.
    let containers =
        deleted.iter().filter_map(|(identity, _)| Some((Container::of(identity)?, identity.key())));
    let containers: HashMap<Container, Key> = containers.collect();
    for (identity, _, blocks) in all.values_mut().filter(|(_, deletion, _)| deletion.is_being_deleted()) {
        let namespace = identity.namespace.clone().map(Container::Namespace);
        let definition = Container::Definition(identity.resource.group_resource.clone());
        blocks.extend(namespace.iter().chain([&definition]).filter_map(|one| containers.get(one)).cloned());
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
            is_asked: false,
            holds: Vec::new(),
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
        is_blocked: bool,
        older: Duration,
        is_meant: bool,
        report: &mut StuckReport,
    ) {
        self.is_asked = is_meant;
        if self.deletion.is_being_deleted() {
            match asker.live(&self.identity) {
                Some(Live::Found(live)) => {
                    let details = &live.details;
                    report.as_of = report.as_of.take().max(details.read.clone());
                    if is_meant {
                        report.oldest = report.oldest.take().into_iter().chain(details.deleted.clone()).min();
                        self.stuck_since = details.deleted.clone().filter(|_| details.is_stuck(older));
                    }
                }
                // It is gone.
                Some(Live::Absent(_)) => return,
                Some(Live::NotAsked) => report.not_read += 1,
                Some(Live::Failed(_)) | None => {}
            }
            report.being_deleted += usize::from(is_meant);
            self.is_asked = self.stuck_since.is_some();
        }
        // What waits for its dependents, others may hold besides; a namespace waits for more than objects.
        let waits = self.deletion == DeletionState::DeletingDependents && is_blocked;
        let deletion = if waits { DeletionState::Terminating } else { self.deletion };
        self.holds = holds(asker, &self.identity, deletion, is_blocked);
        self.holds.retain(|held| !waits || held.hold != Hold::Unknown);
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

fn group(
    remaining: &[Remaining],
    held: &Held,
    holders: &[usize],
    stuck: &[usize],
    source: Source,
) -> StuckGroup {
    let name = |place: &usize| ObjectName::from(&remaining[*place].identity);
    let holding: HashSet<usize> = holders.iter().copied().collect();
    let others: Vec<usize> = stuck.iter().copied().filter(|place| !holding.contains(place)).collect();
    // One object has a name.
    let waiting = |places: &[usize], what: &str| match places {
        [only] => format!("{} waits", name(only)),
        several => format!("{} wait", counted(several.len(), what)),
    };
    let sentence = match (&others[..], holders) {
        (_, []) => format!("{} for {}", waiting(stuck, "object"), held.words(stuck.len() > 1)),
        ([], [only]) if stuck.len() == 1 => format!("{}{}", name(only), held.predicate()),
        ([], [first, ..]) => {
            // What is said of one alone.
            let of_first = held.detail.as_ref().and_then(|of| of.strip_prefix(&format!("{}: ", held.about)));
            let of_first = of_first.map(|of_first| format!(" (of {}: {of_first})", name(first)));
            let (waiting, what) = (waiting(stuck, "object"), held.words(stuck.len() > 1));
            format!("{waiting} for {what}{}", of_first.unwrap_or_default())
        }
        (_, [only]) => format!("{} for {}{}", waiting(&others, "object"), name(only), held.clause()),
        ([waits, ..], _) => {
            // Each holder may hold another of them.
            let holds = |holder: &&usize| wait_for(&[**holder], remaining).contains(waits);
            let such = holders.iter().find(holds).map(name).unwrap_or_default();
            let (all, what) = (counted(holders.len(), "object"), held.words(true));
            format!("{all}, such as {such}, wait for {what}; {} for them", waiting(&others, "other"))
        }
    };
    let asked: Vec<usize> = holders.iter().copied().filter(|&place| remaining[place].is_asked).collect();
    let first = asked.first().or(holders.first()).or(stuck.first()).map(name).unwrap_or_default();
    let mut advice = held.advice(&first, asked.len(), source);
    if asked.is_empty() && !holders.is_empty() && !advice.is_empty() {
        advice = vec![format!("`explain` of {first} says what to do.").into()];
    }
    StuckGroup {
        cause: held.hold.into_str().to_owned(),
        sentence,
        holders: asked.iter().take(NAMED).map(name).collect(),
        holder_count: asked.len(),
        objects: stuck.iter().take(NAMED).map(name).collect(),
        object_count: stuck.len(),
        oldest: stuck.iter().filter_map(|&place| remaining[place].stuck_since.clone()).min(),
        finalizers: held.finalizers.clone(),
        advice,
    }
}
