//! The API server: objects, versions, finalizers, what users do, and a journal of each type, which watches
//! read.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::{DeletionState, Finalizers, PropagationPolicy};

use super::cast::{Life, Owner, SLOTS, Slot, TYPES, kind_of};
use super::scenes::Scene;
use super::sketch::Version;
use super::state::Choice;

/// What breaks a rule, in a sentence.
pub type Violation = String;

/// An owner reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ref {
    pub owner: Owner,
    pub blocking: bool,
    /// It was there before the deletion of the owner began.
    pub early: bool,
}

#[derive(Clone, Debug, Hash)]
pub struct Object {
    pub life: Life,
    pub refs: Vec<Ref>,
    pub finalizers: Finalizers,
    /// A finalizer of others.
    pub held: bool,
    pub deleting: bool,
    pub version: Version,
}

impl Object {
    pub const fn state(&self) -> DeletionState {
        DeletionState::derive(self.deleting, self.finalizers)
    }
    pub fn waits(&self) -> bool {
        self.state() == DeletionState::DeletingDependents
    }
}

/// A change in the words of a watch.
#[derive(Clone, Debug, Hash)]
pub struct Event {
    pub gone: bool,
    pub object: Rc<Object>,
}

/// The changes of one type since a state of it.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    pub base: Vec<Rc<Object>>,
    pub events: VecDeque<Event>,
}

impl Journal {
    /// The objects after this number of events.
    pub fn at(&self, place: usize) -> Vec<Rc<Object>> {
        let mut objects = self.base.clone();
        for Event { gone, object } in self.events.iter().take(place) {
            objects.retain(|it| it.life.slot != object.life.slot);
            objects.extend((!gone).then(|| Rc::clone(object)));
        }
        objects.sort_by_key(|object| object.life);
        objects
    }

    /// Forgets this number of events.
    pub fn trim(&mut self, count: usize) {
        self.base = self.at(count);
        self.events.drain(..count);
    }
}

/// A write of the collector that is under way.
#[derive(Clone, Debug, Hash)]
pub struct Request {
    pub life: Life,
    /// The version that it is bound to, if any.
    pub version: Option<Version>,
    pub what: Write,
}

#[derive(Clone, Debug, Hash)]
pub enum Write {
    /// `excused`: owners that waited when this was confirmed, less than a second before it was sent.
    Delete {
        policy: PropagationPolicy,
        excused: Vec<Owner>,
    },
    Unref {
        remove: Vec<Owner>,
        excused: Vec<Owner>,
        solid_seen: bool,
    },
    StopBlocking,
    /// `blocking`: what blocked the object when the collector looked, and had been shown to it.
    Finalize {
        orphan: bool,
        blocking: Vec<Life>,
    },
}

#[derive(Clone, Debug, Hash)]
pub enum Answer {
    /// Neither this object nor its successor was touched; a GET has proved that it is gone.
    Gone,
    Conflict,
    Removed(Rc<Object>),
    Changed(Rc<Object>),
    Unneeded(Rc<Object>),
}

#[derive(Clone, Debug, Default)]
pub struct Server {
    pub objects: [Option<Rc<Object>>; SLOTS],
    pub version: Version,
    /// The number of the next life of each name.
    pub next: [u8; SLOTS],
    /// Objects in admission: their uids are known, and they are not stored.
    pub conceived: [Option<Life>; SLOTS],
    pub journals: [Journal; TYPES],
    /// What has waited for its dependents since the last second began.
    pub waited: BTreeSet<Life>,
    /// What has orphaned its dependents at some time.
    pub orphaning: BTreeSet<Life>,
    /// Owners whose finalizer `orphan` the present collector removed.
    pub orphaned: BTreeSet<Life>,
    /// What a restore brings back.
    pub backup: Option<Rc<Server>>,
}

impl Server {
    pub fn object(&self, life: Life) -> Option<&Rc<Object>> {
        self.objects[usize::from(life.slot)].as_ref().filter(|object| object.life == life)
    }

    /// What a GET by this kind and name finds.
    pub fn get(&self, owner: Owner) -> Option<&Rc<Object>> {
        let object = self.objects.get(usize::from(owner.name))?.as_ref()?;
        let is_it = object.life == owner.life || mutation::is(Mutation::AnyUidIsTheOwner);
        (kind_of(owner.name) == owner.life.kind() && is_it).then_some(object)
    }

