//! How a plan grows: places in its order, and what is told of each item.

use std::collections::{HashMap, HashSet};

use super::{Action, Candidate, Details, Entry, MOST_TAGS, Target, Tried};
use crate::containers::c7_stops_first;
use crate::logs::{self, parse_directory};
use crate::rule::{Decision, escaped};
use crate::view::{Container, Image, LogDirectory, LogSymlink, Sandbox, label};
use crate::{Ledger, PodRef, Rule, RuntimeView, Timestamp};

/// The most tags of an image that a line of the log has.
const MOST_TAGS_IN_LABEL: usize = 10;

/// A plan that grows, kind by kind.
#[derive(Default)]
pub(super) struct List {
    pub entries: Vec<Entry>,
    /// What goes, with its place.
    pub removals: Vec<(u32, Candidate)>,
    /// What goes if something before it fails, with its place in its kind.
    pub in_line: Vec<(usize, Candidate)>,
    /// How many places are taken.
    places: u32,
}

/// What goes of one kind, by its index.
pub(super) struct Places {
    /// What goes now, with its place in the plan, from 1 on.
    pub now: HashMap<usize, u32>,
    /// What the limit leaves and what is in line, with its place after that and the rule that removes it.
    pub later: HashMap<usize, (usize, Rule)>,
}

impl List {
    /// Numbers what goes of one kind, by these keys. A symlink that goes before its container takes no place
    /// of its own.
    pub fn going<K: Ord>(
        &mut self,
        decisions: &mut [Decision],
        most: usize,
        key: impl Fn(usize, Rule) -> K,
    ) -> Places {
        let goes = |decision: &Decision| decision.removes && decision.rule != Rule::C8;
        let mut indexes: Vec<usize> = (0..decisions.len()).filter(|&index| goes(&decisions[index])).collect();
        indexes.sort_by_key(|&index| key(index, decisions[index].rule));
        self.number(&indexes, most, decisions)
    }

    /// The places of what goes. Safety 4: a pass removes so many at most, and then everything is looked at anew.
    pub fn number(&mut self, indexes: &[usize], most: usize, decisions: &mut [Decision]) -> Places {
        let (now, left) = indexes.split_at(most.min(indexes.len()));
        let later = left.iter().enumerate().map(|(place, &index)| (index, (place, decisions[index].rule)));
        let later = later.collect();
        for &index in left {
            decisions[index].overrule(Rule::Safety4, "a pass removes no more than it does before");
        }
        let now: HashMap<usize, u32> = now.iter().copied().zip(self.places + 1..).collect();
        self.places += u32::try_from(now.len()).unwrap_or(u32::MAX);
        Places { now, later }
    }

    /// Enters all items of one kind. `shared` is the place of an item that has none of its own.
    pub fn enter(
        &mut self,
        items: impl Iterator<Item = Item>,
        decisions: Vec<Decision>,
        places: &Places,
        tried: &Tried,
        shared: impl Fn(usize) -> Option<u32>,
    ) {
        for (index, (item, decision)) in items.zip(decisions).enumerate() {
            let Item { target, name, label, pod, bytes, mut details } = item;
            let Decision { removes, rule, mut reason } = decision;
            if removes && matches!(target, Target::Container { stop_first: true, .. }) {
                reason.to_mut().push_str("; its state is unknown, so it is stopped first (C7)");
            }
            let candidate = Candidate { target, name: label, rule, bytes };
            let what = candidate.what();
            details.has_failed = tried.has_failed(what, candidate.id());
            if details.has_failed {
                reason.to_mut().push_str("; an earlier pass could not remove it");
            }
            let place = places.now.get(&index);
            let order = place.copied().or_else(|| shared(index)).filter(|_| removes);
            self.entries.push(Entry {
                what,
                id: candidate.id().to_owned(),
                name,
                pod,
                decision: if removes { Action::Remove } else { Action::Keep },
                rule,
                reason,
                bytes,
                order,
                details,
            });
            if let Some(&(place, rule)) = places.later.get(&index) {
                self.in_line.push((place, Candidate { rule, ..candidate }));
            } else if let Some(&place) = place {
                self.removals.push((place, candidate));
            }
        }
    }
}

