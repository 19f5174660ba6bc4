//! What one run is made of: each draws which actions and faults there are, and how
//! often, so that over many runs every mixture comes up ("swarm testing": a run with
//! everything in it finds less than many runs with a little each).

use std::time::Duration;

use super::random::Random;

/// What a step can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A few levels of owners and dependents at once.
    CreateTree,
    /// One object, with any references.
    Create,
    /// One object that names some hundreds of owners, of which hardly any exists.
    CreateLarge,
    /// Owners that own each other.
    CreateCycle,
    /// A reference comes.
    Adopt,
    /// A reference goes.
    Release,
    /// All references are replaced.
    ChangeOwners,
    /// `blockOwnerDeletion` of one reference changes.
    FlipBlocking,
    /// DELETE of one object.
    Delete,
    /// DELETE of one that is being deleted already.
    DeleteAgain,
    /// DELETE of a collection.
    DeleteCollection,
    /// A finalizer that is none of the collector's comes.
    AddFinalizer,
    /// One goes.
    RemoveFinalizer,
    /// All of one object's go.
    ClearFinalizers,
    /// A label changes.
    Label,
    /// An object goes and another one comes under its name.
    Recreate,
    /// A custom type comes.
    CreateType,
    /// A custom type goes, with its objects.
    DropType,
    /// A namespace comes.
    CreateNamespace,
    /// A namespace goes, with its objects.
    DeleteNamespace,
    /// Watches break.
    CutWatches,
    /// Watches of one type show nothing for a while.
    StallWatches,
    /// A type's writes are denied from now on, or no longer.
    Deny,
    /// A webhook is asked about one verb on one type in one namespace, and hangs or fails;
    /// or no longer.
    Webhook,
    /// A type's lists fail from now on, or no longer.
    Unlistable,
    /// The watch cache of a type stops, or goes on.
    Freeze,
    /// Old versions are forgotten.
    Compact,
    /// Somebody deletes an owner in the foreground, then has its dependents orphaned,
    /// which the watches do not show yet.
    ChangeOfMind,
    /// Somebody does that while many dependents wait for the collector's rate limit.
    ChangeOfMindInAQueue,
    /// An orphan deletion, with a dependent of a type that cannot be listed.
    UnseenOrphan,
    /// A type is listed anew, by a server that has not seen its newest owner yet.
    BehindTheTimes,
    /// An orphan deletion of an owner of some, of which one is late.
    LateAmongMany,
    /// Nothing can be reached for a while.
    Blackout,
    /// Another replica takes the lease for a while.
    LoseLease,
    /// A backup of the store is taken.
    BackUp,
    /// The store is restored from the last backup.
    Restore,
    /// The same, with a version that is higher than any before.
    RestoreRaised,
    /// Discovery leaves a type out for a while.
    OmitType,
    /// The collector dies and is started again.
    Crash,
    /// Time passes.
    Pass,
    /// Much time passes at once.
    Jump,
}

/// Every action, with its weight where it is enabled.
const ACTIONS: [(Action, u32); 41] = [
    (Action::CreateTree, 30),
    (Action::Create, 60),
    (Action::CreateCycle, 12),
    (Action::Adopt, 40),
    (Action::Release, 20),
    (Action::ChangeOwners, 15),
    (Action::FlipBlocking, 15),
    (Action::Delete, 90),
    (Action::DeleteAgain, 25),
    (Action::DeleteCollection, 3),
    (Action::AddFinalizer, 15),
    (Action::RemoveFinalizer, 30),
    (Action::ClearFinalizers, 15),
    (Action::Label, 20),
    (Action::Recreate, 20),
    (Action::CreateType, 12),
    (Action::DropType, 6),
    (Action::CreateNamespace, 10),
    (Action::DeleteNamespace, 4),
    (Action::CutWatches, 12),
    (Action::StallWatches, 12),
    (Action::Deny, 8),
    (Action::Unlistable, 8),
    (Action::Freeze, 10),
    (Action::Compact, 6),
    (Action::ChangeOfMind, 4),
    (Action::UnseenOrphan, 4),
    (Action::BehindTheTimes, 4),
    (Action::Blackout, 4),
    (Action::Crash, 5),
    (Action::Pass, 90),
    (Action::Jump, 6),
    (Action::BackUp, 40),
    (Action::Restore, 12),
    (Action::LoseLease, 30),
    (Action::LateAmongMany, 30),
    (Action::Webhook, 20),
    (Action::CreateLarge, 40),
    (Action::ChangeOfMindInAQueue, 30),
    (Action::RestoreRaised, 12),
    (Action::OmitType, 20),
];

