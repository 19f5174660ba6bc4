//! Tests of `/debug/stream`.

mod live;

use std::sync::atomic::Ordering;

use axum::Extension;
use axum::body::BodyDataStream;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use live::Live;

use super::*;
use crate::http::stream::{Closing, MAX_STREAMS};

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

    /// The next neighbourhood: what its object waits for, and when it came.
    async fn neighbourhood(&mut self) -> (Value, u128) {
        loop {
            let (event, data, at) = self.next().await.unwrap();
            if event == "neighbourhood" {
                return (data["nodes"][0]["waitsFor"].clone(), at);
            }
        }
    }
}

fn pages(live: &Arc<Live>) -> Router {
    stream_routes(Arc::clone(live) as Arc<dyn Streamed>, Arc::new(Semaphore::new(CONCURRENT_QUESTIONS)))
}

fn of_object() -> String {
    format!("/debug/stream?uid={UID}&down=3")
}

#[tokio::test(start_paused = true)]
async fn a_stream_begins_with_the_whole_state_and_goes_on_with_summaries() {
    let live = Live::new();
    let mut stream = Open::begin(&pages(&live), &of_object()).await;
    let mut came = Vec::new();
    for _ in 0..4 {
        let (event, data, at) = stream.next().await.unwrap();
        match event.as_str() {
            "summary" => assert_eq!(data["role"], "alone"),
            _ => assert_eq!(data, serde_json::to_value(live.graph.page()).unwrap()),
        }
        came.push((event, at));
    }
    let expected = [("summary", 0), ("neighbourhood", 0), ("summary", 1000), ("summary", 2000)];
    assert_eq!(came, expected.map(|(event, at)| (event.to_owned(), at)));
}

#[tokio::test(start_paused = true)]
async fn an_object_is_looked_at_twice_a_second_and_a_look_that_shows_nothing_new_is_no_event() {
    let live = Live::new();
    let mut stream = Open::begin(&pages(&live), &of_object()).await;
    assert_eq!(stream.neighbourhood().await, (json!(0), 0));
    let changing = Arc::clone(&live);
    let changes = tokio::spawn(async move {
        for count in 1.. {
            tokio::time::sleep(Duration::from_millis(3)).await;
            changing.change(count);
        }
    });
    for number in 1..=8 {
        assert_eq!(stream.neighbourhood().await.1, number * 500);
    }
    changes.abort();
    while stream.began.elapsed() < Duration::from_secs(8) {
        assert_eq!(stream.next().await.unwrap().0, "summary");
    }
    assert!((16..=17).contains(&live.looks()), "{}", live.looks());
}

/// A look shows the state at its beginning, so a change during it needs another one.
#[tokio::test(start_paused = true)]
async fn a_change_during_a_look_is_shown() {
    let live = Arc::new(Live::slow(Duration::from_millis(2)));
    let mut stream = Open::begin(&pages(&live), &of_object()).await;
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
        let live = Arc::new(Live::slow(Duration::from_millis(takes)));
        let mut stream = Open::begin(&pages(&live), &of_object()).await;
        let (_, first) = stream.neighbourhood().await;
        live.change(1);
        let (_, second) = stream.neighbourhood().await;
        assert!(expected.contains(&(second - first)), "{takes}: {first} {second}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_takes_long_does_not_keep_back_the_object() {
    let live = Arc::new(Live { summary_takes: Duration::from_secs(3), ..Live::slow(Duration::ZERO) });
    let mut stream = Open::begin(&pages(&live), &of_object()).await;
    for second in [0, 3] {
        assert_eq!(stream.next().await.unwrap().0, "summary");
        live.change(second);
        assert_eq!(stream.neighbourhood().await.0, second);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_object_has_no_nodes() {
    let mut stream = Open::begin(&pages(&Live::new()), "/debug/stream?uid=x").await;
    assert_eq!(stream.neighbourhood().await.0, Value::Null);
}

#[tokio::test(start_paused = true)]
async fn who_does_not_read_costs_nothing_and_gets_the_newest_state() {
    let live = Live::new();
    let mut stream = Open::begin(&pages(&live), &of_object()).await;
    stream.neighbourhood().await;
    let asked = || (live.summaries.load(Ordering::Relaxed), live.looks());
    let before = asked();
    for count in 1..100 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        live.change(count);
    }
    assert_eq!(asked(), before);
    assert_eq!(stream.neighbourhood().await.0, 99);
}

#[tokio::test(start_paused = true)]
async fn streams_share_the_summary() {
    let live = Live::new();
    let router = pages(&live);
    let mut readers = Vec::new();
    for _ in 0..8 {
        let mut stream = Open::begin(&router, "/debug/stream").await;
        readers.push(tokio::spawn(async move {
            let mut summaries = 0;
            while stream.began.elapsed() < Duration::from_secs(10) {
                assert_eq!(stream.next().await.unwrap().0, "summary");
                summaries += 1;
            }
            summaries
        }));
        // They do not begin at the same time.
        tokio::time::sleep(Duration::from_millis(97)).await;
    }
    for reader in readers {
        assert!(reader.await.unwrap() >= 10);
    }
    assert!(live.summaries.load(Ordering::Relaxed) <= 12, "one a second for all");
}

/// Streams and other questions take turns, so the graph has time for its work.
#[tokio::test(start_paused = true)]
async fn few_streams_look_at_the_same_time() {
    let takes = Duration::from_millis(100);
    let router = pages(&Arc::new(Live::slow(takes)));
    let path = of_object();
    let first = |_| async { Open::begin(&router, &path).await.neighbourhood().await.1 };
    let came = futures::future::join_all((0..MAX_STREAMS).map(first)).await;
    let rounds = (1..).flat_map(|round| [round * takes.as_millis(); CONCURRENT_QUESTIONS]);
    assert_eq!(came, rounds.take(MAX_STREAMS).collect::<Vec<_>>());
}

/// It gets the last summary at once, and the next one with the others.
#[tokio::test(start_paused = true)]
async fn a_stream_that_begins_later_gets_no_older_summaries() {
    let router = pages(&Live::new());
    Open::begin(&router, "/debug/stream").await.next().await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut later = Open::begin(&router, "/debug/stream").await;
    let came = [later.next().await.unwrap().2, later.next().await.unwrap().2];
    assert_eq!(came, [0, 700]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_the_listener_and_after_half_an_hour() {
    let live = Live::new();
    let end = CancellationToken::new();
    let router = pages(&live).layer(Extension(Closing(end.clone())));
    let mut stream = Open::begin(&router, &of_object()).await;
    stream.neighbourhood().await;
    end.cancel();
    assert!(stream.next().await.is_none());

    let mut stream = Open::begin(&pages(&live), "/debug/stream").await;
    while stream.next().await.is_some() {}
    assert_eq!(stream.began.elapsed(), Duration::from_secs(1800));
}

#[tokio::test]
async fn the_parameters_are_those_of_a_neighbourhood() {
    for wrong in ["?up=1", "?uid=", "?uid=a&up=65", "?uid=a&q=b", "?x=1", "?uid=a&after=5"] {
        let (status, ..) = get(pages(&Live::new()), &format!("/debug/stream{wrong}")).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{wrong}");
    }
}