/// What an entry and a candidate have of an item.
pub(super) struct Item {
    target: Target,
    name: Option<String>,
    /// The name for people.
    label: String,
    pod: Option<PodRef>,
    bytes: Option<u64>,
    details: Details,
}

impl Item {
    /// `symlinks` go with containers.
    pub fn of_container(
        container: &Container,
        runtime: &RuntimeView,
        symlinks: &HashSet<&str>,
        now: Timestamp,
    ) -> Self {
        let Container { id, name, pod_uid, pod_namespace, pod_name, state, created_at, .. } = container;
        // By its label, else by its sandbox.
        let sandbox = || runtime.sandboxes.iter().find(|sandbox| sandbox.id == container.sandbox_id);
        let uid = match pod_uid.as_str() {
            "" => sandbox().map(|sandbox| sandbox.uid.clone()).unwrap_or_default(),
            uid => uid.to_owned(),
        };
        let target = Target::Container {
            id: id.clone(),
            name: name.clone(),
            uid,
            state: *state,
            created_at: *created_at,
            stop_first: c7_stops_first(*state),
            symlink: (!symlinks.is_empty())
                .then(|| logs::c8_symlink(container))
                .flatten()
                .filter(|name| symlinks.contains(name.as_str())),
        };
        let details = Details {
            created_seconds: seconds(*created_at, now),
            state: Some(state.into()),
            ..Details::default()
        };
        let label = container.label();
        let pod = Some(PodRef::new(pod_namespace, pod_name, pod_uid));
        Self { target, name: Some(escaped(name)), label, pod, bytes: container.layer_bytes, details }
    }

    pub fn of_sandbox(sandbox: &Sandbox, now: Timestamp) -> Self {
        let Sandbox { id, uid, namespace, name, created_at, state, .. } = sandbox;
        let target = Target::Sandbox { id: id.clone(), uid: uid.clone(), created_at: *created_at };
        let details = Details {
            created_seconds: seconds(*created_at, now),
            state: Some(state.into()),
            ..Details::default()
        };
        let (label, pod) = (label([namespace, name], id), Some(PodRef::new(namespace, name, uid)));
        Self { target, name: None, label, pod, bytes: None, details }
    }

    pub fn of_directory(directory: &LogDirectory) -> Self {
        let parsed = parse_directory(&directory.name);
        let target = Target::LogDirectory { name: directory.name.clone(), uid: parsed.uid.to_owned() };
        let pod = parsed.named.map(|(namespace, name, uid)| PodRef::new(namespace, name, uid));
        let (label, bytes) = (escaped(&directory.name), Some(directory.bytes));
        Self { target, name: None, label, pod, bytes, details: Details::default() }
    }

    pub fn of_symlink(symlink: &LogSymlink) -> Self {
        let target = Target::LogSymlink { name: symlink.name.clone() };
        let label = escaped(&symlink.name);
        Self { target, name: None, label, pod: None, bytes: None, details: Details::default() }
    }

    pub fn of_image(image: &Image, ledger: &Ledger) -> Self {
        let Image { id, runtime_handler, pinned, bytes, .. } = image;
        let names = image.names().map(str::to_owned).collect();
        let target = Target::Image { id: id.clone(), runtime_handler: runtime_handler.clone(), names };
        let age = ledger.age(&image.key());
        let details = Details {
            tags: image.tags().take(MOST_TAGS).map(escaped).collect(),
            detected_seconds: age.map(|age| age.detected.as_secs()),
            last_used_seconds: age.and_then(|age| age.used).map(|used| used.as_secs()),
            pinned: *pinned,
            runtime_handler: runtime_handler.as_deref().map(escaped),
            ..Details::default()
        };
        let name = image.names().next().map(escaped);
        let label = match details.tags.as_slice() {
            [] => name.clone().unwrap_or_else(|| escaped(id)),
            tags => tags[..tags.len().min(MOST_TAGS_IN_LABEL)].join(","),
        };
        Self { target, name, label, pod: None, bytes: Some(*bytes), details }
    }
}

/// How many seconds ago something was created, if that is known.
fn seconds(created_at: Timestamp, now: Timestamp) -> Option<u64> {
    created_at.age(now).filter(|_| created_at.is_known()).map(|age| age.as_secs())
}
