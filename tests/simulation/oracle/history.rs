//! The history of every uid, derived from the journal alone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use kube_gc_apiserver::object::{Key, Object};
use kube_gc_apiserver::resources::ResourceName;
use kube_gc_apiserver::store::Change;

use super::reference::Reference;

/// The finalizer of a foreground deletion.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an orphan deletion.
pub const ORPHAN: &str = "orphan";

/// Whether an object waits for its blocking dependents (rule 4.10). With both finalizers,
/// orphaning comes first.
pub fn is_waiting(object: &Object) -> bool {
    object.deletion_timestamp().is_some() && object.has_finalizer(FOREGROUND) && !object.has_finalizer(ORPHAN)
}

/// Whether the dependents of an object are to be orphaned.
pub fn is_orphaning(object: &Object) -> bool {
    object.deletion_timestamp().is_some() && object.has_finalizer(ORPHAN)
}

/// One object, existing or deleted.
#[derive(Clone, Debug)]
pub struct Life {
    /// Its type.
    pub resource: ResourceName,
    /// Its namespace and name.
    pub key: Key,
    /// Its present state; `None` if it is deleted.
    pub present: Option<Present>,
    /// The version at which its deletion began.
    pub deletion_began: Option<u64>,
    /// When it was last solid, up to the latest change.
    solid_until: Option<Duration>,
    /// When it was last waiting, up to the latest change.
    waiting_until: Option<Duration>,
    /// Whether it ever had to orphan its dependents.
    pub has_orphaned: bool,
    /// When, and in which run of the collector, its orphan deletion was completed, unless a
    /// foreground deletion was requested since.
    pub orphaned: Option<(u32, Duration)>,
}

impl Life {
    /// Whether it was solid at some moment since then: it existed and was not waiting.
    pub fn was_solid(&self, since: Duration) -> bool {
        let is = self.present.as_ref().is_some_and(|present| !is_waiting(&present.object));
        is || self.solid_until.is_some_and(|until| until >= since)
    }

    /// Whether it was waiting for its dependents at some moment since then.
    pub fn was_waiting(&self, since: Duration) -> bool {
        let is = self.present.as_ref().is_some_and(|present| is_waiting(&present.object));
        is || self.waiting_until.is_some_and(|until| until >= since)
    }
}

/// An object that exists.
#[derive(Clone, Debug)]
pub struct Present {
    /// Its latest version.
    pub object: Object,
    /// Its references, and the version since which it has them.
    pub held: Vec<Held>,
    /// How many versions in a row had the present references and finalizers.
    pub unchanged: u32,
    /// Recent versions: until when each was the latest, and its `unchanged`.
    past: VecDeque<(Duration, Object, u32)>,
}

impl Present {
    /// The versions that were the latest at some moment since then, with their `unchanged`.
    pub fn versions(&self, since: Duration) -> impl Iterator<Item = (&Object, u32)> {
        let past = self.past.iter().filter(move |(until, ..)| *until >= since);
        past.map(|(_, object, unchanged)| (object, *unchanged))
            .chain(std::iter::once((&self.object, self.unchanged)))
    }
}

/// A reference of an object.
#[derive(Clone, Debug)]
pub struct Held {
    /// Its content.
    pub reference: Reference,
    /// The version since which the object has it.
    pub since: u64,
    /// The version since which it blocks, if it does.
    pub blocking_since: Option<u64>,
}

/// The whole history.
#[derive(Clone, Debug, Default)]
pub struct History {
    lives: BTreeMap<String, Life>,
    /// The objects that name a uid now.
    dependents: BTreeMap<String, BTreeSet<String>>,
    /// Every uid that another object has ever named, and whether one of these objects was waiting
    /// for dependents itself at that time.
    named: BTreeMap<String, bool>,
    /// How many objects ever had to orphan their dependents.
    orphaning: usize,
    /// Since when each uid could be known: since it was named by a reference, or created.
    known: BTreeMap<String, Duration>,
    /// The uids of objects that a restore took away.
    taken: BTreeSet<String>,
}

impl History {
    /// The object with a uid, existing or deleted.
    pub fn life(&self, uid: &str) -> Option<&Life> {
        self.lives.get(uid)
    }

    /// The object with a uid, if it exists.
    pub fn present(&self, uid: &str) -> Option<&Present> {
        self.lives.get(uid)?.present.as_ref()
    }

    /// All objects that exist.
    pub fn all(&self) -> impl Iterator<Item = (&Life, &Present)> {
        self.lives.values().filter_map(|life| Some((life, life.present.as_ref()?)))
    }

