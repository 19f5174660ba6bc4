//! Tests of `/debug/stream`, with a collector whose object changes on demand.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, BodyDataStream};
use axum::http::Request;
use futures::{FutureExt as _, StreamExt as _};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;
use kube_gc_core::object::{Uid, config_map};
use kube_gc_insight::{Neighbourhood, ObjectName, Shown, State};

const UID: &str = "0b1e5c1e-9b1a-4b58-8b7e-0f4b7a7e9d10";
const OF_OBJECT: &str = "/debug/stream?uid=0b1e5c1e-9b1a-4b58-8b7e-0f4b7a7e9d10&down=3";
const MAX_STREAMS: usize = 8;

/// A graph with one object, and how often it was asked.
#[derive(Default)]
struct Live {
    /// How long a summary takes.
    summary_takes: Duration,
    /// How long a look takes.
    look_takes: Duration,
    /// The dependents that the object waits for.
    waits_for: AtomicUsize,
    /// The names of its dependents.
    dependents: Mutex<Vec<&'static str>>,
    summaries: AtomicUsize,
    looks: AtomicUsize,
}

impl Live {
    fn slow(millis: u64) -> Arc<Self> {
        Arc::new(Self { look_takes: Duration::from_millis(millis), ..Self::default() })
    }

    /// The object changes, perhaps.
    fn change(&self, waits_for: usize) {
        self.waits_for.store(waits_for, Ordering::Relaxed);
    }

    fn page(&self) -> NeighbourhoodPage {
        let name = ObjectName {
            name: "line\nbreak\u{202e}".to_owned(),
            uid: UID.to_owned(),
            ..ObjectName::default()
        };
        let waits_for = self.waits_for.load(Ordering::Relaxed);
        let root = Shown { name, state: State::DeletingDependents, waits_for, ..Shown::default() };
        let mut shown = Neighbourhood { nodes: vec![root], ..Neighbourhood::default() };
        for name in self.dependents.lock().unwrap().iter() {
            shown.nodes.push(Shown { identity: Some(config_map("a", name, name)), ..Shown::default() });
        }
        NeighbourhoodPage { shown, incomplete: Vec::new(), next: None }
    }
}

impl Streamed for Live {
    fn summary(&self) -> BoxFuture<'_, Result<SummaryPage, PartitionEnded>> {
        self.summaries.fetch_add(1, Ordering::Relaxed);
        let summary = SummaryPage { role: "alone", ..SummaryPage::default() };
        tokio::time::sleep(self.summary_takes).map(|()| Ok(summary)).boxed()
    }

    fn look<'a>(
        &'a self,
        query: &'a ObjectQuery,
    ) -> BoxFuture<'a, Result<Option<NeighbourhoodPage>, PartitionEnded>> {
        async move {
            let page = self.page();
            tokio::time::sleep(self.look_takes).await;
            self.looks.fetch_add(1, Ordering::Relaxed);
            Ok((Some(&query.uid) == Uid::parse(UID).as_ref()).then_some(page))
        }
        .boxed()
    }

    fn gone(&self, objects: Vec<Identity>) -> BoxFuture<'_, Result<Vec<String>, PartitionEnded>> {
        let uids = objects.iter().map(|object| object.uid.to_string());
        std::future::ready(Ok(uids.filter(|uid| uid.starts_with("deleted")).collect())).boxed()
    }
}

/// An open stream.
struct Open {
    body: BodyDataStream,
    began: Instant,
}

impl Open {
    async fn begin(router: &Router, path: &str) -> Self {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        for (header, value) in [
            ("content-type", "text/event-stream"),
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
        ] {
            assert_eq!(response.headers()[header], value);
        }
        Self { body: response.into_body().into_data_stream(), began: Instant::now() }
    }

    /// The next event and its time since the beginning in milliseconds. `None` at the end.
    async fn next(&mut self) -> Option<(String, Value, u128)> {
        let bytes = self.body.next().await?.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let data = field("data").unwrap_or_default();
        assert!(data.chars().all(kube_gc_core::text::escape::is_printable), "{data}");
        let data = serde_json::from_str(data).unwrap();
        Some((field("event").unwrap().to_owned(), data, self.began.elapsed().as_millis()))
    }

    /// The next neighbourhood, and when it came.
    async fn look(&mut self) -> (Value, u128) {
        loop {
            let (event, data, at) = self.next().await.unwrap();
            if event == "neighbourhood" {
                return (data, at);
            }
        }
    }

    /// The same, but only what its object waits for.
    async fn neighbourhood(&mut self) -> (Value, u128) {
        let (data, at) = self.look().await;
        (data["nodes"][0]["waitsFor"].clone(), at)
    }
}

fn pages(live: &Arc<Live>) -> Router {
    routes(Arc::clone(live) as Arc<dyn Streamed>, Arc::new(Semaphore::new(CONCURRENT_QUESTIONS)))
}

#[tokio::test(start_paused = true)]
async fn a_stream_begins_with_the_whole_state_and_goes_on_with_summaries() {
    let live = Live::slow(0);
    let mut stream = Open::begin(&pages(&live), OF_OBJECT).await;
    for (expected, at) in [("summary", 0), ("neighbourhood", 0), ("summary", 1000), ("summary", 2000)] {
        let (event, data, came) = stream.next().await.unwrap();
        assert_eq!((event.as_str(), came), (expected, at));
        match expected {
            "summary" => assert_eq!(data["role"], "alone"),
            _ => assert_eq!(data, json!(live.page())),
        }
    }
    let mut unknown = Open::begin(&pages(&live), "/debug/stream?uid=x").await;
    assert_eq!(unknown.neighbourhood().await.0, Value::Null);
}

