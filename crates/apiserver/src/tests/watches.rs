//! Watches: where they begin, what they show, how they end.

use super::*;

const STREAMED: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

#[test]
fn many_initial_events_come_in_chunks_of_one_version() {
    let mut stage = Stage::new(Release::V1_36);
    let text = "x".repeat(1000);
    for number in 0..200 {
        stage.put(&format!("c{number:03}"), json!({"text": text}));
    }
    let mut watch = stage.watch("");
    let Pull::Lines(first) = stage.pull(&mut watch) else { panic!("nothing is shown") };
    assert!(first.len() < 100_000, "{} bytes at once", first.len());
    let gone = stage.remove("c199");
    let events = stage.events(&mut watch);
    assert_eq!(String::from_utf8_lossy(&first).lines().count() + events.len(), 201);
    assert_eq!(events.last(), Some(&event("DELETED", "c199", gone)));
}

#[test]
fn an_object_that_leaves_the_selection_is_deleted() {
    let mut stage = Stage::new(Release::V1_36);
    let began = stage.put("a", json!({"app": "x"}));
    let mut watch = stage.watch(&format!("resourceVersion={began}&labelSelector=app=x"));
    let left = stage.put("a", json!({"app": "y"}));
    let lines = stage.lines(&mut watch);
    assert_eq!(
        (&lines[0]["type"], &lines[0]["object"]["metadata"]["labels"]["app"]),
        (&json!("DELETED"), &json!("x"))
    );
    assert_eq!(lines[0]["object"]["metadata"]["resourceVersion"], left.to_string());
    let entered = stage.put("a", json!({"app": "x"}));
    assert_eq!(stage.events(&mut watch), [event("ADDED", "a", entered)]);
    stage.put("a", json!({"app": "y"}));
    stage.events(&mut watch);
    stage.remove("a");
    assert_eq!(stage.events(&mut watch), [], "an object outside of the selection is not deleted");
}

#[test]
fn bookmarks_report_the_version_of_a_watch() {
    let (mut stage, [.., c5]) = Stage::filled(Release::V1_36);
    let query = format!("resourceVersion={c5}&timeoutSeconds=150");
    let mut plain = stage.watch(&query);
    assert_eq!(stage.pull(&mut plain), Pull::Pending(stage.now + Duration::from_secs(150)));
    let mut watch = stage.watch(&format!("{query}&allowWatchBookmarks=true"));
    let head = stage.elsewhere();
    let mut seen = Vec::new();
    for _ in 0..4 {
        stage.wait(50);
        seen.push(stage.events(&mut watch));
    }
    let bookmark = || vec![event("BOOKMARK", "", head)];
    assert_eq!(seen, [vec![], bookmark(), bookmark(), vec![]], "the second bookmark comes with the end");
    assert_eq!((stage.pull(&mut watch), stage.pull(&mut plain)), (Pull::End, Pull::End));
    let mut endless = stage.watch(&format!("resourceVersion={c5}"));
    stage.wait(3600);
    assert_eq!(stage.pull(&mut endless), Pull::End, "a watch ends within the hour");
}

#[test]
fn a_lagging_cache_delays_watches() {
    let (mut stage, [.., c5]) = Stage::filled(Release::V1_36);
    let mut open = stage.watch(&format!("resourceVersion={c5}&allowWatchBookmarks=true"));
    stage.server.store.freeze(&configmaps());
    let gone = stage.remove("c1");
    let mut anew = stage.watch("");
    let mut ahead = stage.watch(&format!("resourceVersion={gone}"));
    stage.wait(60);
    assert_eq!(stage.events(&mut open), [event("BOOKMARK", "", c5)]);
    assert_eq!(stage.events(&mut anew).len(), 5);
    stage.server.store.thaw(&configmaps());
    let deleted = [event("DELETED", "c1", gone)];
    assert_eq!((stage.events(&mut open), stage.events(&mut anew)), (deleted.to_vec(), deleted.to_vec()));
    assert_eq!(stage.events(&mut ahead), []);
}

#[test]
fn a_list_can_be_streamed() {
    let (mut stage, [.., c5]) = Stage::filled(Release::V1_36);
    let mut watch = stage.watch(STREAMED);
    let lines = stage.lines(&mut watch);
    let end = &lines[5]["object"]["metadata"];
    assert_eq!((lines.len(), &end["resourceVersion"]), (6, &json!(c5.to_string())));
    assert_eq!(end["annotations"]["k8s.io/initial-events-end"], "true");

    stage.server.store.freeze(&configmaps());
    let c6 = stage.put("c6", json!({}));
    stage.refused(("GET", &format!("{MAPS}?watch=true&{STREAMED}")), Value::Null, (504, "Timeout"));
    let mut stale = stage.watch(&format!("{STREAMED}&resourceVersion=0"));
    assert_eq!(stage.events(&mut stale).len(), 6);
    stage.server.store.thaw(&configmaps());
    assert_eq!(stage.events(&mut stale), [event("ADDED", "c6", c6)]);

    let (mut old, _) = Stage::filled(Release::V1_20);
    let mut watch = old.watch("sendInitialEvents=true&allowWatchBookmarks=true");
    assert_eq!(old.events(&mut watch).len(), 5, "an old release ignores the option");
}
