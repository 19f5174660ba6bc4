//! A server that does anything at all.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::streaming::end;
use super::*;
use kube_gc_core::object::Uid;

/// A store of objects with a version, behind a server that fails at random.
#[derive(Default)]
struct Store {
    version: u64,
    objects: BTreeMap<String, u64>,
    /// The history: version, kind of event, name.
    log: Vec<(u64, &'static str, String)>,
}

impl Store {
    fn change(&mut self, dice: u64) {
        self.version += 1;
        let name = format!("o{}", dice % 5);
        let kind = if dice.is_multiple_of(3) && self.objects.remove(&name).is_some() {
            "DELETED"
        } else if self.objects.insert(name.clone(), self.version).is_some() {
            "MODIFIED"
        } else {
            "ADDED"
        };
        self.log.push((self.version, kind, name));
    }

    fn list(&self) -> Reply {
        let items: Vec<String> = self.objects.iter().map(|(name, version)| item(name, *version)).collect();
        list_next(self.version, "", &items)
    }

    /// A streamed list of some objects, and what follows them.
    fn stream(&self, objects: usize, ending: Vec<Part>) -> Reply {
        let objects = self.objects.iter().take(objects);
        let mut parts: Vec<Part> =
            objects.map(|(name, version)| lines([&event("ADDED", name, *version)])).collect();
        parts.extend(ending);
        Reply::stream(parts)
    }

    fn end(&self) -> Part {
        lines([&end(&self.version.to_string())])
    }

    fn watch(&self, from: u64, ending: Vec<Part>) -> Reply {
        let mut parts: Vec<Part> = self
            .log
            .iter()
            .filter(|(version, ..)| *version > from)
            .map(|(version, kind, name)| lines([&event(kind, name, *version)]))
            .collect();
        parts.extend(ending);
        Reply::stream(parts)
    }
}

fn reply(store: &mut Store, seen: &ReceivedRequest, dice: u64) -> Reply {
    store.change(dice / 11);
    let from = seen.query("resourceVersion").and_then(|version| version.parse().ok()).unwrap_or(0);
    let stream = seen.query("sendInitialEvents").is_some();
    let watch = seen.query("watch").is_some();
    match dice % 11 {
        0 => Reply::code(503, "no"),
        1 => Reply::status(410, "expired", "{}"),
        2 => Reply::status(429, "slow", r#"{"retryAfterSeconds":3}"#),
        3 => Reply::never(),
        4 if stream => store.stream(1, vec![lines([GONE])]),
        5 if stream => store.stream(2, vec![Part::Break]),
        6 if stream => store.stream(3, vec![lines([&end("")])]),
        7 if stream => store.stream(4, vec![Part::Hang]),
        8 if stream => store.stream(9, vec![store.end(), Part::Break]),
        9 if stream => Reply::status(504, "Too large resource version", "{}"),
        10 if stream => store.stream(9, Vec::new()),
        _ if stream => store.stream(9, vec![store.end()]),
        4 if watch => store.watch(from, vec![lines([GONE])]),
        5 if watch => store.watch(from, vec![Part::Break]),
        6 if watch => store.watch(from, vec![lines(["nonsense"])]),
        7 if watch => store.watch(
            from,
            vec![Part::Pause(Duration::from_secs(40)), lines([&bookmark(store.version)]), Part::Hang],
        ),
        _ if watch => store.watch(from, Vec::new()),
        8 => Reply::stream([Part::Data(r#"{"kind":"WidgetList","items":[{"#.into()), Part::Break]),
        9 => Reply::status(504, "Too large resource version", "{}"),
        _ => store.list(),
    }
}

fn apply(picture: &mut BTreeMap<Uid, Option<ResourceVersion>>, event: WatchEvent) {
    match event {
        WatchEvent::Apply(object) => drop(picture.insert(object.uid, object.resource_version)),
        WatchEvent::Delete(object) => drop(picture.remove(&object.uid)),
        WatchEvent::Init { .. } | WatchEvent::InitDone { .. } => panic!("{event:?} in a step"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever the server did: once it behaves, the events lead to its state. No restore was
    /// reported, and the server never received too many requests.
    #[test]
    fn the_list_and_watch_is_correct_after_any_faults(dice in prop::collection::vec(any::<u64>(), 0..60), seed in any::<u64>(), streaming_lists in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let store = Arc::new(Mutex::new(Store { version: 10, ..Store::default() }));
            let calm = Arc::new(AtomicBool::new(false));
            let (served, calmed, mut rolls) = (Arc::clone(&store), Arc::clone(&calm), dice.into_iter());
            let server = Server::answering(move |seen| {
                let mut store = served.lock().unwrap();
                let from = seen.query("resourceVersion").and_then(|v| v.parse().ok()).unwrap_or(0);
                match rolls.next() {
                    Some(dice) => reply(&mut store, seen, dice),
                    None if seen.query("sendInitialEvents").is_some() => {
                        calmed.store(true, Ordering::SeqCst);
                        store.stream(9, vec![store.end(), Part::Hang])
                    }
                    None if seen.query("watch").is_some() => {
                        calmed.store(true, Ordering::SeqCst);
                        let quiet = vec![lines([&bookmark(store.version)]), Part::Hang];
                        store.watch(from, quiet)
                    }
                    None => store.list(),
                }
            });
            let settings = ApiSettings { seed, streaming_lists, page_size: 2, ..ApiSettings::default() };
            let mut watch = server.api_with(settings, WriteGate::open()).watch(widgets(), DeletesProve::Absence);
            let (mut picture, mut listing) = (BTreeMap::new(), BTreeMap::new());
            let mut until = Instant::now() + Duration::from_secs(1_000_000);
            while let Ok(step) = tokio::time::timeout_at(until, watch.next()).await {
                match step.unwrap() {
                    Step::Init { .. } => listing.clear(),
                    Step::InitApply(items) => items.into_iter().for_each(|event| apply(&mut listing, event)),
                    Step::InitDone { .. } => picture = std::mem::take(&mut listing),
                    Step::Events(events) => events.into_iter().for_each(|event| apply(&mut picture, event)),
                    Step::StoreRestored { .. } => panic!("no store was restored"),
                    _ => {}
                }
                if calm.load(Ordering::SeqCst) {
                    until = Instant::now() + Duration::from_secs(100);
                }
            }
            let expected: BTreeMap<_, _> = store.lock().unwrap().objects.iter()
                .map(|(name, version)| (Uid::parse(name).unwrap(), Some(ResourceVersion::number(*version)))).collect();
            assert_eq!(picture, expected);
            let watches: Vec<Duration> = server.seen().iter()
                .filter(|seen| kind(seen).starts_with("watch")).map(|seen| seen.at).collect();
            let least = ApiSettings::default().watch.least_backoff;
            assert!(watches.windows(2).all(|pair| pair[1] - pair[0] >= least), "{watches:?}");
        });
    }
}