#[tokio::test(start_paused = true)]
async fn an_object_is_looked_at_twice_a_second_and_a_look_that_shows_nothing_new_is_no_event() {
    let live = Live::slow(0);
    let mut stream = Open::begin(&pages(&live), OF_OBJECT).await;
    assert_eq!(stream.neighbourhood().await, (json!(0), 0));
    for number in 1..=8 {
        live.change(number);
        assert_eq!(stream.neighbourhood().await, (json!(number), number as u128 * 500));
    }
    while stream.began.elapsed() < Duration::from_secs(8) {
        assert_eq!(stream.next().await.unwrap().0, "summary");
    }
    let looks = live.looks.load(Ordering::Relaxed);
    assert!((16..=17).contains(&looks), "{looks}");
}

/// An object may also lose its place on the page, or its reference to the owner.
#[tokio::test(start_paused = true)]
async fn only_what_no_monitor_shows_any_more_is_gone() {
    let live = Live::slow(0);
    *live.dependents.lock().unwrap() = vec!["deleted-1", "moved-1", "stays"];
    let mut stream = Open::begin(&pages(&live), OF_OBJECT).await;
    assert_eq!(stream.look().await.0["gone"], Value::Null);
    *live.dependents.lock().unwrap() = vec!["stays", "new"];
    assert_eq!(stream.look().await.0["gone"], json!(["deleted-1"]));
    live.change(1);
    assert_eq!(stream.look().await.0["gone"], Value::Null, "it is said once");
}

/// A look shows the state at its beginning, so a change during it needs another one.
#[tokio::test(start_paused = true)]
async fn a_change_during_a_look_is_shown() {
    let live = Live::slow(2);
    let mut stream = Open::begin(&pages(&live), OF_OBJECT).await;
    let during = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        live.change(5);
    };
    let ((before, _), ()) = tokio::join!(stream.neighbourhood(), during);
    assert_eq!((before, stream.neighbourhood().await.0), (json!(0), json!(5)));
}

/// The pause begins when the look ends, and is two seconds at most.
#[tokio::test(start_paused = true)]
async fn an_object_that_takes_long_is_looked_at_less_often() {
    for (takes, expected) in [(20, 64 * 20 + 20..2000), (1000, 3000..3001)] {
        let live = Live::slow(takes);
        let mut stream = Open::begin(&pages(&live), OF_OBJECT).await;
        let (_, first) = stream.neighbourhood().await;
        live.change(1);
        let (_, second) = stream.neighbourhood().await;
        assert!(expected.contains(&(second - first)), "{takes}: {first} {second}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_takes_long_does_not_keep_back_the_object() {
    let live = Arc::new(Live { summary_takes: Duration::from_secs(3), ..Live::default() });
    let mut stream = Open::begin(&pages(&live), OF_OBJECT).await;
    for second in [0, 3] {
        assert_eq!(stream.next().await.unwrap().0, "summary");
        live.change(second);
        assert_eq!(stream.neighbourhood().await.0, second);
    }
}

#[tokio::test(start_paused = true)]
async fn who_does_not_read_costs_nothing_and_gets_the_newest_state() {
    let live = Live::slow(0);
    let mut stream = Open::begin(&pages(&live), OF_OBJECT).await;
    stream.neighbourhood().await;
    let asked = || [&live.summaries, &live.looks].map(|count| count.load(Ordering::Relaxed));
    let before = asked();
    tokio::time::sleep(Duration::from_secs(100)).await;
    live.change(99);
    assert_eq!(asked(), before);
    assert_eq!(stream.neighbourhood().await.0, 99);
}

/// One that begins later gets the last summary at once, and the next one with the others.
#[tokio::test(start_paused = true)]
async fn streams_share_the_summary() {
    let live = Live::slow(0);
    let router = pages(&live);
    let mut first = Open::begin(&router, "/debug/stream").await;
    first.next().await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut later = Open::begin(&router, "/debug/stream").await;
    for second in 0..10 {
        let at = if second == 0 { 0 } else { second * 1000 - 300 };
        assert_eq!(later.next().await.unwrap().2, at);
        assert_eq!(first.next().await.unwrap().2, second * 1000 + 1000);
    }
    assert!(live.summaries.load(Ordering::Relaxed) <= 12, "one a second for all");
}

/// Streams and other questions take turns, so the graph has time for its work.
#[tokio::test(start_paused = true)]
async fn few_streams_look_at_the_same_time() {
    let router = pages(&Live::slow(100));
    let first = |_| async { Open::begin(&router, OF_OBJECT).await.neighbourhood().await.1 };
    let came = futures::future::join_all((0..MAX_STREAMS).map(first)).await;
    let rounds = (1..).flat_map(|round| [round * 100; CONCURRENT_QUESTIONS]);
    assert_eq!(came, rounds.take(MAX_STREAMS).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_the_listener_and_after_half_an_hour() {
    let end = CancellationToken::new();
    let router = pages(&Live::slow(0)).layer(Extension(Closing(end.clone())));
    let mut stream = Open::begin(&router, OF_OBJECT).await;
    stream.neighbourhood().await;
    end.cancel();
    assert!(stream.next().await.is_none());

    let mut stream = Open::begin(&pages(&Live::slow(0)), "/debug/stream").await;
    while stream.next().await.is_some() {}
    assert_eq!(stream.began.elapsed(), Duration::from_secs(1800));
}

#[tokio::test]
async fn the_parameters_are_those_of_a_neighbourhood() {
    for wrong in ["?up=1", "?uid=a&q=b", "?x=1", "?uid=a&after=5"] {
        let request = Request::get(format!("/debug/stream{wrong}")).body(Body::empty()).unwrap();
        let response = pages(&Live::slow(0)).oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{wrong}");
    }
}
