//! Watches: where they begin, what they show, how they end.

use super::*;
use crate::store::Ending;

#[test]
fn a_watch_shows_what_happens_after_its_version() {
    let (mut fixture, [.., c4, c5]) = Fixture::filled(Release::V1_36);
    let mut watch = fixture.watch(&format!("resourceVersion={c4}"));
    assert_eq!(fixture.events(&mut watch), [event("ADDED", "c5", c5)]);
    let changed = fixture.put("shop", "c1", json!({"app": "y"}));
    fixture.put("elsewhere", "c1", json!({}));
    let gone = fixture.remove("shop", "c2");
    let expected = [event("MODIFIED", "c1", changed), event("DELETED", "c2", gone)];
    assert_eq!(fixture.events(&mut watch), expected);
    assert_eq!(fixture.events(&mut watch), []);
}

#[test]
fn a_watch_without_a_version_begins_with_the_current_objects() {
    for query in ["", "resourceVersion=0"] {
        let (mut fixture, [c1, c2, c3, c4, c5]) = Fixture::filled(Release::V1_36);
        let mut watch = fixture.watch(query);
        let there = [("c1", c1), ("c2", c2), ("c3", c3), ("c4", c4), ("c5", c5)];
        let c6 = fixture.put("shop", "c6", json!({}));
        let expected: Vec<_> = there
            .into_iter()
            .chain([("c6", c6)])
            .map(|(name, version)| event("ADDED", name, version))
            .collect();
        assert_eq!(fixture.events(&mut watch), expected);
    }
}

#[test]
fn many_initial_events_come_in_chunks_of_one_version() {
    let mut fixture = Fixture::new(Release::V1_36);
    let text = "x".repeat(1000);
    for number in 0..200 {
        fixture.put("shop", &format!("c{number:03}"), json!({"text": text}));
    }
    let mut watch = fixture.watch("");
    let Pull::Lines(first) = fixture.pull(&mut watch) else { panic!("nothing is shown") };
    assert!(first.len() < 100_000, "{} bytes at once", first.len());
    let gone = fixture.remove("shop", "c199");
    let events = fixture.events(&mut watch);
    let first = String::from_utf8(first.to_vec()).unwrap().lines().count();
    assert_eq!(first + events.len(), 201);
    assert_eq!(events.last(), Some(&event("DELETED", "c199", gone)));
}

#[test]
fn an_object_that_leaves_the_selection_is_deleted() {
    let mut fixture = Fixture::new(Release::V1_36);
    let began = fixture.put("shop", "a", json!({"app": "x"}));
    let mut watch = fixture.watch(&format!("resourceVersion={began}&labelSelector=app=x"));
    let left = fixture.put("shop", "a", json!({"app": "y"}));
    let lines = fixture.lines(&mut watch);
    assert_eq!(lines[0]["type"], "DELETED");
    assert_eq!(lines[0]["object"]["metadata"]["labels"]["app"], "x", "the event has the last selected state");
    assert_eq!(lines[0]["object"]["metadata"]["resourceVersion"], left.to_string());
    fixture.put("shop", "a", json!({"app": "z"}));
    let entered = fixture.put("shop", "a", json!({"app": "x"}));
    assert_eq!(fixture.events(&mut watch), [event("ADDED", "a", entered)]);
    fixture.put("shop", "a", json!({"app": "y"}));
    fixture.events(&mut watch);
    fixture.remove("shop", "a");
    assert_eq!(fixture.events(&mut watch), [], "an object outside of the selection is not deleted");
}

#[test]
fn a_watch_from_a_compacted_version_is_gone() {
    let (mut fixture, [c1, c2, ..]) = Fixture::filled(Release::V1_36);
    fixture.server.store.compact(c2);
    let mut watch = fixture.watch(&format!("resourceVersion={c1}"));
    let lines = fixture.lines(&mut watch);
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["type"], "ERROR");
    assert_eq!(
        (&lines[0]["object"]["code"], &lines[0]["object"]["reason"]),
        (&json!(410), &json!("Expired"))
    );
    assert_eq!(lines[0]["object"]["message"], format!("too old resource version: {c1} ({c2})"));
    assert_eq!(fixture.pull(&mut watch), Pull::End);

    fixture.server.settings.gone_as_status = true;
    let refused = fixture.refused(&format!("watch=true&resourceVersion={c1}"));
    assert_eq!((refused.0, refused.1.as_str()), (410, "Expired"));
    let mut watch = fixture.watch(&format!("resourceVersion={c2}"));
    assert_eq!(fixture.events(&mut watch).len(), 3);
}

