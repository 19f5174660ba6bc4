//! The oracle: what a garbage collector must do, as code.
//!
//! It shares nothing with the collector. It reads the server's journal, change by
//! change, and has therefore what the collector never has: the whole history. So it
//! can say of each write whether it was right at the moment when it took effect,
//! and of a state in which nothing happens any more whether it is the one that the
//! rules require.
//!
//! | file | rules |
//! |---|---|
//! | [`deletes`] | a DELETE: owners absent or waiting, preconditions, policy, no lost orphan |
//! | [`patches`] | a PATCH: owner references that go or stop blocking, and nothing else |
//! | [`finalizers`] | a finalizer that goes: no lost orphan, nobody blocks any more |
//! | [`restores`] | the store goes back to a backup: what is true then, and for whom |
//! | [`rest`] | at rest: no garbage, no stuck finalizer, nothing hidden |
//!
//! Rules are those of `docs/semantics.md`.
//!
//! # What it has to be told
//!
//! The journal does not say what the collector can know. Where a rule depends on
//! that, the driver tells, and what it does not tell is not held against the
//! collector: [`Oracle::types`], [`Oracle::listed`], [`Oracle::shown`],
//! [`Oracle::restarted`]; and what became of the store behind the journal's back:
//! [`Oracle::backed_up`], [`Oracle::restored`].

mod classes;
mod deletes;
mod finalizers;
mod history;
mod knowledge;
mod patches;
mod reference;
mod rest;
mod restores;
mod types;
mod violation;

use std::collections::BTreeSet;
use std::time::Duration;

use kube_gc_apiserver::resources::{Resource, ResourceName};
use kube_gc_apiserver::store::Change;

use self::history::History;
use self::knowledge::Knowledge;
use self::restores::Branch;
use self::types::Types;
pub use self::violation::{Rule, Violation};

/// How a world's collector may differ from an ideal one that needs no time.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// The longest time between what a decision rests on and its effect. At least the
    /// second for which a waiting owner's confirmation holds (rule 4.31), plus what the
    /// requests in between may take in this world: a decision is at most five reads and
    /// five writes long.
    pub decision: Duration,
    /// How much older what a patch rests on may be: an object's owners are looked up
    /// together, and the slowest one holds up the verdict. (A DELETE makes sure at
    /// the end.)
    pub look_up: Duration,
    /// The longest that a request may be on its way.
    pub delay: Duration,
    /// How many owners the collector remembers to have orphaned, at least.
    pub remembered: usize,
    /// How the collector's user agent begins.
    pub collector: &'static str,
    /// Types that it does not watch, by configuration (rule 2.2).
    pub ignored: Vec<ResourceName>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            decision: Duration::from_secs(2),
            look_up: Duration::from_secs(10),
            delay: Duration::from_secs(120),
            remembered: 500,
            collector: "kube-gc/",
            ignored: vec![ResourceName::new("", "events"), ResourceName::new("events.k8s.io", "events")],
        }
    }
}

impl Bounds {
    /// How far back what has an effect now may reach.
    fn memory(&self) -> Duration {
        self.decision + self.delay
    }
}

/// Judges one world, from its beginning on. Each change costs as much as the
/// references that it touches, however long the history is.
#[derive(Debug)]
pub struct Oracle {
    bounds: Bounds,
    types: Types,
    history: History,
    knowledge: Knowledge,
    /// The time of the latest change.
    now: Duration,
    /// When it was asked for.
    sent: Duration,
    /// What a restore of the store would go back to.
    backup: Option<History>,
    /// What was true until the store was restored.
    abandoned: Option<Branch>,
    /// The latest request that was judged.
    judged: u64,
}

impl Oracle {
    /// An oracle for a world in which nothing has happened.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            types: Types::default(),
            history: History::default(),
            knowledge: Knowledge::default(),
            now: Duration::ZERO,
            sent: Duration::ZERO,
            backup: None,
            abandoned: None,
            judged: 0,
        }
    }

    /// These types are served from now on. To be told before the changes that come
    /// after it; the same again costs little.
    pub fn types<'a>(&mut self, served: impl IntoIterator<Item = &'a Resource>, now: Duration) {
        for gone in self.types.serve(served, now) {
            self.knowledge.forget(&gone);
        }
    }

    /// The collector asked for a whole list of a type and got it, or not (the last
    /// page counts). A type of which it has never got one may be unknown to it.
    pub fn listed(&mut self, resource: &ResourceName, whole: bool, now: Duration) {
        self.knowledge.listed(resource, whole, now);
    }

    /// The collector has been shown all changes of a type up to this version, and
    /// has had the time to take them in.
    pub fn shown(&mut self, resource: &ResourceName, version: u64, now: Duration) {
        self.knowledge.shown(resource, version, now, self.bounds.memory());
    }

    /// The collector was killed, and a new one begins, which knows nothing; or it was
    /// told that the store was restored, and forgets all it knew.
    pub fn restarted(&mut self) {
        self.knowledge.restarted();
    }

    /// Takes in the next change of the journal, at this time, and judges it if it is
    /// the collector's. `sent`: when the request left the collector's hands.
    pub fn observe(&mut self, change: &Change, now: Duration, sent: Duration) -> Result<(), Violation> {
        (self.now, self.sent) = (now, sent);
        if restores::is_part_of_one(change) {
            return Ok(());
        }
        let is_to_judge = self.is_collectors(change) && change.cause.request != self.judged;
        if is_to_judge {
            self.judged = change.cause.request;
        }
        let judged = if is_to_judge { self.judge_or_excuse(change) } else { Ok(()) };
        let orphaned = judged.is_ok() && is_to_judge && finalizers::orphaned(change);
        self.history.record(change, now, self.bounds.memory());
        if orphaned {
            self.history.orphaned(change, self.knowledge.run(), now);
        }
        judged
    }

    /// Judges the state as it is now, when nothing happens any more: all faults are
    /// over, everything was delivered, the collector is idle. `visible`: the uids of
    /// the objects that it names, with the reason, as not decided.
    pub fn at_rest(&self, visible: &BTreeSet<String>) -> Result<(), Violation> {
        rest::judge(self, visible)
    }

    /// Changes that the server makes to other objects as a consequence (those of a
    /// CRD that is deleted, of a namespace) are its own. So is the second step of a
    /// request, in which an object goes that was changed first.
    fn is_collectors(&self, change: &Change) -> bool {
        let path = change.cause.path.split('?').next().unwrap_or_default();
        let mut parts = path.rsplit('/');
        let named = parts.next() == Some(&*change.key.name) && parts.next() == Some(&*change.resource.plural);
        change.cause.user_agent.starts_with(self.bounds.collector)
            && (named || change.cause.method == "POST" || change.cause.method == "PUT")
    }

    fn judge(&self, change: &Change) -> Result<(), Violation> {
        match change.cause.method.as_str() {
            "DELETE" => deletes::judge(self, change),
            // What it reports (rule 9.1), and the lease by which it may write at all.
            _ if matches!(&*change.resource.plural, "events" | "leases") => Ok(()),
            "PATCH" => patches::judge(self, change),
            method => {
                Err(Violation::of(change, Rule::ForeignWrite, format!("it has no business to {method}")))
            }
        }
    }

    /// Whether the collector watches a type (rules 2.1 and 2.2).
    fn is_watched(&self, resource: &ResourceName) -> bool {
        !self.bounds.ignored.contains(resource) && self.types.is_watchable(resource)
    }
}
