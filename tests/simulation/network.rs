//! The network between the collector and the server, and its faults.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::time::Instant;

use super::plan::Rates;
use super::random::Random;
use super::trace::Trace;

/// If a step causes more requests than this, the collector is in an endless loop.
const RUNAWAY: u64 = 100_000;
/// And so many more in each second of the step. Owners of large objects are looked up 250 times a
/// second, for minutes if connections break all the time, because each break makes earlier answers void.
const RUNAWAY_A_SECOND: u64 = 500;

/// The state of the network. Clones share it.
#[derive(Clone, Debug)]
pub struct Network {
    shared: Arc<Mutex<Shared>>,
    /// Not `tokio::sync::watch`, which wakes its receivers in a random order.
    cuts: broadcast::Sender<Cut>,
    /// The record of what happens.
    pub trace: Trace,
}

/// Which watches break.
#[derive(Clone, Debug, Default)]
pub struct Cut {
    /// The type; `None` means all.
    pub plural: Option<String>,
    /// Whether they end cleanly.
    pub clean: bool,
}

/// How a watch ends instead of delivering an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventEnd {
    /// Cleanly, as after its timeout.
    Clean,
    /// The connection breaks.
    Broken,
    /// With an ERROR event of code 410.
    Gone,
}

#[derive(Debug, Default)]
struct Shared {
    random: Random,
    rates: Rates,
    requests: u64,
    in_step: u64,
    step_began: Option<Instant>,
    life: u64,
    refused: BTreeMap<(Refused, String), Refusal>,
    webhooks: BTreeMap<Webhook, Refusal>,
    expired: BTreeSet<String>,
    stalled: BTreeMap<String, Instant>,
    /// Types that discovery omits, by group and plural, and until when.
    omitted: BTreeMap<(String, String), Instant>,
    /// Groups that do not answer, and until when.
    away: BTreeMap<String, Instant>,
    dark_until: Option<Instant>,
    /// How often the server was stopped. The server is the same as long as this number is.
    stops: u64,
    is_stopped: bool,
    runaway: Option<String>,
}

/// The requests about a type that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refused {
    /// Writes.
    Writes,
    /// Lists.
    Lists,
}

/// The key of a webhook: method, type and namespace.
type Webhook = (String, String, String);

/// A write that arrives long after its client has given up.
#[derive(Clone, Copy, Debug)]
pub struct Delay {
    /// The time until it arrives.
    pub time: Duration,
    /// Whether it also reaches a server that was restarted in the meantime.
    pub outlives: bool,
}

/// How a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// With this status code.
    Code(u16),
    /// With the 404 of the object that the path names, whether it is there or not.
    SaysGone,
    /// The connection breaks.
    Broken,
    /// There is no answer.
    Silence,
}

/// What happens to one request.
#[derive(Clone, Debug, Default)]
pub struct Fate {
    /// The number of the request.
    pub number: u64,
    /// The time until the request arrives.
    pub there: Duration,
    /// It fails without taking effect.
    pub before: Option<Refusal>,
    /// The time until the answer arrives.
    pub back: Duration,
    /// It takes effect, and its answer is lost.
    pub after: Option<Refusal>,
    /// For a write: it is late, and its answer is lost.
    pub delay: Option<Delay>,
    /// For a watch or a streamed list: it is answered with 410.
    pub gone: bool,
    /// For a watch: by how many versions it starts too early.
    pub repeated: u64,
}

/// The kinds of requests that have different faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// GET of anything but a collection.
    Read,
    /// A list.
    List,
    /// A list that is the beginning of a watch.
    Stream,
    /// A watch.
    Watch,
    /// Any request that changes something.
    Write,
}

impl Network {
    /// A network without faults.
    pub fn new(trace: Trace) -> Self {
        let (cuts, _) = broadcast::channel(64);
        Self { shared: Arc::default(), cuts, trace }
    }

