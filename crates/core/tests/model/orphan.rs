//! The orphan pool's worker, step by step.

use kube_gc_core::graph::Snapshot;
use kube_gc_core::mailbox::Completion;
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::DeletionState;

use super::cast::{self, Life, Owner};
use super::collector::Reason;
use super::server::Write;
use super::sketch::{Item, Version};
use super::task::{Finalizer, Next, Task, Then, changed, conflict};
use super::worker::Desk;

/// An owner whose dependents are released.
#[derive(Clone, Debug, Hash)]
pub struct Orphaning {
    pub owner: Life,
    /// The version at which it was seen orphaning.
    known: Version,
    pub stage: Stage,
    /// Those that are to be released now, and what they name.
    pending: Vec<(Life, Owner)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The owner was last seen before watches broke: it is read.
    Confirm,
    /// The owner is cluster-scoped: its partition hears from the other first.
    Links,
    /// The dependents that the graph knows.
    Known,
    /// The late ones among this type.
    Round(usize),
}

impl Desk<'_> {
    /// `OrphanWork::orphaning`.
    fn orphaning(&mut self, of: Life) -> Result<Item, Completion<Reason>> {
        match self.snapshot(of) {
            Snapshot::Object(item) if item.deletion == DeletionState::Orphaning => Ok(Item(*item)),
            Snapshot::Object(item) => {
                if item.deletion != DeletionState::Terminating {
                    self.collector.orphaned.remove(&of.into());
                }
                Err(Completion::Done)
            }
            Snapshot::Virtual { .. } | Snapshot::Gone => Err(Completion::Done),
            Snapshot::AwaitsEvent => Err(conflict()),
        }
    }

    /// `OrphanWork::attempt`.
    pub fn begin_orphaning(&mut self, owner: Life) -> Next {
        let item = match self.orphaning(owner) {
            Err(completion) => return Next::Done(completion),
            Ok(item) => item,
        };
        let orphaning =
            Orphaning { owner, known: item.version(), stage: Stage::Confirm, pending: Vec::new() };
        if self.collector.fence.disturbance().is_before(item.resource_version.as_ref()) {
            self.release_known(orphaning)
        } else {
            Next::Go(Task::Orphan(orphaning))
        }
    }

    /// `OrphanWork::release_known`, after the links.
    fn release_known(&mut self, mut orphaning: Orphaning) -> Next {
        let home = cast::home(orphaning.owner);
        if home == 0 && orphaning.stage != Stage::Links {
            return Next::Go(Task::Orphan(Orphaning { stage: Stage::Links, ..orphaning }));
        }
        let (key, graph) = (cast::key(orphaning.owner), &self.collector.graph[home]);
        let views = graph.dependent_views(&key, &graph.dependents(&key));
        let pending = views.iter().map(|it| (cast::life(&it.identity.uid), cast::named(&it.reference)));
        (orphaning.pending, orphaning.stage) = (pending.collect(), Stage::Known);
        self.release(orphaning)
    }

    /// `orphan_dependent` for the next dependent, and what follows the last one.
    pub fn release(&mut self, mut orphaning: Orphaning) -> Next {
        if let Some((life, owner)) = orphaning.pending.pop() {
            let what = Write::Unref { remove: vec![owner], excused: Vec::new(), solid_seen: false };
            return self.send(life, None, what, Then::Released(orphaning));
        }
        orphaning.stage = match orphaning.stage {
            Stage::Round(kind) => Stage::Round(kind + 1),
            _ if mutation::is(Mutation::SkipOrphanRound) => Stage::Round(self.collector.kinds),
            Stage::Confirm | Stage::Links | Stage::Known => Stage::Round(0),
        };
        if orphaning.stage == Stage::Round(self.collector.kinds) {
            self.end(&orphaning)
        } else {
            Next::Go(Task::Orphan(orphaning))
        }
    }

    /// `OrphanWork::confirm`, or `Looker::list` of a confirmation round.
    pub fn orphan(&mut self, mut orphaning: Orphaning) -> Next {
        let (owner, server) = (orphaning.owner, &self.world.server);
        let kind = match orphaning.stage {
            Stage::Round(kind) => kind,
            Stage::Links => return self.release_known(orphaning),
            Stage::Confirm | Stage::Known => {
                let live = server.object(owner);
                let orphans = live.is_some_and(|live| live.state() == DeletionState::Orphaning);
                return if orphans { self.release_known(orphaning) } else { changed() };
            }
        };
        let others = server.objects.iter().flatten().filter(|it| it.life.kind() == kind && it.life != owner);
        let late = others.filter(|it| it.refs.iter().any(|reference| reference.owner == owner.into()));
        orphaning.pending = late.map(|it| (it.life, owner.into())).collect();
        self.world.say(|| format!("the collector lists a type, late dependents: {:?}", orphaning.pending));
        self.release(orphaning)
    }

    /// The end of `OrphanWork::attempt`.
    fn end(&mut self, &Orphaning { owner: life, known, .. }: &Orphaning) -> Next {
        if let Err(completion) = self.orphaning(life) {
            return Next::Done(completion);
        }
        let in_doubt = self.collector.orphaned.contains(&life.into());
        if !mutation::is(Mutation::ForgetOrphaned) {
            self.collector.orphaned.insert(life.into());
        }
        Next::Go(Task::Unfinalize(Finalizer { life, known, orphan: true, blocking: Vec::new(), in_doubt }))
    }
}
