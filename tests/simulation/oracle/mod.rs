//! The oracle: the rules of a garbage collector, as code.
//!
//! It shares no code with the collector. It reads the server's journal, change by change, and
//! therefore knows the whole history, which the collector never does. So it can judge whether
//! each write was right at the moment when it took effect, and whether the final state is the one
//! that the rules require.
//!
//! | file | rules |
//! |---|---|
//! | [`deletes`] | a DELETE: owners absent or waiting, preconditions, policy, no lost orphan |
//! | [`patches`] | a PATCH: owner references are removed or stop blocking, and nothing else changes |
//! | [`finalizers`] | the removal of a finalizer: no lost orphan, no blocking dependent |
//! | [`restores`] | the store is restored: which history each request is judged by |
//! | [`rest`] | the final state: no garbage, no stuck finalizer, nothing hidden |
//!
//! Rules are those of `docs/semantics.md`.
//!
//! # What the driver reports
//!
//! The journal does not say what the collector can know. Where a rule depends on that, the driver
//! reports it ([`Oracle::knowledge`]), and the oracle assumes that the collector does not know the
//! rest. The driver also reports which types are served ([`Oracle::types`]), and changes of the store
//! that the journal does not have: [`Oracle::backed_up`], [`Oracle::restored`].

mod classes;
mod deletes;
mod finalizers;
mod history;
mod knowledge;
mod patches;
mod reference;
mod rest;
pub mod restores;
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

/// How the collector of a run may differ from an ideal one that needs no time.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// The longest time between a decision's basis and its effect. At least the second for which
    /// the confirmation of a waiting owner holds (rule 4.31), plus the duration of the requests
    /// in between: a decision has at most five reads and five writes.
    pub decision: Duration,
    /// How much older the basis of a patch may be: the owners of an object are looked up
    /// together, and the slowest lookup delays the verdict. (A DELETE confirms at the end.)
    pub look_up: Duration,
    /// The longest time that a request may be in flight.
    pub delay: Duration,
    /// How old an object must be before an owner that never existed may be taken for absent (rule
    /// 1.28): it may be in admission.
    pub birth: Duration,
    /// How long a group that does not answer holds owners that orphan their dependents (rule 5.14).
    pub orphan_wait: Duration,
    /// The minimum number of orphaned owners that the collector remembers.
    pub remembered: usize,
    /// The prefix of the collector's user agent.
    pub collector: &'static str,
    /// Types that the collector ignores (rule 2.2).
    pub ignored: Vec<ResourceName>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            decision: Duration::from_secs(2),
            look_up: Duration::from_secs(10),
            delay: Duration::from_secs(120),
            birth: Duration::from_secs(2),
            orphan_wait: Duration::from_secs(600),
            remembered: 500,
            collector: "kube-gc/",
            ignored: vec![ResourceName::new("", "events"), ResourceName::new("events.k8s.io", "events")],
        }
    }
}

impl Bounds {
    /// How far back the basis of a present effect may be.
    fn memory(&self) -> Duration {
        self.decision + self.delay
    }
}

/// Judges one run from its beginning. The cost of a change depends on the references that it
/// touches, not on the length of the history.
#[derive(Debug)]
pub struct Oracle {
    bounds: Bounds,
    types: Types,
    history: History,
    /// What the collector can know.
    pub knowledge: Knowledge,
    /// The time of the latest change.
    now: Duration,
    /// When it was sent.
    sent: Duration,
    /// The state that a restore would return to.
    backup: Option<History>,
    /// The history that a restore abandoned.
    abandoned: Option<Branch>,
    /// The latest request that was judged.
    judged: u64,
    /// When the clock last jumped. Whatever is older has any age.
    jumped: Option<Duration>,
}

impl Oracle {
    /// An oracle for an empty cluster.
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
            jumped: None,
        }
    }

    /// These types are served from now on. Must be called before the changes that follow.
    /// Repeating the same types costs little.
    pub fn types<'a>(&mut self, served: impl IntoIterator<Item = &'a Resource>, now: Duration) {
        for gone in self.types.serve(served, now) {
            self.knowledge.forget(&gone);
        }
    }

    /// The collector was shown all changes of a type up to this version, and had time to process
    /// them.
    pub fn shown(&mut self, resource: &ResourceName, version: u64, now: Duration) {
        self.knowledge.shown(resource, version, now, self.bounds.memory());
    }

    /// The clock of the server is about to jump, which this time does not show.
    pub fn jumped(&mut self, now: Duration) {
        self.jumped = Some(now);
    }

    /// Processes the next change of the journal at this time, and judges it if it is the
    /// collector's. `sent` is when the request left the collector.
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

    /// Judges the final state, when all faults are over, everything was delivered, and the
    /// collector is idle. `visible` has the uids of the objects that the collector reports as
    /// undecided, with the reason.
    pub fn at_rest(&self, visible: &BTreeSet<String>) -> Result<(), Violation> {
        rest::judge(self, visible)
    }

    /// Whether a change is the collector's own. Changes to other objects that the server makes as
    /// a consequence (of the deletion of a CRD or a namespace) are the server's, and so is the
    /// second step of a request, in which a changed object is removed.
    pub fn is_collectors(&self, change: &Change) -> bool {
        let path = change.cause.path.split('?').next().unwrap_or_default();
        let mut parts = path.rsplit('/');
        let named = parts.next() == Some(&*change.key.name) && parts.next() == Some(&*change.resource.plural);
        change.cause.user_agent.starts_with(self.bounds.collector)
            && (named || change.cause.method == "POST" || change.cause.method == "PUT")
    }

    fn judge(&self, change: &Change) -> Result<(), Violation> {
        match change.cause.method.as_str() {
            "DELETE" => deletes::judge(self, change),
            // The collector's reports (rule 9.1), and the lease that allows it to write.
            _ if matches!(&*change.resource.plural, "events" | "leases") => Ok(()),
            "PATCH" => patches::judge(self, change),
            method => {
                Err(Violation::of(change, Rule::ForeignWrite, format!("it has no business to {method}")))
            }
        }
    }

    /// Whether less than this time has passed since then, also by the clock of the server.
    fn is_within(&self, time: Duration, since: Duration) -> bool {
        self.now < since + time && self.jumped.is_none_or(|jumped| jumped < since)
    }

    /// Whether the collector watches a type (rules 2.1 and 2.2).
    fn is_watched(&self, resource: &ResourceName) -> bool {
        !self.bounds.ignored.contains(resource) && self.types.is_watchable(resource)
    }
}
