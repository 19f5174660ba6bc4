use super::*;

#[tokio::test(start_paused = true)]
async fn a_type_is_listed_from_the_cache_and_watched_from_there() {
    let events = [event("ADDED", "c", 11), event("DELETED", "a", 12)];
    let parts =
        [lines([&events[0], &events[1]]), Part::Pause(Duration::from_secs(9)), lines([&bookmark(20)])];
    let replies = vec![list(10, &["a", "b"]), Reply::stream(parts)];
    let steps = "began; items a,b; listed 10; +c -a; bookmark 20";
    let server = Server::replying(replies);
    let api = server.api();
    follows(&mut watch_from(&api, seen_up_to(0)), steps).await;
    assert_asked(&server, "list 0; watch 10");
    assert_eq!(api.high_water().get(&widgets().group_resource), Some(ResourceVersion::number(20)));
    let requests = server.seen();
    assert_eq!(requests[0].query("limit"), None);
    assert_eq!(requests[0].query("resourceVersionMatch"), Some("NotOlderThan"));
    assert_eq!(requests[1].query("allowWatchBookmarks"), Some("true"));
    assert_eq!(requests[1].header("accept-encoding"), "identity");
    let seconds: u64 = requests[1].query("timeoutSeconds").unwrap().parse().unwrap();
    assert!((300..=600).contains(&seconds));
}

