use super::*;

#[tokio::test(start_paused = true)]
async fn a_type_is_listed_from_the_cache_and_watched_from_there() {
    let events = [event("ADDED", "c", 11), event("DELETED", "a", 12)];
    let server = Server::replying([
        list(10, &["a", "b"]),
        Reply::stream([
            lines([&events[0], &events[1]]),
            Part::Pause(Duration::from_secs(9)),
            lines([&bookmark(20)]),
            Part::Hang,
        ]),
    ]);
    let high_water = HighWater::default();
    let mut watch = server.api().watch(widgets(), start(&high_water));
    let seen = steps(&mut watch, 5).await;
    assert_eq!(seen, ["began", "items a,b", "listed 10", "+c -a", "bookmark 20"]);
    assert_eq!(kinds(&server), ["list 0", "watch 10"]);
    assert_eq!(high_water.get(&widgets().group_resource), Some(ResourceVersion::number(20)));
    let requests = server.seen();
    assert_eq!(requests[0].query("limit"), None);
    assert_eq!(requests[0].query("resourceVersionMatch"), Some("NotOlderThan"));
    assert_eq!(requests[1].query("allowWatchBookmarks"), Some("true"));
    assert_eq!(requests[1].header("accept-encoding"), "identity");
    let seconds: u64 = requests[1].query("timeoutSeconds").unwrap().parse().unwrap();
    assert!((300..=600).contains(&seconds));
}