#[test]
fn a_watch_that_keeps_up_outlives_compaction() {
    let (mut fixture, [c1, ..]) = Fixture::filled(Release::V1_36);
    let mut quick = fixture.watch(&format!("resourceVersion={c1}"));
    let mut slow = quick.clone();
    assert_eq!(fixture.events(&mut quick).len(), 4);
    fixture.elsewhere();
    assert_eq!(fixture.events(&mut quick), []);
    fixture.server.store.compact(u64::MAX);
    assert_eq!(fixture.events(&mut quick), []);
    assert_eq!(fixture.events(&mut slow)[0].0, "ERROR");
}

#[test]
fn bookmarks_report_the_version_of_a_watch() {
    let (mut fixture, [.., c5]) = Fixture::filled(Release::V1_36);
    let query = format!("resourceVersion={c5}&timeoutSeconds=150");
    let mut plain = fixture.watch(&query);
    let mut watch = fixture.watch(&format!("{query}&allowWatchBookmarks=true"));
    let head = fixture.elsewhere();
    assert_eq!(fixture.events(&mut watch), []);
    let mut seen = Vec::new();
    for _ in 0..4 {
        fixture.wait(50);
        seen.push(fixture.events(&mut watch));
    }
    let bookmark = || vec![event("BOOKMARK", "", head)];
    assert_eq!(seen, [vec![], bookmark(), bookmark(), vec![]], "the second bookmark comes with the end");
    assert_eq!(fixture.pull(&mut watch), Pull::End);
    assert_eq!(fixture.pull(&mut plain), Pull::End);
}

#[test]
fn bookmarks_of_an_old_release_know_only_their_own_type() {
    let (mut fixture, [c1, .., c5]) = Fixture::filled(Release::V1_20);
    let head = fixture.elsewhere();
    let query = |from: u64| format!("resourceVersion={from}&allowWatchBookmarks=true");
    let (mut behind, mut watch) = (fixture.watch(&query(c1)), fixture.watch(&query(c5)));
    let mut ahead = fixture.watch(&query(head));
    assert_eq!(fixture.events(&mut behind).len(), 4);
    fixture.wait(60);
    assert_eq!(fixture.events(&mut behind), [], "the version was in an event");
    assert_eq!(fixture.events(&mut watch), [], "the version was known at the start");
    assert_eq!(fixture.events(&mut ahead), [], "a bookmark never goes back");
    let c6 = fixture.put("shop", "c6", json!({}));
    fixture.elsewhere();
    for watch in [&mut behind, &mut watch, &mut ahead] {
        assert_eq!(fixture.events(watch), [event("ADDED", "c6", c6)]);
    }
    fixture.wait(60);
    for watch in [&mut behind, &mut watch, &mut ahead] {
        assert_eq!(fixture.events(watch), [event("BOOKMARK", "", c6)]);
    }
}

#[test]
fn a_watch_waits_for_the_next_event_bookmark_or_end() {
    let (mut fixture, [.., c5]) = Fixture::filled(Release::V1_36);
    let query = format!("resourceVersion={c5}&timeoutSeconds=100");
    let mut watch = fixture.watch(&query);
    assert_eq!(fixture.pull(&mut watch), Pull::Pending(fixture.now + Duration::from_secs(100)));
    let mut watch = fixture.watch(&format!("{query}&allowWatchBookmarks=1"));
    assert_eq!(fixture.pull(&mut watch), Pull::Pending(fixture.now + Duration::from_secs(60)));
}

#[test]
fn a_lagging_cache_delays_watches() {
    let (mut fixture, [.., c5]) = Fixture::filled(Release::V1_36);
    let mut open = fixture.watch(&format!("resourceVersion={c5}&allowWatchBookmarks=true"));
    fixture.server.store.freeze(&configmaps());
    let gone = fixture.remove("shop", "c1");
    let mut anew = fixture.watch("");
    let mut ahead = fixture.watch(&format!("resourceVersion={gone}"));
    fixture.wait(60);
    assert_eq!(fixture.events(&mut open), [event("BOOKMARK", "", c5)]);
    assert_eq!(fixture.events(&mut anew).len(), 5);
    fixture.server.store.thaw(&configmaps());
    let deleted = [event("DELETED", "c1", gone)];
    assert_eq!(fixture.events(&mut open), deleted);
    assert_eq!(fixture.events(&mut anew), deleted);
    assert_eq!(fixture.events(&mut ahead), []);
}

