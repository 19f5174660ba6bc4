//! Servers that say what no server should. An aggregated API can be anybody's.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_failure_with_the_code_200_is_neither_a_list_nor_a_watch() {
    let failure =
        r#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":404,"message":"not at home"}"#;
    let failure = || Reply::ok(format!("{failure}\n"));
    let steps = "failed transient; began; items a; listed 10; failed unusable";
    play(seen_up_to(0), vec![failure(), list(10, &["a"]), failure()], steps, "list 0; list 0; watch 10")
        .await;
}

/// Fails if the time is added to a clock as it is.
#[tokio::test(start_paused = true)]
async fn a_watch_never_waits_longer_than_the_limit_for_a_retry_after() {
    for after in ["18446744073709551615", "100000", "-1", "Wed, 21 Oct 2065 07:28:00 GMT"] {
        for is_list in [true, false] {
            let server = Server::answering(move |seen| match seen.query("watch") {
                None if !is_list => list(10, &[]),
                _ => Reply::status(429, "later", "{}").header("retry-after", after),
            });
            let mut watch = watch(&server);
            let retry_in = loop {
                if let Some(Step::Failed { retry_in, .. }) = watch.next().await {
                    break retry_in;
                }
            };
            assert!(retry_in <= Duration::from_secs(60), "{after}: {retry_in:?}");
            assert_eq!(text(watch.next().await).split(' ').next(), Some("failed"), "it is tried again");
        }
    }
}

/// Rule 7.8.
#[tokio::test(start_paused = true)]
async fn a_list_with_endless_pages_is_cancelled() {
    let server = Server::answering(|seen| match seen.query("resourceVersionMatch") {
        Some(_) => Reply::code(400, "no caches here"),
        None => list_next(10, "t", &[item("a", 1)]),
    });
    follows(&mut watch(&server), "began; items a; failed unusable").await;
    assert_asked(&server, "list 0; list store; page t");
}

/// Objects as fat as they can be: a batch of 500 of them would be most of a gigabyte.
#[tokio::test(start_paused = true)]
async fn large_objects_come_in_small_batches() {
    let fat = |n: usize, kind: &str| {
        let object = item(&format!("o{n}"), 1)
            .replace("{\"name", &format!("{{\"x\":\"{}\",\"name", "x".repeat(1 << 20)));
        match kind {
            "" => object,
            kind => format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n"),
        }
    };
    let server = Server::answering(move |seen| {
        let part = |text: String| Part::Data(text.into());
        if seen.query("watch").is_some() {
            return Reply::stream((0..40).map(|n| part(fat(n, "ADDED"))).chain([Part::Hang]));
        }
        let start = r#"{"kind":"WidgetList","metadata":{"resourceVersion":"9"},"items":["#.to_owned();
        let items = (0..40).map(|n| part(fat(n, "") + ","));
        Reply::stream([part(start)].into_iter().chain(items).chain([part("{}]}".into())]))
    });
    let mut watch = watch(&server);
    let (mut listed, mut came) = (Vec::new(), Vec::new());
    while came.iter().sum::<usize>() < 40 {
        match watch.next().await.unwrap() {
            Step::InitApply(items) => listed.push(items.len()),
            Step::Events(events) => came.push(events.len()),
            _ => {}
        }
    }
    for batches in [&listed, &came] {
        assert_eq!(batches.iter().sum::<usize>(), 40);
        assert!(batches.iter().all(|batch| *batch <= 5), "{batches:?}");
    }
}

/// Fails if what is read together is bounded by the events alone, or not at all.
#[tokio::test(start_paused = true)]
async fn an_endless_line_ends_the_watch() {
    let all = format!("{}\n", bookmark(20)).repeat(2000);
    let bookmarks = Reply::stream([Part::Data(all.into()), Part::Hang]);
    let steps = "began; listed 10; bookmark 20; bookmark 20; bookmark 20; bookmark 20";
    play(seen_up_to(0), vec![list(10, &[]), bookmarks], steps, "list 0; watch 10").await;
    let chunk = bytes::Bytes::from(vec![b' '; 1 << 20]);
    let endless = Reply::stream(std::iter::repeat_n(Part::Data(chunk), 100));
    let replies = vec![list(10, &[]), endless, list(10, &[])];
    play(seen_up_to(0), replies, "began; listed 10; failed unusable", "list 0; watch 10").await;
}

/// As deep as a body can be. The decoder skips without recursion, and what it does not skip has
/// bounded depth.
#[tokio::test(start_paused = true)]
async fn deep_nesting_does_no_harm() {
    let deep = "[".repeat(1 << 20) + &"]".repeat(1 << 20);
    let skipped = item("a", 1).replace("{\"name", &format!("{{\"labels\":{deep},\"name"));
    let read = item("a", 1).replace("{\"name", &format!("{{\"ownerReferences\":{deep},\"name"));
    let replies = |item| vec![list_next(10, "", &[item])];
    play(seen_up_to(0), replies(skipped), "began; items a; listed 10", "list 0").await;
    play(seen_up_to(0), replies(read), "failed unusable", "list 0").await;
}