#[tokio::test(start_paused = true)]
async fn large_lists_come_in_batches_and_objects_without_uid_are_counted() {
    let mut items: Vec<String> = (0..1200).map(|n| item(&format!("o{n}"), 1)).collect();
    items.push(r#"{"metadata":{"name":"nameless"}}"#.into());
    let mut body = Vec::new();
    let whole = format!(
        r#"{{"kind":"WidgetList","metadata":{{"resourceVersion":"9"}},"items":[{}]}}"#,
        items.join(",")
    );
    for chunk in whole.into_bytes().chunks(1000) {
        body.push(Part::Data(bytes::Bytes::copy_from_slice(chunk)));
    }
    let server = Server::replying([Reply::stream(body)]);
    let mut watch = watch(&server);
    assert_eq!(text(watch.next().await), "began");
    let mut batches = Vec::new();
    loop {
        match watch.next().await.unwrap() {
            Step::InitApply(items) => batches.push(items.len()),
            step => break assert_eq!(text(Some(step)), "listed 9"),
        }
    }
    assert_eq!(batches.iter().sum::<usize>(), 1200);
    assert!(batches.len() >= 3);
    assert_eq!(watch.skipped(), 1);
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_with_jitter_up_to_the_greatest() {
    let server = Server::answering(|_| Reply::code(500, "oops"));
    let mut watch = watch(&server);
    let mut waits = Vec::new();
    for _ in 0..12 {
        match watch.next().await {
            Some(Step::Failed { retry_in, .. }) => waits.push(retry_in),
            step => panic!("{}", text(step)),
        }
    }
    let WatchSettings { least_backoff, greatest_backoff, .. } = WatchSettings::default();
    assert!((least_backoff..least_backoff * 3 / 2).contains(&waits[0]));
    assert!(waits.iter().all(|wait| *wait <= greatest_backoff));
    assert_eq!(waits[11], greatest_backoff);
    let times: Vec<Duration> = server.seen().windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    for (wait, time) in waits.iter().zip(times) {
        assert!(time >= *wait && time < *wait + Duration::from_millis(5), "{time:?} for {wait:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn throttling_is_obeyed() {
    let throttled = Reply::status(429, "slow down", "{}").header("retry-after", "45");
    let server = Server::replying([throttled, list(5, &[])]);
    let mut watch = watch(&server);
    assert_eq!(steps(&mut watch, 3).await, ["failed throttled", "began", "listed 5"]);
    assert!(server.seen()[1].at >= Duration::from_secs(45));
}

/// Rule 1.15.
#[tokio::test(start_paused = true)]
async fn a_relist_never_goes_back() {
    let high_water = HighWater::default();
    high_water.advance(&widgets().group_resource, &ResourceVersion::number(50));
    // A server that knows nothing of NotOlderThan answers from an old cache,
    // with the version after the items.
    let old = r#"{"kind":"WidgetList","items":[],"metadata":{"resourceVersion":"40"}}"#;
    let server = Server::replying([Reply::ok(old), list(60, &["a"])]);
    let mut watch = server.api().watch(widgets(), start(&high_water));
    assert_eq!(steps(&mut watch, 3).await, ["began", "items a", "listed 60"]);
    assert_eq!(kinds(&server), ["list 50", "list store"]);
}

#[tokio::test(start_paused = true)]
async fn a_large_stale_list_is_recognized_by_its_first_bytes() {
    let high_water = HighWater::default();
    high_water.advance(&widgets().group_resource, &ResourceVersion::number(50));
    let items: Vec<String> = (0..600).map(|n| item(&format!("o{n}"), 1)).collect();
    let server = Server::replying([list_next(40, "", &items), list(60, &["a"])]);
    let mut watch = server.api().watch(widgets(), start(&high_water));
    assert_eq!(steps(&mut watch, 3).await, ["began", "items a", "listed 60"]);
}

/// Rule 1.20.
#[tokio::test(start_paused = true)]
async fn a_too_large_version_leads_to_a_consistent_read() {
    let too_large = || {
        let details = r#"{"causes":[{"reason":"ResourceVersionTooLarge"}],"retryAfterSeconds":1}"#;
        Reply::status(504, "Timeout: Too large resource version: 50, current: 7", details)
    };
    let high_water = HighWater::default();
    let number = ResourceVersion::number;
    let widgets_type = widgets().group_resource.clone();
    high_water.advance(&widgets_type, &number(50));
    // The server lags.
    let server = Server::replying([too_large(), list(51, &["a"])]);
    let mut watch = server.api().watch(widgets(), start(&high_water));
    assert_eq!(steps(&mut watch, 3).await, ["began", "items a", "listed 51"]);
    // The store was restored.
    let server = Server::replying([too_large(), list(8, &["a"])]);
    let mut watch = server.api().watch(widgets(), start(&high_water));
    assert_eq!(steps(&mut watch, 4).await, ["restored 51 8", "began", "items a", "listed 8"]);
    assert_eq!(high_water.get(&widgets_type), Some(number(8)));
    // An aggregated API's versions prove nothing of the kind.
    high_water.advance(&widgets_type, &number(50));
    let server = Server::replying([too_large(), list(8, &["a"])]);
    let aggregated = WatchStart { high_water, aggregated: true };
    let mut watch = server.api().watch(widgets(), aggregated);
    assert_eq!(steps(&mut watch, 3).await, ["began", "items a", "listed 8"]);
}

/// Like a custom resource with a new version that cannot be converted: its cache is never filled,
/// and the server waits for it without an answer.
#[tokio::test(start_paused = true)]
async fn without_an_answer_from_the_cache_the_store_is_listed_until_it_works() {
    let high_water = HighWater::default();
    high_water.advance(&widgets().group_resource, &ResourceVersion::number(50));
    let why = || Reply::status(500, "conversion webhook failed: connection refused", "{}");
    let server = Server::replying([Reply::never(), why(), why(), list(60, &["a"]), Reply::never()]);
    let mut watch = server.api().watch(widgets(), start(&high_water));
    let mut words = Vec::new();
    for _ in 0..3 {
        match watch.next().await {
            Some(Step::Failed { error, .. }) => words.push(error.message),
            step => panic!("{}", text(step)),
        }
    }
    assert!(words[0].contains("no answer within 30s"), "{words:?}");
    assert!(words[1..].iter().all(|words| words.contains("conversion webhook failed")), "{words:?}");
    assert_eq!(steps(&mut watch, 3).await, ["began", "items a", "listed 60"]);
    assert_eq!(kinds(&server)[..4], ["list 50", "list store", "list store", "list store"]);
}

/// A server that is down, or says that it is busy, is not asked for more than before.
#[tokio::test(start_paused = true)]
async fn a_list_that_failed_immediately_is_requested_from_the_cache_again() {
    let high_water = HighWater::default();
    high_water.advance(&widgets().group_resource, &ResourceVersion::number(50));
    let server = Server::replying([Reply::code(503, "not yet"), list(60, &[])]);
    let mut watch = server.api().watch(widgets(), start(&high_water));
    assert_eq!(steps(&mut watch, 3).await, ["failed transient", "began", "listed 60"]);
    assert_eq!(kinds(&server)[..2], ["list 50", "list 50"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_cached_lists_is_read_in_pages() {
    let server = Server::replying([
        Reply::status(400, "resourceVersionMatch is forbidden", "{}"),
        list_next(30, "t/1", &[item("a", 1)]),
        // Meanwhile the store went on; the list stands for its first page's version.
        list_next(30, "", &[item("b", 1)]),
        Reply::status(410, "gone", "{}"),
        list(40, &[]),
    ]);
    let mut watch = watch(&server);
    let seen = steps(&mut watch, 7).await;
    assert_eq!(seen, ["began", "items a", "items b", "listed 30", "expired", "began", "listed 40"]);
    assert_eq!(kinds(&server), ["list 0", "list store", "page t%2F1", "watch 30", "list store"]);
    assert_eq!(server.seen()[1].query("limit"), Some("500"));
}

#[tokio::test(start_paused = true)]
async fn an_expired_continue_token_restarts_the_list() {
    let lost = Reply::code(
        410,
        r#"{"kind":"Status","code":410,"reason":"Expired","message":"The provided continue parameter is too old",
            "metadata":{"continue":"INCONSISTENT"}}"#,
    );
    let server = Server::replying([
        Reply::status(400, "no", "{}"),
        list_next(30, "t1", &[item("a", 1)]),
        lost,
        list(31, &["b"]),
    ]);
    let mut watch = watch(&server);
    let seen = steps(&mut watch, 6).await;
    assert_eq!(seen, ["began", "items a", "failed expired", "began", "items b", "listed 31"]);
    assert!(!server.requests().iter().any(|request| request.contains("INCONSISTENT")));
}

#[tokio::test(start_paused = true)]
async fn a_stalled_list_is_cancelled() {
    let body = r#"{"kind":"WidgetList","metadata":{"resourceVersion":"9"},"items":["#;
    let server = Server::replying([
        Reply::stream([Part::Data(body.into()), Part::Hang]),
        Reply::ok(body),
        list(9, &["a"]),
    ]);
    let mut watch = watch(&server);
    let failed = "failed transient";
    assert_eq!(steps(&mut watch, 5).await, [failed, failed, "began", "items a", "listed 9"]);
}

#[tokio::test(start_paused = true)]
async fn an_api_without_versions_is_listed_after_every_watch() {
    let none = || Reply::ok(r#"{"kind":"WidgetList","metadata":{},"items":[]}"#);
    let server = Server::replying([none(), Reply::stream([]), none()]);
    let start = WatchStart { high_water: HighWater::default(), aggregated: true };
    let api: Api = server.api_with(ApiSettings::default(), WriteGate::open());
    let mut watch = api.watch(widgets(), start);
    assert_eq!(steps(&mut watch, 5).await, ["began", "listed -", "watch ended", "began", "listed -"]);
    assert_eq!(kinds(&server), ["list 0", "watch -", "list 0"]);
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_type_reports_it_and_is_retried() {
    let server = Server::answering(|_| Reply::status(403, "widgets is forbidden", "{}"));
    let mut watch = watch(&server);
    match watch.next().await {
        Some(Step::Failed { error, .. }) => {
            assert_eq!(error.class, ErrorClass::Denied);
            assert_eq!(error.to_string(), "LIST widgets.example.com: 403 Forbidden: widgets is forbidden");
        }
        step => panic!("{}", text(step)),
    }
    assert_eq!(steps(&mut watch, 1).await, ["failed denied"]);
}

/// Its server may have restarted with versions that count from one. Then a resumed watch might
/// miss events without a sign.
#[tokio::test(start_paused = true)]
async fn an_aggregated_api_whose_versions_went_back_is_listed_again() {
    for (now, expected) in
        [("3", "list store"), ("zebra", "list store"), ("60", "watch 60"), ("70", "watch 60")]
    {
        let answer = move || {
            Reply::ok(format!(
                r#"{{"kind":"WidgetList","metadata":{{"resourceVersion":"{now}"}},"items":[]}}"#
            ))
        };
        let server = Server::replying([
            list(50, &["a"]),
            Reply::stream([lines([&event("ADDED", "b", 60)]), Part::Break]),
            answer(),
            answer(),
        ]);
        let start = WatchStart { high_water: HighWater::default(), aggregated: true };
        let api = server.api();
        let mut watch = api.watch(widgets(), start);
        assert_eq!(steps(&mut watch, 5).await[3..], ["+b", "failed transient"]);
        let _ = tokio::time::timeout(Duration::from_secs(60), watch.next()).await;
        assert_eq!(kinds(&server)[..4], ["list 0", "watch 50", "check", expected], "{now}");
        assert_eq!(api.restore_fence().disturbance().number, 0, "that says nothing of the main store");
    }
}

/// What a truncated list has shown counts as seen: the next list must not be older.
#[tokio::test(start_paused = true)]
async fn a_truncated_list_is_not_followed_by_an_older_one() {
    let api_settings = ApiSettings { page_size: 1, ..ApiSettings::default() };
    let high_water = HighWater::default();
    high_water.advance(&widgets().group_resource, &ResourceVersion::number(5));
    let server = Server::replying([
        Reply::status(504, "Too large resource version", "{}"),
        list_next(9, "next", &[item("a", 8)]),
        Reply::code(500, "oops"),
        list(9, &["a"]),
    ]);
    let mut watch = server.api_with(api_settings, WriteGate::open()).watch(widgets(), start(&high_water));
    while !text(watch.next().await).starts_with("listed") {}
    assert_eq!(kinds(&server).last().unwrap(), "list 9");
}