    fn with<T>(&self, look: impl FnOnce(&mut Shared) -> T) -> T {
        look(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Starts a step. From now on, faults are drawn from this stream.
    pub fn begin_step(&self, random: Random, rates: Rates) {
        self.with(|shared| {
            (shared.random, shared.rates, shared.in_step) = (random, rates, 0);
            shared.step_began = Some(Instant::now());
        });
    }

    /// The number of requests so far.
    pub fn requests(&self) -> u64 {
        self.with(|shared| shared.requests)
    }

    /// The request that exceeded [`RUNAWAY`] and [`RUNAWAY_A_SECOND`], if the collector is in an endless loop.
    pub fn runaway(&self) -> Option<String> {
        self.with(|shared| shared.runaway.clone())
    }

    /// Starts the life of a collector. Connections of earlier collectors are cut.
    pub fn next_life(&self) -> u64 {
        self.with(|shared| {
            shared.life += 1;
            shared.life
        })
    }

    /// Whether this collector is still running.
    pub fn is_alive(&self, life: u64) -> bool {
        self.with(|shared| shared.life == life)
    }

    /// Draws what happens to a request.
    pub fn fate(&self, kind: Kind, plural: &str, line: &str) -> Fate {
        self.with(|shared| {
            shared.requests += 1;
            shared.in_step += 1;
            let seconds = shared.step_began.map_or(0, |began| began.elapsed().as_secs());
            if shared.in_step > RUNAWAY + RUNAWAY_A_SECOND * seconds {
                shared.runaway.get_or_insert_with(|| line.to_owned());
            }
            shared.fate(kind, plural)
        })
    }

    /// Draws how late an event is, and whether its watch ends before it.
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
        // An error means that no watch is open.
        let _ = self.cuts.send(Cut { plural, clean });
    }

    /// Receives the cuts of watches.
    pub fn cuts(&self) -> broadcast::Receiver<Cut> {
        self.cuts.subscribe()
    }

    /// Watches of a type deliver nothing for this time.
    pub fn stall(&self, plural: &str, time: Duration) {
        self.with(|shared| shared.stalled.insert(plural.to_owned(), Instant::now() + time));
    }

    /// Discovery omits a type for this time.
    pub fn omit(&self, group: &str, plural: &str, time: Duration) {
        let until = Instant::now() + time;
        self.with(|shared| shared.omitted.insert((group.to_owned(), plural.to_owned()), until));
    }

    /// The types that discovery omits now: group and plural.
    pub fn omitted(&self) -> Vec<(String, String)> {
        self.with(|shared| current(&shared.omitted))
    }

    /// A group does not answer for this time. Discovery still announces it.
    pub fn leave(&self, group: &str, time: Duration) {
        self.with(|shared| shared.away.insert(group.to_owned(), Instant::now() + time));
    }

    /// The groups that do not answer now.
    pub fn away(&self) -> Vec<String> {
        self.with(|shared| current(&shared.away))
    }

    /// Makes the writes or the lists of a type fail, or work again. Returns whether they fail now.
    pub fn toggle_refused(&self, what: Refused, plural: &str, how: Refusal) -> bool {
        self.with(|shared| toggle(&mut shared.refused, (what, plural.to_owned()), how))
    }

    /// Adds or removes a webhook for one method, type and namespace.
    pub fn toggle_webhook(&self, method: &str, plural: &str, namespace: &str, how: Refusal) -> bool {
        let webhook = (method.to_owned(), plural.to_owned(), namespace.to_owned());
        self.with(|shared| toggle(&mut shared.webhooks, webhook, how))
    }

    /// The answer of the webhook to a request, if there is one.
    pub fn asks_webhook(&self, method: &str, plural: &str, namespace: Option<&str>) -> Option<Refusal> {
        let webhook = (method.to_owned(), plural.to_owned(), namespace?.to_owned());
        self.with(|shared| shared.webhooks.get(&webhook).copied())
    }

    /// Breaks the watches of a type, and makes their versions too old to resume from.
    pub fn expire(&self, plural: &str) {
        self.with(|shared| shared.expired.insert(plural.to_owned()));
        self.cut(Some(plural.to_owned()), false);
    }

    /// Nothing is reachable for this time.
    pub fn darken(&self, time: Duration) {
        self.with(|shared| shared.dark_until = Some(Instant::now() + time));
    }

    /// Stops the server: nothing is reachable, and open connections break.
    pub fn stop_server(&self, clean: bool) {
        self.with(|shared| {
            shared.is_stopped = true;
            shared.stops += 1;
        });
        self.cut(None, clean);
    }

    /// Makes the server reachable again.
    pub fn start_server(&self) {
        self.with(|shared| shared.is_stopped = false);
    }

    /// How often the server was stopped.
    pub fn stops(&self) -> u64 {
        self.with(|shared| shared.stops)
    }

    /// Whether nothing is reachable.
    pub fn is_dark(&self) -> bool {
        self.with(|shared| shared.is_dark())
    }

    /// Ends all faults.
    pub fn heal(&self) {
        self.with(|shared| {
            shared.rates = Rates::default();
            shared.refused.clear();
            shared.webhooks.clear();
            shared.stalled.clear();
            shared.omitted.clear();
            shared.away.clear();
            shared.dark_until = None;
        });
    }
}

/// Adds a fault, or removes it. Returns whether it is there now.
fn toggle<K: Ord>(faults: &mut BTreeMap<K, Refusal>, of: K, how: Refusal) -> bool {
    let is_new = faults.remove(&of).is_none();
    if is_new {
        faults.insert(of, how);
    }
    is_new
}

/// What has not ended yet.
fn current<K: Clone>(faults: &BTreeMap<K, Instant>) -> Vec<K> {
    let now = Instant::now();
    faults.iter().filter(|(_, until)| now < **until).map(|(of, _)| of.clone()).collect()
}

impl Shared {
    fn is_dark(&self) -> bool {
        self.is_stopped || self.dark_until.is_some_and(|until| Instant::now() < until)
    }

    fn fate(&mut self, kind: Kind, plural: &str) -> Fate {
        let Self { random, rates, .. } = self;
        let mut fate = Fate { number: self.requests, ..Fate::default() };
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
                // A server that has not finished starting answers that it does not serve the
                // path.
                4 if kind == Kind::Read && !plural.is_empty() => Refusal::Code(404),
                _ => Refusal::Broken,
            });
        } else if random.chance(rates.lost) {
            fate.after = Some(if random.chance(300) { Refusal::Silence } else { Refusal::Broken });
        } else if random.chance(rates.hangs) {
            fate.before = Some(Refusal::Silence);
        }
        // Nothing is drawn if the rate is 0, so that older seeds give the same run.
        if kind == Kind::Write && rates.delayed > 0 && random.chance(rates.delayed) {
            let time = random.millis(1_000, 60_000);
            fate.delay = Some(Delay { time, outlives: random.chance(500) });
        }
        if matches!(kind, Kind::Watch | Kind::Stream) {
            fate.gone = random.chance(rates.gone) || kind == Kind::Watch && self.expired.remove(plural);
            if kind == Kind::Watch && random.chance(rates.repeated) {
                fate.repeated = 1 + random.below(10) as u64;
            }
        }
        let what = match kind {
            Kind::Write => Some(Refused::Writes),
            // An open watch continues even if its type cannot be listed.
            Kind::List | Kind::Stream => Some(Refused::Lists),
            _ => None,
        };
        let refused = what.and_then(|what| self.refused.get(&(what, plural.to_owned())).copied());
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
