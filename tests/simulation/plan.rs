//! The plan of one run: which actions and faults there are, and how often. Each run draws its
//! own, so that many runs together cover every mixture ("swarm testing": a run with everything
//! finds less than many runs with a little each).

use std::time::Duration;

use super::actions::{ACTIONS, Act, Action};
use super::random::Random;

/// The rates of faults of requests, in a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// The request gets 500, 429 or 409, or the connection breaks, before it takes effect.
    pub refused: u32,
    /// The answer is lost.
    pub lost: u32,
    /// The request gets no answer and has no effect.
    pub hangs: u32,
    /// The request is slow.
    pub slow: u32,
    /// A watch is answered with 410, or ends with it.
    pub gone: u32,
    /// A watch begins with events that were delivered before.
    pub repeated: u32,
    /// An event of a watch is late.
    pub late: u32,
    /// A watch ends before an event.
    pub cut: u32,
    /// A write takes effect after its client has given up.
    pub delayed: u32,
}

/// The plan of one run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The number of steps.
    pub steps: usize,
    /// The weight of each of [`ACTIONS`].
    weights: Vec<u32>,
    /// The rates of faults of requests.
    pub rates: Rates,
    /// The rate of wrong references, in a thousand.
    pub mistakes: u32,
    /// The maximum number of objects.
    pub population: usize,
    /// The number of namespaces in use.
    pub namespaces: usize,
    /// The number of names in use.
    pub names: usize,
    /// The number of partitions of the graph.
    pub partitions: u16,
    /// The number of workers in each pool.
    pub workers: usize,
    /// The longest backoff.
    pub longest_retry: Duration,
    /// The interval of discovery.
    pub discovery: Duration,
    /// The longest duration of a watch.
    pub watches: Duration,
    /// How many changes of each type are kept for watches.
    pub history: usize,
    /// The number of objects in a page.
    pub page: u32,
    /// How many dependents of an owner are read from the graph at a time.
    pub orphan_page: usize,
    /// The capacity of the cache of absent owners.
    pub remembered: usize,
    /// Whether deleted namespaces are emptied.
    pub namespace_controller: bool,
    /// Whether the server is an old release.
    pub old_release: bool,
    /// Whether types that nobody uses are watched, too, as they are by default.
    pub watch_all: bool,
    /// Whether the collector is one of several replicas, one of which writes.
    pub is_leased: bool,
    /// The collector's limit of requests about single objects per second; 0 means none.
    pub qps: u32,
}

impl Plan {
    /// The plan of a seed.
    pub fn new(seed: u64) -> Self {
        let random = &mut Random::new(seed).split("plan", 0);
        // Faults that were added later are drawn from another stream, so that older seeds without
        // them stay the same.
        let rare = &mut Random::new(seed).split("rare", 0);
        let quiet = random.chance(100);
        let (is_restored, is_delayed) = (rare.chance(200), rare.chance(250));
        let is_leased = Random::new(seed).split("lease", 0).chance(250);
        let has_webhooks = Random::new(seed).split("webhooks", 0).chance(250);
        // It replaces the other kind of restore, which fewer checks would find.
        let is_raised = Random::new(seed).split("raised", 0).chance(150);
        let is_omitting = Random::new(seed).split("omitting", 0).chance(200);
        let orphaning = &mut Random::new(seed).split("orphaning", 0);
        let is_orphaning = orphaning.chance(250);
        let has_large = Random::new(seed).split("large", 0).chance(250);
        let chance = |purpose, per_mille| Random::new(seed).split(purpose, 0).chance(per_mille);
        let (has_births, is_denying) = (chance("births", 250), chance("denying", 250));
        let is_returning = chance("returning", 250);
        // A type that discovery omits may be passed over, whatever else happens to its group.
        let is_away = chance("away", 200) && !is_omitting;
        let limited = &mut Random::new(seed).split("limit", 0);
        let qps = if limited.chance(200) { limited.pick(&[1, 2, 5]).copied().unwrap_or(1) } else { 0 };
        let weights = ACTIONS
            .iter()
            .map(|(action, weight, is_fault, _)| match action {
                // Without these, nothing would ever happen.
                Action::Create | Action::Delete | Action::Pass => *weight,
                _ if quiet && *is_fault => 0,
                Action::BackUp => *weight * u32::from(is_restored || is_raised),
                Action::Restore => *weight * u32::from(is_restored && !is_raised),
                Action::RestoreRaised => *weight * u32::from(is_raised),
                Action::OmitType => *weight * u32::from(is_omitting),
                Action::LoseLease => *weight * u32::from(is_leased),
                Action::Birth => *weight * u32::from(has_births),
                Action::DenyByAdmission => *weight * u32::from(is_denying),
                Action::BringBack => *weight * u32::from(is_returning),
                Action::GroupAway => *weight * u32::from(is_away),
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
            steps: 200 + one_of(&[0, 100, 200, 300]) as usize,
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

    /// Whether the run can do this.
    pub fn includes(&self, wanted: Action) -> bool {
        ACTIONS.iter().zip(&self.weights).any(|((action, ..), weight)| *action == wanted && *weight > 0)
    }

    /// Draws the action of a step.
    pub fn action(&self, random: &mut Random) -> (Action, Act) {
        let (action, _, _, act) = ACTIONS[random.weighted(&self.weights)];
        (action, act)
    }
}