/// What can happen to a request, in a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// It is answered with 500, 429 or 409, or the connection breaks, before it has
    /// taken effect.
    pub refused: u32,
    /// Its answer is lost.
    pub lost: u32,
    /// It is never answered, and has no effect.
    pub hangs: u32,
    /// It takes its time.
    pub slow: u32,
    /// A watch is answered with 410, or ends with it.
    pub gone: u32,
    /// A watch begins with events that were shown before.
    pub repeated: u32,
    /// A watch's event is late.
    pub late: u32,
    /// A watch ends before an event.
    pub cut: u32,
    /// A write takes effect when nobody waits for its answer any more.
    pub delayed: u32,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many steps.
    pub steps: usize,
    /// The weight of each of [`ACTIONS`].
    weights: Vec<u32>,
    /// What happens to requests.
    pub rates: Rates,
    /// Mistakes in references, in a thousand.
    pub mistakes: u32,
    /// Objects that there may be.
    pub population: usize,
    /// Namespaces that are used.
    pub namespaces: usize,
    /// Names that are used.
    pub names: usize,
    /// Partitions of the graph.
    pub partitions: u16,
    /// Workers of each pool.
    pub workers: usize,
    /// The longest wait before something is tried again.
    pub longest_retry: Duration,
    /// Between two looks at the served types.
    pub discovery: Duration,
    /// How long watches last, at most.
    pub watches: Duration,
    /// Changes of each type that are kept for watches.
    pub history: usize,
    /// Objects per page.
    pub page: u32,
    /// Dependents of an owner that are taken from the graph at a time.
    pub orphan_page: usize,
    /// Absent owners that are remembered.
    pub remembered: usize,
    /// Whether namespaces are emptied when they are deleted.
    pub namespace_controller: bool,
    /// An old server, or a new one.
    pub old_release: bool,
    /// Whether types that nobody uses are watched, too, as they are by default.
    pub watch_all: bool,
    /// Whether the collector is one of several replicas, of which one writes.
    pub is_leased: bool,
    /// Requests about single objects that the collector allows itself in a second; 0: any.
    pub qps: u32,
}