#[tokio::test(start_paused = true)]
async fn large_lists_come_in_batches_without_objects_that_have_no_uid() {
    let mut items: Vec<String> = (0..1200).map(|n| item(&format!("o{n}"), 1)).collect();
    items.push(r#"{"metadata":{"name":"nameless"}}"#.into());
    let items = items.join(",");
    let whole = format!(r#"{{"kind":"WidgetList","metadata":{{"resourceVersion":"9"}},"items":[{items}]}}"#);
    let chunks = whole.as_bytes().chunks(1000).map(|chunk| Part::Data(chunk.to_vec().into()));
    let server = Server::replying([Reply::stream(chunks)]);
    let mut watch = watch(&server);
    follows(&mut watch, "began").await;
    let mut batches = Vec::new();
    loop {
        match watch.next().await.unwrap() {
            Step::InitApply(items) => batches.push(items.len()),
            step => break assert_eq!(text(Some(step)), "listed 9"),
        }
    }
    assert!(batches.iter().sum::<usize>() == 1200 && batches.len() >= 3, "{batches:?}");
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
    let WatchSettings { least_backoff, greatest_backoff, .. } = ApiSettings::default().watch;
    assert!((least_backoff..least_backoff * 3 / 2).contains(&waits[0]));
    assert!(waits.iter().all(|wait| *wait <= greatest_backoff));
    assert_eq!(waits[11], greatest_backoff);
    let times: Vec<Duration> = server.seen().windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    for (wait, time) in waits.iter().zip(times) {
        assert!(time >= *wait && time < *wait + Duration::from_millis(5), "{time:?} for {wait:?}");
    }
}

/// Rules 1.15 and 1.20.
#[tokio::test(start_paused = true)]
async fn a_relist_never_goes_back() {
    // A server that knows nothing of NotOlderThan answers from an old cache, with the version after the
    // items.
    let old = || Reply::ok(r#"{"kind":"WidgetList","items":[],"metadata":{"resourceVersion":"40"}}"#);
    let many: Vec<String> = (0..600).map(|n| item(&format!("o{n}"), 1)).collect();
    let listed = "began; items a; listed 60";
    for (start, replies, steps) in [
        (seen_up_to(50), vec![old(), list(60, &["a"])], listed),
        // It is recognized by its first bytes.
        (seen_up_to(50), vec![list_next(40, "", &many), list(60, &["a"])], listed),
        (seen_up_to(50), vec![too_large(), list(60, &["a"])], listed),
        // The store was restored.
        (seen_up_to(50), vec![too_large(), list(8, &["a"])], "restored 50 8; began; items a; listed 8"),
        // An aggregated API's versions prove nothing of the kind.
        (aggregated(50), vec![too_large(), list(8, &["a"])], "began; items a; listed 8"),
    ] {
        play(start, replies, steps, "list 50; list store").await;
    }
    // What a truncated list has shown counts as seen.
    let (page, broken) = (list_next(90, "t", &[item("a", 8)]), Reply::code(500, "oops"));
    let replies = vec![too_large(), page, broken, list(90, &["a"])];
    let steps = "began; items a; failed transient; began; items a; listed 90";
    play(seen_up_to(50), replies, steps, "list 50; list store; page t; list 90").await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_is_read_again_in_the_way_that_its_failure_suggests() {
    let (page, other) = (list_next(30, "t/1", &[item("a", 1)]), list_next(30, "", &[item("b", 1)]));
    let refused = || Reply::status(400, "resourceVersionMatch is forbidden", "{}");
    let expired = Reply::code(
        410,
        r#"{"kind":"Status","code":410,"reason":"Expired","message":"The provided continue parameter is too old",
            "metadata":{"continue":"INCONSISTENT"}}"#,
    );
    let begins = r#"{"kind":"WidgetList","metadata":{"resourceVersion":"9"},"items":["#;
    let stalls = Reply::stream([Part::Data(begins.into()), Part::Hang]);
    let without = || Reply::ok(r#"{"kind":"WidgetList","metadata":{},"items":[]}"#);
    let failing = || Reply::status(500, "conversion webhook failed: connection refused", "{}");
    let failed = "failed transient; failed transient";
    for (start, replies, steps, requests) in [
        // A server that is down, or says that it is busy, is not asked for more than before.
        (
            seen_up_to(50),
            vec![Reply::code(503, "not yet"), list(60, &[])],
            "failed transient; began; listed 60",
            "list 50; list 50",
        ),
        // The list stands for the version of its first page.
        (
            seen_up_to(0),
            vec![refused(), page.clone(), other, Reply::status(410, "gone", "{}"), list(40, &[])],
            "began; items a; items b; listed 30; expired; began; listed 40",
            "list 0; list store; page t%2F1; watch 30; list store",
        ),
        // The token that the server offers instead is inconsistent.
        (
            seen_up_to(0),
            vec![refused(), page, expired, list(31, &["b"])],
            "began; items a; failed expired; began; items b; listed 31",
            "list 0; list store; page t%2F1; list store",
        ),
        (
            seen_up_to(0),
            vec![stalls, Reply::ok(begins), list(9, &["a"])],
            &*format!("{failed}; began; items a; listed 9"),
            "list 0; list 0; list 0",
        ),
        (
            aggregated(0),
            vec![without(), Reply::stream([]), without()],
            "began; listed -; watch ended; began; listed -",
            "list 0; watch -; list 0",
        ),
        // Like a custom resource with a new version that cannot be converted: its cache is never filled,
        // and the server waits for it without an answer.
        (
            seen_up_to(50),
            vec![Reply::never(), failing(), list(60, &["a"])],
            &*format!("{failed}; began; items a; listed 60"),
            "list 50; list store; list store",
        ),
        (
            seen_up_to(0),
            vec![Reply::status(403, "widgets is forbidden", "{}"), list(9, &[])],
            "failed denied; began; listed 9",
            "list 0; list 0",
        ),
    ] {
        play(start, replies, steps, requests).await;
    }
    let throttled = Reply::status(429, "slow down", "{}").header("retry-after", "45");
    let replies = vec![throttled, list(5, &[])];
    let server = play(seen_up_to(0), replies, "failed throttled; began; listed 5", "list 0; list 0").await;
    assert!(server.seen()[1].at >= Duration::from_secs(45));
}

/// Its server may have restarted with versions that count from one. Then a resumed watch might
/// miss events without a sign.
#[tokio::test(start_paused = true)]
async fn an_aggregated_api_whose_versions_went_back_is_listed_again() {
    for (now, expected) in
        [("3", "list store"), ("zebra", "list store"), ("60", "watch 60"), ("70", "watch 60")]
    {
        let now = format!(r#"{{"kind":"WidgetList","metadata":{{"resourceVersion":"{now}"}},"items":[]}}"#);
        let broken = Reply::stream([lines([&event("ADDED", "b", 60)]), Part::Break]);
        let server = Server::replying([list(50, &["a"]), broken, Reply::ok(now.clone()), Reply::ok(now)]);
        let api = server.api();
        let mut watch = api.watch(widgets(), DeletesProve::Nothing);
        follows(&mut watch, "began; items a; listed 50; +b; failed transient").await;
        let _ = tokio::time::timeout(Duration::from_secs(60), watch.next()).await;
        assert_asked(&server, &format!("list 0; watch 50; check; {expected}"));
        assert_eq!(api.restore_fence().disturbance().number, 0, "that says nothing of the main store");
    }
}
