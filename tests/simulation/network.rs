//! What lies between the collector and the server, and what goes wrong there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::time::Instant;

use super::plan::Rates;
use super::random::Random;
use super::trace::Trace;

/// More requests than this within one step are a loop that does not end.
const RUNAWAY: u64 = 100_000;

/// The state of the network. Clones are the same network.
#[derive(Clone, Debug)]
pub struct Network {
    shared: Arc<Mutex<Shared>>,
    /// Not `tokio::sync::watch`: it wakes whoever waits in a random order.
    cuts: broadcast::Sender<Cut>,
    /// What happens.
    pub trace: Trace,
}

/// Which watches break.
#[derive(Clone, Debug, Default)]
pub struct Cut {
    /// Of which type; all if there is none.
    pub plural: Option<String>,
    /// Whether they end as if all was well.
    pub clean: bool,
}

/// How a watch ends in the place of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventEnd {
    /// As watches do.
    Clean,
    /// The connection breaks.
    Broken,
    /// With an event that says 410.
    Gone,
}

#[derive(Debug)]
struct Shared {
    random: Random,
    rates: Rates,
    requests: u64,
    in_step: u64,
    life: u64,
    denied: BTreeSet<String>,
    webhooks: BTreeMap<Webhook, Refusal>,
    unlistable: BTreeMap<String, Refusal>,
    expired: BTreeSet<String>,
    stalled: BTreeMap<String, Instant>,
    /// Group and plural: until when discovery leaves it out.
    omitted: BTreeMap<(String, String), Instant>,
    dark_until: Option<Instant>,
    /// How many times the server was stopped; it is the same one as long as this is.
    stops: u64,
    is_stopped: bool,
    runaway: Option<String>,
}

/// What a webhook is asked about: method, type and namespace.
type Webhook = (String, String, String);

/// A write that arrives when whoever sent it has long given up on it.
#[derive(Clone, Copy, Debug)]
pub struct Delay {
    /// How long it is on its way.
    pub time: Duration,
    /// Whether it finds its way to a server that was started meanwhile.
    pub outlives: bool,
}

/// How a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// With this code.
    Code(u16),
    /// The connection breaks.
    Broken,
    /// Nothing ever comes.
    Silence,
}

/// What becomes of one request.
#[derive(Clone, Debug)]
pub struct DeletionResult {
    /// Its number.
    pub number: u64,
    /// How long it is on its way.
    pub there: Duration,
    /// It fails without an effect.
    pub before: Option<Refusal>,
    /// How long the answer is on its way.
    pub back: Duration,
    /// It has its effect, and nobody hears of it.
    pub after: Option<Refusal>,
    /// Of a write: it is late, and its answer is lost.
    pub delay: Option<Delay>,
    /// Of a watch: answered with 410.
    pub gone: bool,
    /// Of a watch: by how many versions it begins too early.
    pub repeated: u64,
}

/// What a request is, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// GET of anything but a collection.
    Read,
    /// A list.
    List,
    /// A watch.
    Watch,
    /// Anything that changes something.
    Write,
}

impl Network {
    /// A network in which everything goes well.
    pub fn new(trace: Trace) -> Self {
        let shared = Shared {
            random: Random::new(0),
            rates: Rates::default(),
            requests: 0,
            in_step: 0,
            life: 0,
            denied: BTreeSet::new(),
            webhooks: BTreeMap::new(),
            unlistable: BTreeMap::new(),
            expired: BTreeSet::new(),
            stalled: BTreeMap::new(),
            omitted: BTreeMap::new(),
            dark_until: None,
            stops: 0,
            is_stopped: false,
            runaway: None,
        };
        let (cuts, _) = broadcast::channel(64);
        Self { shared: Arc::new(Mutex::new(shared)), cuts, trace }
    }