impl Plan {
    /// The run of a seed.
    pub fn new(seed: u64, steps: Option<usize>) -> Self {
        let random = &mut Random::new(seed).split("plan", 0);
        // What came later is drawn apart, so that older seeds without it stay the same.
        let rare = &mut Random::new(seed).split("rare", 0);
        let quiet = random.chance(100);
        let (is_restored, is_delayed) = (rare.chance(200), rare.chance(250));
        let is_leased = Random::new(seed).split("lease", 0).chance(250);
        let has_webhooks = Random::new(seed).split("webhooks", 0).chance(250);
        // Instead of the other, which would be found out by less.
        let is_raised = Random::new(seed).split("raised", 0).chance(150);
        let is_omitting = Random::new(seed).split("omitting", 0).chance(200);
        let orphaning = &mut Random::new(seed).split("orphaning", 0);
        let is_orphaning = orphaning.chance(250);
        let has_large = Random::new(seed).split("large", 0).chance(250);
        let limited = &mut Random::new(seed).split("limit", 0);
        let qps = if limited.chance(200) { limited.pick(&[1, 2, 5]).copied().unwrap_or(1) } else { 0 };
        let weights = ACTIONS
            .iter()
            .map(|(action, weight)| match action {
                // Without these nothing would ever happen.
                Action::Create | Action::Delete | Action::Pass => *weight,
                action if quiet && action.is_fault() => 0,
                Action::BackUp => *weight * u32::from(is_restored || is_raised),
                Action::Restore => *weight * u32::from(is_restored && !is_raised),
                Action::RestoreRaised => *weight * u32::from(is_raised),
                Action::OmitType => *weight * u32::from(is_omitting),
                Action::LoseLease => *weight * u32::from(is_leased),
                Action::Webhook => *weight * u32::from(has_webhooks),
                Action::LateAmongMany => *weight * u32::from(is_orphaning),
                Action::CreateLarge => *weight * u32::from(has_large),
                Action::ChangeOfMindInAQueue => *weight * u32::from(qps > 0),
                _ => [0, *weight, *weight, *weight * 4].get(random.below(4)).copied().unwrap_or_default(),
            })
            .collect();
        let mut rate = |rates: &[u32]| {
            if quiet || random.chance(500) { 0 } else { random.pick(rates).copied().unwrap_or_default() }
        };
        let rates = Rates {
            refused: rate(&[10, 50, 200]),
            lost: rate(&[10, 50, 200]),
            hangs: rate(&[2, 10]),
            slow: rate(&[100, 500, 1000]),
            gone: rate(&[20, 100]),
            repeated: rate(&[100, 500]),
            late: rate(&[50, 300, 900]),
            cut: rate(&[5, 50]),
            delayed: if quiet || !is_delayed {
                0
            } else {
                rare.pick(&[20, 100]).copied().unwrap_or_default()
            },
        };
        let mut one_of = |values: &[u64]| random.pick(values).copied().unwrap_or_default();
        Self {
            steps: steps.unwrap_or(200 + one_of(&[0, 100, 200, 300]) as usize),
            weights,
            is_leased,
            qps,
            rates,
            mistakes: one_of(&[0, 50, 200, 500]) as u32,
            population: one_of(&[8, 20, 40, 60]) as usize,
            namespaces: one_of(&[1, 2, 3]) as usize,
            names: one_of(&[3, 5, 8]) as usize,
            partitions: one_of(&[1, 2, 3]) as u16,
            workers: one_of(&[1, 2, 5, 20]) as usize,
            longest_retry: Duration::from_secs(one_of(&[2, 30, 120])),
            discovery: Duration::from_secs(one_of(&[5, 30, 120])),
            watches: Duration::from_secs(one_of(&[20, 60, 300])),
            history: one_of(&[20, 100, 10_000, 10_000]) as usize,
            page: one_of(&[1, 3, 500, 500]) as u32,
            orphan_page: orphaning.pick(&[1, 2, 128]).copied().unwrap_or(1),
            remembered: one_of(&[64, 500]) as usize,
            namespace_controller: one_of(&[0, 1, 1]) == 1,
            old_release: one_of(&[0, 0, 1]) == 1,
            watch_all: one_of(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 1]) == 1,
        }
    }

    /// Draws a step's action.
    pub fn action(&self, random: &mut Random) -> Action {
        ACTIONS.get(random.weighted(&self.weights)).map_or(Action::Pass, |(action, _)| *action)
    }
}

impl Action {
    /// Whether it is something going wrong, rather than somebody doing something.
    pub const fn is_fault(self) -> bool {
        matches!(
            self,
            Self::CutWatches
                | Self::StallWatches
                | Self::Deny
                | Self::Webhook
                | Self::Unlistable
                | Self::Freeze
                | Self::Compact
                | Self::ChangeOfMind
                | Self::ChangeOfMindInAQueue
                | Self::UnseenOrphan
                | Self::BehindTheTimes
                | Self::LateAmongMany
                | Self::Blackout
                | Self::LoseLease
                | Self::BackUp
                | Self::Restore
                | Self::RestoreRaised
                | Self::OmitType
                | Self::Crash
        )
    }
}