    /// The other objects that name a uid, each with its references to it.
    pub fn dependents<'a>(&'a self, uid: &'a str) -> impl Iterator<Item = (&'a Life, &'a Present, &'a Held)> {
        let uids = self.dependents.get(uid).into_iter().flatten().filter(move |one| *one != uid);
        uids.filter_map(|one| self.lives.get(one)).flat_map(move |life| {
            let held =
                life.present.iter().flat_map(|present| present.held.iter().map(move |held| (present, held)));
            held.filter(move |(_, held)| held.reference.uid == uid)
                .map(move |(present, held)| (life, present, held))
        })
    }

    /// Whether another object ever named a uid. A late watch may still show that.
    pub fn had_dependents(&self, uid: &str) -> bool {
        self.named.contains_key(uid)
    }

    /// Whether one of those objects was waiting for its own dependents.
    pub fn had_waiting_dependents(&self, uid: &str) -> bool {
        self.named.get(uid).is_some_and(|waiting| *waiting)
    }

    /// How many objects ever had to orphan their dependents.
    pub const fn orphaning(&self) -> usize {
        self.orphaning
    }

    /// Whether an object with this uid ever existed.
    pub fn existed(&self, uid: &str) -> bool {
        self.lives.contains_key(uid) || self.taken.contains(uid)
    }

    /// Since when a uid could be known.
    pub fn known_since(&self, uid: &str) -> Duration {
        self.known.get(uid).copied().unwrap_or(Duration::MAX)
    }

    /// The collector has removed the orphan finalizer of an object.
    pub fn orphaned(&mut self, change: &Change, run: u32, now: Duration) {
        if let Some(life) = self.lives.get_mut(change.after.uid()) {
            life.orphaned = Some((run, now));
        }
    }

    /// A recent version of an object.
    pub fn version(&self, uid: &str, version: &str) -> Option<&Object> {
        let versions = self.present(uid)?.versions(Duration::ZERO);
        versions.map(|(object, _)| object).find(|object| object.resource_version().to_string() == version)
    }

    /// Returns to the state of a backup, and returns the abandoned history. What could be known
    /// of uids stays known.
    pub fn go_back(&mut self, backup: Self) -> Self {
        let abandoned = std::mem::replace(self, backup);
        self.orphaning = abandoned.orphaning;
        for (uid, since) in &abandoned.known {
            self.known.entry(uid.clone()).or_insert(*since);
        }
        self.taken.extend(abandoned.lives.keys().cloned());
        for (uid, waits) in &abandoned.named {
            *self.named.entry(uid.clone()).or_default() |= waits;
        }
        abandoned
    }

    /// Adds a change. Versions that were replaced before `window` are forgotten.
    pub fn record(&mut self, change: &Change, now: Duration, window: Duration) {
        let uid = change.after.uid();
        let mut before = self.lives.get_mut(uid).and_then(|life| life.present.take());
        self.known.entry(uid.to_owned()).or_insert(now);
        for held in before.iter().flat_map(|before| &before.held) {
            if let Some(dependents) = self.dependents.get_mut(&held.reference.uid) {
                dependents.remove(uid);
            }
        }
        let after = (!change.removed).then(|| next(before.as_mut(), change, now, window));
        let waits = after.as_ref().is_some_and(|after| is_waiting(&after.object));
        for held in after.iter().flat_map(|after| &after.held) {
            if held.reference.uid != uid {
                *self.named.entry(held.reference.uid.clone()).or_default() |= waits;
            }
            self.known.entry(held.reference.uid.clone()).or_insert(now);
            self.dependents.entry(held.reference.uid.clone()).or_default().insert(uid.to_owned());
        }
        let life = self.lives.entry(uid.to_owned()).or_insert_with(|| Life {
            resource: change.resource.clone(),
            key: change.key.clone(),
            present: None,
            deletion_began: None,
            solid_until: None,
            waiting_until: None,
            has_orphaned: false,
            orphaned: None,
        });
        if let Some(before) = &before {
            let over =
                if is_waiting(&before.object) { &mut life.waiting_until } else { &mut life.solid_until };
            *over = Some(now);
        }
        if let Some(after) = &after {
            if after.object.deletion_timestamp().is_some() {
                life.deletion_began.get_or_insert(change.version);
            }
            if is_orphaning(&after.object) && !life.has_orphaned {
                life.has_orphaned = true;
                self.orphaning += 1;
            }
            if is_waiting(&after.object) {
                life.orphaned = None;
            }
        }
        life.present = after;
    }
}

/// The next state of an object, which keeps what the previous one remembers.
fn next(before: Option<&mut Present>, change: &Change, now: Duration, window: Duration) -> Present {
    let object = change.after.clone();
    let old: &[Held] = before.as_ref().map_or(&[], |before| &before.held);
    let held = |reference: Reference| {
        let old = old.iter().find(|old| old.reference.is_same(&reference));
        let since = old.map_or(change.version, |old| old.since);
        let blocked = old.and_then(|old| old.blocking_since);
        let blocking_since = reference.blocking.then(|| blocked.unwrap_or(change.version));
        Held { reference, since, blocking_since }
    };
    let held = Reference::all(&object).into_iter().map(held).collect();
    let Some(before) = before else {
        return Present { object, held, unchanged: 1, past: VecDeque::new() };
    };
    let is_unchanged = before.object.owner_references() == object.owner_references()
        && collectors_finalizers(&before.object).eq(collectors_finalizers(&object));
    let mut past = std::mem::take(&mut before.past);
    past.push_back((now, before.object.clone(), before.unchanged));
    while past.front().is_some_and(|(until, ..)| *until + window < now) {
        past.pop_front();
    }
    Present { object, held, unchanged: if is_unchanged { before.unchanged + 1 } else { 1 }, past }
}

fn collectors_finalizers(object: &Object) -> impl Iterator<Item = &str> {
    object.finalizers().filter(|one| matches!(*one, FOREGROUND | ORPHAN))
}