    fn with<T>(&self, look: impl FnOnce(&mut Shared) -> T) -> T {
        look(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A step begins: from here on faults are drawn from this stream.
    pub fn begin_step(&self, random: Random, rates: Rates) {
        self.with(|shared| {
            (shared.random, shared.rates, shared.in_step) = (random, rates, 0);
        });
    }

    /// Requests that were made.
    pub fn requests(&self) -> u64 {
        self.with(|shared| shared.requests)
    }

    /// The request that was one too many, if the collector makes requests without end.
    pub fn runaway(&self) -> Option<String> {
        self.with(|shared| shared.runaway.clone())
    }

    /// A collector begins its life: whoever came before is cut off.
    pub fn next_life(&self) -> u64 {
        self.with(|shared| {
            shared.life += 1;
            shared.life
        })
    }

    /// Whether this collector still lives.
    pub fn is_alive(&self, life: u64) -> bool {
        self.with(|shared| shared.life == life)
    }

    /// Draws a request's fate.
    pub fn fate(&self, kind: Kind, plural: &str, line: &str) -> DeletionResult {
        self.with(|shared| {
            shared.requests += 1;
            shared.in_step += 1;
            if shared.in_step > RUNAWAY {
                shared.runaway.get_or_insert_with(|| line.to_owned());
            }
            shared.fate(kind, plural)
        })
    }

    /// How late an event is, and whether its watch ends before it.
    pub fn event(&self, plural: &str) -> (Duration, Option<EventEnd>) {
        self.with(|shared| {
            let now = Instant::now();
            let stalled =
                shared.stalled.get(plural).map(|until| until.duration_since(now)).unwrap_or_default();
            let Shared { random, rates, .. } = shared;
            let late = if random.chance(rates.late) { random.millis(0, 400) } else { Duration::ZERO };
            let end = if random.chance(rates.cut) {
                Some(if random.chance(500) { EventEnd::Clean } else { EventEnd::Broken })
            } else {
                random.chance(rates.gone).then_some(EventEnd::Gone)
            };
            (stalled + late, end)
        })
    }

    /// Breaks watches.
    pub fn cut(&self, plural: Option<String>, clean: bool) {
        // An error means that there is no watch to cut.
        let _ = self.cuts.send(Cut { plural, clean });
    }

    /// Hears of cuts.
    pub fn cuts(&self) -> broadcast::Receiver<Cut> {
        self.cuts.subscribe()
    }

    /// Watches of a type show nothing for so long.
    pub fn stall(&self, plural: &str, time: Duration) {
        self.with(|shared| shared.stalled.insert(plural.to_owned(), Instant::now() + time));
    }

    /// Discovery leaves a type out for so long.
    pub fn omit(&self, group: &str, plural: &str, time: Duration) {
        let until = Instant::now() + time;
        self.with(|shared| shared.omitted.insert((group.to_owned(), plural.to_owned()), until));
    }

    /// What discovery leaves out at present: group and plural.
    pub fn omitted(&self) -> Vec<(String, String)> {
        self.with(|shared| {
            shared.omitted.retain(|_, until| Instant::now() < *until);
            shared.omitted.keys().cloned().collect()
        })
    }

    /// Denies a type's writes, or allows them again.
    pub fn toggle_denied(&self, plural: &str) -> bool {
        self.with(|shared| {
            let denied = !shared.denied.remove(plural);
            if denied {
                shared.denied.insert(plural.to_owned());
            }
            denied
        })
    }

    /// Lets a webhook decide on one method for one type in one namespace, or no longer.
    pub fn toggle_webhook(&self, method: &str, plural: &str, namespace: &str, how: Refusal) -> bool {
        self.with(|shared| {
            let webhook = (method.to_owned(), plural.to_owned(), namespace.to_owned());
            let is_there = shared.webhooks.remove(&webhook).is_none();
            if is_there {
                shared.webhooks.insert(webhook, how);
            }
            is_there
        })
    }

    /// What a webhook says to a request, if one is asked.
    pub fn asks_webhook(&self, method: &str, plural: &str, namespace: Option<&str>) -> Option<Refusal> {
        let webhook = (method.to_owned(), plural.to_owned(), namespace?.to_owned());
        self.with(|shared| shared.webhooks.get(&webhook).copied())
    }

    /// Makes a type's lists fail, or work again.
    pub fn toggle_unlistable(&self, plural: &str, how: Refusal) -> bool {
        self.with(|shared| {
            let works = shared.unlistable.remove(plural).is_some();
            if !works {
                shared.unlistable.insert(plural.to_owned(), how);
            }
            !works
        })
    }

    /// The watches of a type break, and what they have shown is too old to go on from.
    pub fn expire(&self, plural: &str) {
        self.with(|shared| shared.expired.insert(plural.to_owned()));
        self.cut(Some(plural.to_owned()), false);
    }

    /// Nothing can be reached for so long.
    pub fn darken(&self, time: Duration) {
        self.with(|shared| shared.dark_until = Some(Instant::now() + time));
    }

    /// The server is stopped: nothing can be reached, and what was open breaks.
    pub fn stop_server(&self, clean: bool) {
        self.with(|shared| {
            shared.is_stopped = true;
            shared.stops += 1;
        });
        self.cut(None, clean);
    }

    /// The server can be reached again.
    pub fn start_server(&self) {
        self.with(|shared| shared.is_stopped = false);
    }

    /// How many times the server was stopped.
    pub fn stops(&self) -> u64 {
        self.with(|shared| shared.stops)
    }

    /// Whether nothing can be reached.
    pub fn is_dark(&self) -> bool {
        self.with(|shared| shared.is_dark())
    }

    /// From now on everything goes well.
    pub fn heal(&self) {
        self.with(|shared| {
            shared.rates = Rates::default();
            shared.denied.clear();
            shared.webhooks.clear();
            shared.unlistable.clear();
            shared.stalled.clear();
            shared.omitted.clear();
            shared.dark_until = None;
        });
    }
}

impl Shared {
    fn is_dark(&self) -> bool {
        self.is_stopped || self.dark_until.is_some_and(|until| Instant::now() < until)
    }

    fn fate(&mut self, kind: Kind, plural: &str) -> DeletionResult {
        let Self { random, rates, .. } = self;
        let mut fate = DeletionResult {
            number: self.requests,
            there: Duration::ZERO,
            before: None,
            back: Duration::ZERO,
            after: None,
            delay: None,
            gone: false,
            repeated: 0,
        };
        if random.chance(rates.slow) {
            fate.there = random.millis(0, 40);
            fate.back = random.millis(0, 40);
        }
        if random.chance(rates.refused) {
            fate.before = Some(match random.below(6) {
                0 | 1 => Refusal::Code(500),
                2 => Refusal::Code(429),
                3 if kind == Kind::Write => Refusal::Code(409),
                3 => Refusal::Code(503),
                // The path is not served, says a server that has not got that far yet.
                4 if kind == Kind::Read && !plural.is_empty() => Refusal::Code(404),
                _ => Refusal::Broken,
            });
        } else if random.chance(rates.lost) {
            fate.after = Some(if random.chance(300) { Refusal::Silence } else { Refusal::Broken });
        } else if random.chance(rates.hangs) {
            fate.before = Some(Refusal::Silence);
        }
        // Nothing is drawn where there is none, so that other runs stay as they were.
        if kind == Kind::Write && rates.delayed > 0 && random.chance(rates.delayed) {
            let time = random.millis(1_000, 60_000);
            fate.delay = Some(Delay { time, outlives: random.chance(500) });
        }
        if kind == Kind::Watch {
            fate.gone = random.chance(rates.gone) || self.expired.remove(plural);
            if random.chance(rates.repeated) {
                fate.repeated = 1 + random.below(10) as u64;
            }
        }
        let refused = match kind {
            Kind::Write if self.denied.contains(plural) => Some(Refusal::Code(403)),
            // A watch of a type that cannot be listed goes on.
            Kind::List => self.unlistable.get(plural).copied(),
            _ => None,
        };
        fate.before = refused.or(fate.before);
        if self.is_dark() {
            fate.before = Some(Refusal::Broken);
        }
        if self.runaway.is_some() {
            fate.before = Some(Refusal::Silence);
        }
        fate
    }
}