    /// The version of a list of what a type was at this place: the greatest at which it was so.
    pub fn list_version(&self, kind: usize, place: usize) -> Version {
        let next = self.journals[kind].events.get(place);
        next.map_or(self.version, |next| Version(next.object.version.0 - 1))
    }

    fn record(&mut self, gone: bool, object: &Rc<Object>) {
        self.journals[object.life.kind()].events.push_back(Event { gone, object: Rc::clone(object) });
    }

    pub fn put(&mut self, mut object: Object) -> Rc<Object> {
        self.version.0 += 1;
        object.version = self.version;
        match object.state() {
            DeletionState::DeletingDependents => _ = self.waited.insert(object.life),
            DeletionState::Orphaning => _ = self.orphaning.insert(object.life),
            DeletionState::Live | DeletionState::Terminating => {}
        }
        let object = Rc::new(object);
        self.objects[usize::from(object.life.slot)] = Some(Rc::clone(&object));
        self.record(false, &object);
        object
    }

    /// Stores an object that was changed, or removes it if nothing keeps it any longer.
    fn save(&mut self, object: Object) -> Answer {
        let Finalizers { foreground, orphan } = object.finalizers;
        if !object.deleting || object.held || foreground || orphan {
            return Answer::Changed(self.put(object));
        }
        let place = usize::from(object.life.slot);
        let last = self.objects[place].take().unwrap_or_else(|| Rc::new(object));
        self.version.0 += 1;
        self.record(true, &Rc::new(Object { version: self.version, ..Object::clone(&last) }));
        Answer::Removed(last)
    }

    /// A DELETE replaces the finalizers of the collector by that of its policy.
    fn delete(&mut self, object: &Rc<Object>, policy: PropagationPolicy) -> Answer {
        let finalizers = finalizers(policy);
        if object.deleting && object.finalizers == finalizers {
            return Answer::Unneeded(Rc::clone(object));
        }
        self.save(Object { finalizers, deleting: true, ..Object::clone(object) })
    }

    /// Carries a write of the collector out, and judges it.
    ///
    /// # Errors
    /// It breaks a rule.
    pub fn effect(&mut self, Request { life, version, what }: &Request) -> Result<Answer, Violation> {
        let is_finalizer = matches!(what, Write::Finalize { .. });
        let by_name = is_finalizer && mutation::is(Mutation::FinalizeByName);
        let present =
            if by_name { self.objects[usize::from(life.slot)].as_ref() } else { self.object(*life) };
        let Some(object) = present.map(Rc::clone) else { return Ok(Answer::Gone) };
        let is_delete = matches!(what, Write::Delete { .. });
        let unbound = by_name || is_delete && mutation::is(Mutation::DeleteWithoutVersion);
        if version.filter(|_| !unbound).is_some_and(|bound| bound != object.version) {
            return Ok(Answer::Conflict);
        }
        let mut new = Object::clone(&object);
        match what {
            Write::Delete { policy, excused } => {
                self.judge_delete(&object, *policy, excused)?;
                return Ok(self.delete(&object, *policy));
            }
            Write::Unref { remove, excused, solid_seen } => {
                self.judge_unref(&object, remove, excused, *solid_seen)?;
                new.refs.retain(|reference| !remove.contains(&reference.owner));
            }
            Write::StopBlocking => new.refs.iter_mut().for_each(|reference| reference.blocking = false),
            Write::Finalize { orphan, blocking } => {
                self.judge_finalize(&object, *orphan, blocking)?;
                if *orphan {
                    new.finalizers.orphan = false;
                    self.orphaned.insert(*life);
                } else {
                    new.finalizers.foreground = false;
                }
            }
        }
        let same = new.refs == object.refs && new.finalizers == object.finalizers;
        Ok(if same { Answer::Unneeded(object) } else { self.save(new) })
    }

    /// The clock of the confirmations goes on.
    pub fn second(&mut self) {
        let waiting = self.objects.iter().flatten().filter(|object| object.waits());
        self.waited = waiting.map(|object| object.life).collect();
    }