#[test]
fn a_list_can_be_streamed() {
    let (mut fixture, [.., c5]) = Fixture::filled(Release::V1_36);
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = fixture.watch(query);
    let lines = fixture.lines(&mut watch);
    assert_eq!(lines.len(), 6);
    let end = &lines[5];
    assert_eq!(end["type"], "BOOKMARK");
    assert_eq!(end["object"]["metadata"]["resourceVersion"], c5.to_string());
    assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");

    fixture.server.store.freeze(&configmaps());
    let c6 = fixture.put("shop", "c6", json!({}));
    assert_eq!(
        fixture.refused(&format!("watch=true&{query}")).0,
        504,
        "the cache has not reached the version"
    );
    let mut stale = fixture.watch(&format!("{query}&resourceVersion=0"));
    assert_eq!(fixture.events(&mut stale).len(), 6);
    fixture.server.store.thaw(&configmaps());
    assert_eq!(fixture.events(&mut stale), [event("ADDED", "c6", c6)]);
}

#[test]
fn options_of_watches_must_fit_together() {
    let (mut old, _) = Fixture::filled(Release::V1_20);
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    assert_eq!(old.refused(query).0, 422, "an old release knows no initial events");
    let (mut new, _) = Fixture::filled(Release::V1_36);
    for query in [
        "watch=1&sendInitialEvents=true",
        "watch=1&resourceVersionMatch=NotOlderThan",
        "sendInitialEvents=true",
    ] {
        assert_eq!(new.refused(query).0, 422, "{query}");
    }
    assert_eq!(new.refused("watch=1&resourceVersion=abc").0, 500);
}

#[test]
fn a_watch_without_a_timeout_ends_within_the_hour() {
    let (mut fixture, _) = Fixture::filled(Release::V1_36);
    let mut watch = fixture.watch("");
    fixture.events(&mut watch);
    fixture.wait(1799);
    assert!(matches!(fixture.pull(&mut watch), Pull::Pending(_)));
    fixture.wait(1801);
    assert_eq!(fixture.pull(&mut watch), Pull::End);
}

#[test]
fn watches_are_ended_from_outside() {
    let (mut fixture, [.., c4, c5]) = Fixture::filled(Release::V1_36);
    let watch = fixture.watch(&format!("resourceVersion={c4}"));
    let store = &mut fixture.server.store;
    store.end_watches(Some(&configmaps()), Ending::Clean);
    fixture.put("shop", "late", json!({}));
    let mut clean = watch.clone();
    assert_eq!(fixture.events(&mut clean), [event("ADDED", "c5", c5)], "earlier events are still sent");
    assert_eq!(fixture.pull(&mut clean), Pull::End);

    let mut cut = fixture.watch(&format!("resourceVersion={c4}"));
    fixture.server.store.end_watches(None, Ending::Cut);
    assert_eq!(fixture.pull(&mut cut), Pull::Cut);
    assert_eq!(fixture.pull(&mut cut), Pull::End);

    let backup = fixture.server.store.snapshot();
    let mut restored = fixture.watch(&format!("resourceVersion={c4}"));
    fixture.server.store.restore(&backup);
    assert_eq!(fixture.pull(&mut restored), Pull::End);
}

#[test]
fn a_timeout_that_overflows_in_nanoseconds_ends_at_once() {
    for seconds in [i64::MAX, -5] {
        let (mut fixture, [.., c4, c5]) = Fixture::filled(Release::V1_36);
        let mut watch = fixture.watch(&format!("resourceVersion={c4}&timeoutSeconds={seconds}"));
        assert_eq!(fixture.events(&mut watch), [event("ADDED", "c5", c5)], "{seconds}");
        assert_eq!(fixture.pull(&mut watch), Pull::End, "{seconds}");
    }
    // A long timeout that does not overflow is kept.
    let mut fixture = Fixture::new(Release::V1_36);
    let mut watch = fixture.watch("timeoutSeconds=9000000000");
    let Pull::Pending(until) = fixture.pull(&mut watch) else { panic!("it has ended") };
    assert_eq!(until.duration_since(fixture.now).unwrap().as_secs(), 9_000_000_000);
}

#[test]
fn an_old_release_has_no_streamed_lists() {
    let (mut fixture, _) = Fixture::filled(Release::V1_20);
    let mut watch = fixture.watch("sendInitialEvents=true&allowWatchBookmarks=true");
    let kinds: Vec<String> = fixture.events(&mut watch).into_iter().map(|(kind, ..)| kind).collect();
    assert_eq!(kinds, ["ADDED"; 5], "no bookmark ends initial events that were not requested");
    let mut watch = fixture.watch("sendInitialEvents=false");
    assert_eq!(fixture.events(&mut watch).len(), 5);
}
