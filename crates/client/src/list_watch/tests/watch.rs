use super::*;

#[tokio::test(start_paused = true)]
async fn a_clean_close_resumes_from_the_last_version_but_not_in_a_hot_loop() {
    let server = Server::answering(|seen| {
        let version: u64 = seen.query("resourceVersion").map_or(5, |version| version.parse().unwrap());
        match seen.query("watch") {
            Some(_) => Reply::stream([lines([&event("MODIFIED", "a", version + 1)])]),
            // The version asked for after an early close.
            None if seen.query("limit").is_some() => list(1000, &[]),
            None => list(5, &["a"]),
        }
    });
    let mut watch = watch(&server);
    steps(&mut watch, 3).await;
    let began = Instant::now();
    for _ in 0..20 {
        assert_eq!(steps(&mut watch, 2).await, ["+a", "watch ended"]);
    }
    let elapsed = began.elapsed();
    assert!((Duration::from_secs(19)..Duration::from_secs(30)).contains(&elapsed), "{elapsed:?}");
    assert_eq!(kinds(&server)[..6], ["list 0", "watch 5", "check", "watch 6", "check", "watch 7"]);
}

#[tokio::test(start_paused = true)]
async fn expiry_in_any_form_leads_to_a_list_that_is_not_older() {
    let server = Server::replying([
        list(10, &["a"]),
        Reply::stream([lines([&event("ADDED", "b", 15), GONE])]),
        list(16, &["b"]),
        Reply::status(410, "too old resource version: 16 (99)", "{}"),
        list(100, &["b"]),
        Reply::stream([lines([
            r#"{"type":"ERROR","object":{"code":500,"message":"too old resource version"}}"#,
        ])]),
        list(101, &["b"]),
    ]);
    let mut watch = watch(&server);
    let seen = steps(&mut watch, 14).await;
    assert_eq!(seen[3..8], ["+b", "expired", "began", "items b", "listed 16"]);
    assert_eq!(seen[8..12], ["expired", "began", "items b", "listed 100"]);
    assert_eq!(
        kinds(&server)[..7],
        ["list 0", "watch 10", "list 15", "watch 16", "list store", "watch 100", "list store"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_phase_ends_before_the_next_one_sends_a_request() {
    let server = Server::replying([
        list(10, &["a"]),
        Reply::stream([lines([&event("ADDED", "b", 15), GONE])]),
        list(16, &["b"]),
    ]);
    let mut watch = watch(&server);
    for said in ["began", "items a", "listed 10"] {
        assert_eq!(text(watch.next_in(Phase::List).await.unwrap()), said);
    }
    for _ in 0..2 {
        assert_eq!(watch.next_in(Phase::List).await, Err(Phase::Watch));
    }
    assert_eq!(kinds(&server), ["list 0"]);
    for said in ["+b", "expired"] {
        assert_eq!(text(watch.next_in(Phase::Watch).await.unwrap()), said);
    }
    assert_eq!(watch.next_in(Phase::Watch).await, Err(Phase::List));
    assert_eq!(kinds(&server), ["list 0", "watch 10"]);
    assert_eq!(text(watch.next_in(Phase::List).await.unwrap()), "began");
    assert_eq!(kinds(&server), ["list 0", "watch 10", "list 15"]);
}

#[tokio::test(start_paused = true)]
async fn a_cache_too_old_for_its_own_watches_is_not_listed_again() {
    let server = Server::answering(|seen| {
        let version = seen.query("resourceVersion");
        match seen.query("watch") {
            Some(_) if version == Some("1") => Reply::status(410, "too old resource version: 1 (134)", "{}"),
            Some(_) => Reply::stream([lines([&event("ADDED", "b", 135)])]),
            None if version.is_some() => list(1, &["a"]),
            None => list(134, &["a"]),
        }
    });
    let mut watch = watch(&server);
    let seen = steps(&mut watch, 8).await;
    assert_eq!(seen, ["began", "items a", "listed 1", "expired", "began", "items a", "listed 134", "+b"]);
    assert_eq!(kinds(&server), ["list 0", "watch 1", "list store", "watch 134"]);
}

#[tokio::test(start_paused = true)]
async fn repeated_expiry_after_lists_backs_off() {
    let server = Server::answering(|seen| match seen.query("watch") {
        Some(_) => Reply::status(410, "gone", "{}"),
        None => list(10, &["a"]),
    });
    let mut watch = watch(&server);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(300) {
        watch.next().await;
    }
    let count = server.seen().len();
    assert!(count < 40, "{count} requests");
}

#[tokio::test(start_paused = true)]
async fn a_restore_during_a_watch_is_noticed_before_the_watch_is_resumed() {
    let server = Server::replying([
        list(50, &["a"]),
        Reply::stream([lines([&event("ADDED", "b", 60)]), Part::Break]),
        list(20, &["a"]),
        list(20, &["a"]),
    ]);
    let mut watch = watch(&server);
    let seen = steps(&mut watch, 9).await;
    assert_eq!(seen[3..], ["+b", "failed transient", "restored 60 20", "began", "items a", "listed 20"]);
    assert_eq!(kinds(&server)[..4], ["list 0", "watch 50", "check", "list store"]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_cancelled_after_its_time() {
    let server = Server::replying([
        list(5, &[]),
        Reply::stream([Part::Hang]),
        list(5, &[]),
        Reply::stream([Part::Hang]),
    ]);
    let mut watch = watch(&server);
    assert_eq!(steps(&mut watch, 3).await, ["began", "listed 5", "watch ended"]);
    let asked: u64 = server.seen()[1].query("timeoutSeconds").unwrap().parse().unwrap();
    let _ = tokio::time::timeout(Duration::from_secs(5), watch.next()).await;
    let again = server.seen()[2].at;
    let expected = Duration::from_secs(asked) + WatchSettings::default().grace;
    assert!(again >= expected && again < expected + Duration::from_secs(3), "{again:?} for {expected:?}");
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_line_is_not_read_again_and_again() {
    let server = Server::replying([
        list(5, &[]),
        Reply::stream([lines([&event("ADDED", "a", 6), r#"{"type":"NONSENSE","object":{}}"#])]),
        list(9, &["a"]),
    ]);
    let mut watch = watch(&server);
    let seen = steps(&mut watch, 7).await;
    assert_eq!(seen[2..], ["+a", "failed unusable", "began", "items a", "listed 9"]);
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_watch_are_retried_and_finally_lead_to_a_list() {
    let error = r#"{"type":"ERROR","object":{"code":500,"message":"cannot convert"}}"#;
    let server = Server::answering(move |seen| match seen.query("watch") {
        Some(_) => Reply::stream([lines([error])]),
        None => list(5, &[]),
    });
    let mut watch = watch(&server);
    let seen = steps(&mut watch, 7).await;
    let failed = "failed transient";
    assert_eq!(seen, ["began", "listed 5", failed, failed, failed, "began", "listed 5"]);
    assert_eq!(kinds(&server)[..7], ["list 0", "watch 5", "check", "watch 5", "check", "watch 5", "list 5"]);
}

#[tokio::test(start_paused = true)]
async fn a_drained_watch_delivers_its_remaining_events_and_ends() {
    let last = event("DELETED", "a", 8);
    let server = Server::replying([
        list(5, &["a"]),
        Reply::stream([Part::Pause(Duration::from_secs(3)), lines([&last])]),
    ]);
    let mut watch = watch(&server);
    steps(&mut watch, 3).await;
    let waiting = tokio::time::timeout(Duration::from_secs(1), watch.next()).await;
    assert!(waiting.is_err());
    watch.drain();
    assert_eq!(steps(&mut watch, 4).await, ["-a", "watch ended", "ended", "ended"]);
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn draining_without_a_watch_ends_at_once() {
    let server = Server::answering(|_| Reply::code(500, "oops"));
    let mut watch = watch(&server);
    assert_eq!(steps(&mut watch, 1).await, ["failed transient"]);
    watch.drain();
    assert_eq!(steps(&mut watch, 1).await, ["ended"]);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_of_next_loses_nothing_and_repeats_no_request() {
    let body =
        format!(r#"{{"kind":"WidgetList","metadata":{{"resourceVersion":"9"}},"items":[{}"#, item("a", 1));
    let tick = Duration::from_millis(100);
    let server = Server::replying([
        Reply::stream([
            Part::Data(body.into()),
            Part::Pause(tick * 5),
            Part::Data(format!(",{}]}}", item("b", 1)).into()),
        ]),
        Reply::stream([Part::Pause(tick * 5), lines([&event("ADDED", "c", 10)]), Part::Hang]),
    ]);
    let mut watch = watch(&server);
    let mut seen = Vec::new();
    for _ in 0..30 {
        if let Ok(step) = tokio::time::timeout(tick, watch.next()).await {
            seen.push(text(step));
        }
    }
    assert_eq!(seen, ["began", "items a,b", "listed 9", "+c"]);
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_follows_the_events_that_came_with_it_unless_later_ones_did() {
    let server = Server::replying([
        list(10, &[]),
        Reply::stream([
            lines([&event("ADDED", "a", 11), &bookmark(12)]),
            Part::Pause(Duration::from_secs(1)),
            lines([&bookmark(13), &event("ADDED", "b", 14)]),
            Part::Hang,
        ]),
    ]);
    let seen = steps(&mut watch(&server), 5).await;
    assert_eq!(seen[2..], ["+a", "bookmark 12", "+b"]);
}