    /// The store is as it was in the backup, at that version or at a raised one. Uids are never reused.
    pub fn restore(&mut self, raised: bool) {
        let Some(backup) = self.backup.clone() else { return };
        let (next, version) = (self.next, self.version);
        *self = Self { backup: Some(Rc::clone(&backup)), next, ..Self::clone(&backup) };
        if raised {
            self.version = Version(version.0 + 10);
        }
        for (kind, journal) in self.journals.iter_mut().enumerate() {
            let base = self.objects.iter().flatten().filter(|object| object.life.kind() == kind);
            *journal = Journal { base: base.cloned().collect(), events: VecDeque::new() };
        }
        self.second();
    }
}

pub fn finalizers(policy: PropagationPolicy) -> Finalizers {
    let is = |other| policy == other;
    Finalizers { foreground: is(PropagationPolicy::Foreground), orphan: is(PropagationPolicy::Orphan) }
}

/// Users.
impl Server {
    /// The present life of a name, in admission or stored, or else the last one.
    pub fn life_of(&self, slot: Slot) -> Option<Life> {
        let stored = self.objects[usize::from(slot)].as_ref().map(|object| object.life);
        let last = self.next[usize::from(slot)].checked_sub(1).map(|number| Life { slot, number });
        self.conceived[usize::from(slot)].or(stored).or(last)
    }

    fn reference(&self, owner: Owner, blocking: bool) -> Ref {
        let is_present = |object: &Rc<Object>| object.life == owner.life && !object.deleting;
        let is_to_come = self.life_of(owner.life.slot).is_none_or(|life| life < owner.life);
        let stored = self.objects[usize::from(owner.life.slot)].as_ref();
        let early =
            stored.is_some_and(is_present) || self.conceived.contains(&Some(owner.life)) || is_to_come;
        Ref { owner, blocking, early }
    }

    fn change(&mut self, slot: Slot, change: impl FnOnce(&mut Object)) {
        if let Some(object) = &self.objects[usize::from(slot)] {
            let mut object = Object::clone(object);
            change(&mut object);
            self.save(object);
        }
    }

    /// Creates an object as the scene has it. `present`: its references are to what exists now.
    pub fn create(&mut self, scene: &Scene, life: Life, present: bool) {
        let part = &scene.parts[usize::from(life.slot)];
        let owner = |owner: Owner| match self.life_of(owner.life.slot).filter(|_| present) {
            Some(life) => Owner { life, ..owner },
            None => owner,
        };
        let refs = part.refs.iter().map(|(to, blocking)| self.reference(owner(*to), *blocking)).collect();
        let finalizers = Finalizers { foreground: false, orphan: part.protected };
        self.put(Object { life, refs, finalizers, held: part.held, deleting: false, version: Version(0) });
    }

    fn next_life(&mut self, slot: Slot) -> Life {
        let next = &mut self.next[usize::from(slot)];
        *next += 1;
        Life { slot, number: *next - 1 }
    }

    pub fn operate(&mut self, scene: &Scene, choice: Choice) {
        match choice {
            Choice::Delete(slot, policy) => {
                if let Some(object) = self.objects[usize::from(slot)].clone() {
                    self.delete(&object, policy);
                }
            }
            Choice::Create(slot, present) => {
                let life = self.next_life(slot);
                self.create(scene, life, present);
            }
            Choice::Conceive(slot) => self.conceived[usize::from(slot)] = Some(self.next_life(slot)),
            Choice::Bear(slot) => {
                if let Some(life) = self.conceived[usize::from(slot)].take() {
                    self.create(scene, life, false);
                }
            }
            Choice::Miscarry(slot) => self.conceived[usize::from(slot)] = None,
            Choice::Drop(slot, index) => self.change(slot, |it| _ = it.refs.remove(usize::from(index))),
            Choice::Block(slot, index) => {
                self.change(slot, |it| it.refs[usize::from(index)].blocking ^= true);
            }
            Choice::Refer(slot, to) => {
                if let Some(life) = self.life_of(to) {
                    let reference = self.reference(life.into(), true);
                    self.change(slot, |it| it.refs.push(reference));
                }
            }
            Choice::Unhold(slot) => self.change(slot, |it| it.held = false),
            Choice::Protect(slot) => self.change(slot, |it| it.finalizers.orphan = true),
            // A status.
            Choice::Touch(slot) => self.change(slot, |_| {}),
            _ => {}
        }
    }
}
