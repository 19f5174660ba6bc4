use super::*;
use crate::list_watch::driver::GRACE;

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
    follows(&mut watch, "began; items a; listed 5").await;
    let began = Instant::now();
    for _ in 0..20 {
        follows(&mut watch, "+a; watch ended").await;
    }
    let elapsed = began.elapsed();
    assert!((Duration::from_secs(19)..Duration::from_secs(30)).contains(&elapsed), "{elapsed:?}");
    assert_asked(&server, "list 0; watch 5; check; watch 6; check; watch 7");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_expires_or_fails_leads_to_a_list_that_is_not_older() {
    let added = |name, version| event("ADDED", name, version);
    let expired = || Reply::status(410, "too old resource version: 16 (99)", "{}");
    let too_old = r#"{"type":"ERROR","object":{"code":500,"message":"too old resource version"}}"#;
    let nonsense = r#"{"type":"NONSENSE","object":{}}"#;
    let cannot = || {
        let error = r#"{"type":"ERROR","object":{"code":500,"message":"cannot convert"}}"#;
        Reply::stream([lines([error])])
    };
    for (replies, steps, requests) in [
        (
            vec![
                list(10, &["a"]),
                Reply::stream([lines([&added("b", 15), GONE])]),
                list(16, &["b"]),
                // A cache that is too old for its own watches is not listed again.
                expired(),
                list(100, &["b"]),
                Reply::stream([lines([too_old])]),
                list(101, &["b"]),
                Reply::stream([lines([&added("c", 135)])]),
            ],
            "began; items a; listed 10; +b; expired; began; items b; listed 16; expired; began; items b; \
             listed 100; expired; began; items b; listed 101; +c",
            "list 0; watch 10; list 15; watch 16; list store; watch 100; list store; watch 101",
        ),
        (
            vec![list(5, &[]), Reply::stream([lines([&added("a", 6), nonsense])]), list(9, &["a"])],
            "began; listed 5; +a; failed unusable; began; items a; listed 9",
            "list 0; watch 5; list 6",
        ),
        (
            vec![list(5, &[]), cannot(), list(5, &[]), cannot(), list(5, &[]), cannot(), list(5, &[])],
            "began; listed 5; failed transient; failed transient; failed transient; began; listed 5",
            "list 0; watch 5; check; watch 5; check; watch 5; list 5",
        ),
    ] {
        play(seen_up_to(0), replies, steps, requests).await;
    }
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
    assert_eq!(server.seen().len(), 1);
    for said in ["+b", "expired"] {
        assert_eq!(text(watch.next_in(Phase::Watch).await.unwrap()), said);
    }
    assert_eq!(watch.next_in(Phase::Watch).await, Err(Phase::List));
    assert_eq!(server.seen().len(), 2);
    assert_eq!(text(watch.next_in(Phase::List).await.unwrap()), "began");
    assert_asked(&server, "list 0; watch 10; list 15");
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
    let broken = Reply::stream([lines([&event("ADDED", "b", 60)]), Part::Break]);
    let replies = vec![list(50, &["a"]), broken, list(20, &["a"]), list(20, &["a"])];
    let steps = "began; items a; listed 50; +b; failed transient; restored 60 20; began; items a; listed 20";
    play(seen_up_to(0), replies, steps, "list 0; watch 50; check; list store").await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_cancelled_after_its_time() {
    let silent = || Reply::stream([Part::Hang]);
    let server = Server::replying([list(5, &[]), silent(), list(5, &[]), silent()]);
    let mut watch = watch(&server);
    follows(&mut watch, "began; listed 5; watch ended").await;
    let asked: u64 = server.seen()[1].query("timeoutSeconds").unwrap().parse().unwrap();
    let _ = tokio::time::timeout(Duration::from_secs(5), watch.next()).await;
    let again = server.seen()[2].at;
    let expected = Duration::from_secs(asked) + GRACE;
    assert!(again >= expected && again < expected + Duration::from_secs(3), "{again:?} for {expected:?}");
}

#[tokio::test(start_paused = true)]
async fn a_drained_watch_delivers_its_remaining_events_and_ends() {
    let last = Reply::stream([Part::Pause(Duration::from_secs(3)), lines([&event("DELETED", "a", 8)])]);
    let server = Server::replying([list(5, &["a"]), last]);
    let mut watch = watch(&server);
    follows(&mut watch, "began; items a; listed 5").await;
    let waiting = tokio::time::timeout(Duration::from_secs(1), watch.next()).await;
    assert!(waiting.is_err());
    watch.drain();
    follows(&mut watch, "-a; watch ended; ended; ended").await;
    assert_eq!(server.seen().len(), 2);
    // Without a watch, it ends at once.
    let server = Server::replying([Reply::code(500, "oops")]);
    let mut watch = self::watch(&server);
    follows(&mut watch, "failed transient").await;
    watch.drain();
    follows(&mut watch, "ended").await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_of_next_loses_nothing_and_repeats_no_request() {
    let body =
        format!(r#"{{"kind":"WidgetList","metadata":{{"resourceVersion":"9"}},"items":[{}"#, item("a", 1));
    let rest = format!(",{}]}}", item("b", 1));
    let tick = Duration::from_millis(100);
    let server = Server::replying([
        Reply::stream([Part::Data(body.into()), Part::Pause(tick * 5), Part::Data(rest.into())]),
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
    let events = Reply::stream([
        lines([&event("ADDED", "a", 11), &bookmark(12)]),
        Part::Pause(Duration::from_secs(1)),
        lines([&bookmark(13), &event("ADDED", "b", 14)]),
        Part::Hang,
    ]);
    let steps = "began; listed 10; +a; bookmark 12; +b";
    play(seen_up_to(0), vec![list(10, &[]), events], steps, "list 0; watch 10").await;
}
