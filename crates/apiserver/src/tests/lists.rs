//! Get and list: versions, pages, forms and selectors.

use super::*;

const RELEASES: [Release; 2] = [Release::V1_20, Release::V1_36];

#[test]
fn all_pages_of_a_list_have_one_version() {
    for release in RELEASES {
        let (mut stage, [.., c5]) = Stage::filled(release);
        let shown = |(names, list): &(Vec<String>, Value)| {
            let metadata = &list["metadata"];
            let version = metadata["resourceVersion"].as_str().and_then(|version| version.parse().ok());
            (names.join(" "), metadata["remainingItemCount"].as_u64(), version)
        };
        let token = |list: &Value| list["metadata"]["continue"].as_str().map(str::to_owned);
        let first = stage.list("limit=2");
        assert_eq!(shown(&first), ("c1 c2".to_owned(), Some(3), Some(c5)));
        stage.remove("c3");
        stage.put("c31", json!({}));
        let second = stage.list(&format!("limit=2&continue={}", token(&first.1).unwrap()));
        assert_eq!(shown(&second), ("c3 c4".to_owned(), Some(1), Some(c5)));
        let third = stage.list(&format!("limit=2&continue={}", token(&second.1).unwrap()));
        assert_eq!((shown(&third), token(&third.1)), (("c5".to_owned(), None, Some(c5)), None));

        // A list of a compacted version can be continued inconsistently.
        stage.server.store.compact(u64::MAX);
        let path = format!("{MAPS}?limit=2&continue={}", token(&first.1).unwrap());
        let status = stage.refused(("GET", &path), Value::Null, (410, "Expired"));
        let rest = stage.list(&format!("limit=9&continue={}", token(&status).unwrap()));
        assert_eq!(shown(&rest), ("c31 c4 c5".to_owned(), None, Some(stage.server.store.head())));
    }
}

#[test]
fn versions_can_be_requested_in_three_ways() {
    for release in RELEASES {
        let (mut stage, [c1, c2, .., c5]) = Stage::filled(release);
        for (query, names, version) in [
            ("resourceVersion=0&limit=2".to_owned(), 5, c5),
            (format!("resourceVersion={c2}&resourceVersionMatch=Exact"), 2, c2),
            (format!("resourceVersion={c1}&limit=2"), 1, c1),
            (format!("resourceVersion={c2}&resourceVersionMatch=NotOlderThan&limit=2"), 2, c5),
        ] {
            let (found, list) = stage.list(&query);
            assert_eq!(found.len(), names, "{query}");
            assert_eq!(list["metadata"]["resourceVersion"], version.to_string(), "{query}");
        }
        stage.server.store.compact(c2);
        let path = format!("{MAPS}?resourceVersion={c1}&resourceVersionMatch=Exact");
        stage.refused(("GET", &path), Value::Null, (410, "Expired"));
    }
}

#[test]
fn options_must_fit_together() {
    let (mut stage, _) = Stage::filled(Release::V1_36);
    for (query, expected) in [
        ("resourceVersion=abc", (400, "BadRequest")),
        ("limit=some", (400, "BadRequest")),
        ("continue=abc", (400, "BadRequest")),
        ("labelSelector=a!b", (400, "BadRequest")),
        ("resourceVersion=0&resourceVersionMatch=Exact", (422, "Invalid")),
        ("resourceVersion=2&resourceVersionMatch=Sometimes", (422, "Invalid")),
        ("resourceVersionMatch=NotOlderThan", (422, "Invalid")),
        ("sendInitialEvents=true", (422, "Invalid")),
        ("watch=1&sendInitialEvents=true", (422, "Invalid")),
        ("watch=1&resourceVersionMatch=NotOlderThan", (422, "Invalid")),
    ] {
        stage.refused(("GET", &format!("{MAPS}?{query}")), Value::Null, expected);
    }
    for path in [format!("{MAPS}?resourceVersion=999"), format!("{MAPS}/c1?resourceVersion=999")] {
        let status = stage.refused(("GET", &path), Value::Null, (504, "Timeout"));
        assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
        assert_eq!(status["details"]["retryAfterSeconds"], 1);
    }
}

#[test]
fn the_cache_of_an_old_release_knows_only_versions_of_its_type() {
    let (mut old, [.., c5]) = Stage::filled(Release::V1_20);
    let head = old.elsewhere().to_string();
    assert_eq!(old.list("").1["metadata"]["resourceVersion"], head);
    assert_eq!(old.list("resourceVersion=0").1["metadata"]["resourceVersion"], c5.to_string());
    old.refused(("GET", &format!("{MAPS}?resourceVersion={head}")), Value::Null, (504, "Timeout"));
    let (mut new, _) = Stage::filled(Release::V1_36);
    let head = new.elsewhere().to_string();
    assert_eq!(new.list("resourceVersion=0").1["metadata"]["resourceVersion"], head);
}

#[test]
fn a_lagging_cache_affects_reads_that_may_be_old() {
    for release in RELEASES {
        let (mut stage, [.., c4, c5]) = Stage::filled(release);
        stage.server.store.freeze(&configmaps());
        stage.remove("c1");
        let c6 = stage.put("c6", json!({}));
        let (names, stale) = stage.list("resourceVersion=0");
        assert_eq!(
            (names.join(" ").as_str(), &stale["metadata"]["resourceVersion"]),
            ("c1 c2 c3 c4 c5", &json!(c5.to_string()))
        );
        assert_eq!(stage.list(&format!("resourceVersion={c4}")).0, names);
        assert_eq!(stage.get(&format!("{MAPS}/c1?resourceVersion=0")).0, 200);
        stage.refused(("GET", &format!("{MAPS}?resourceVersion={c6}")), Value::Null, (504, "Timeout"));
        assert_eq!(stage.list("").0.join(" "), "c2 c3 c4 c5 c6");
        stage.refused(("GET", &format!("{MAPS}/c1")), Value::Null, (404, "NotFound"));
        stage.server.store.thaw(&configmaps());
        assert_eq!(stage.list(&format!("resourceVersion={c6}")).0.len(), 5);
    }
}

#[test]
fn objects_are_selected_by_labels_and_fields() {
    let mut stage = Stage::new(Release::V1_36);
    for (name, labels) in
        [("one", json!({"n": "1", "app.io/x": "y"})), ("two", json!({"n": "2"})), ("zero", json!({}))]
    {
        stage.put(name, labels);
    }
    for (selector, names) in [
        ("labelSelector=", "one two zero"),
        ("labelSelector=n==2", "two"),
        ("labelSelector=n != 1", "two zero"),
        ("labelSelector=n in (1, 2)", "one two"),
        ("labelSelector=n notin (1,3)", "two zero"),
        ("labelSelector=!n", "zero"),
        ("labelSelector=n,app.io/x=y", "one"),
        ("fieldSelector=metadata.name!=one,metadata.namespace=shop", "two zero"),
        ("fieldSelector=data.key=value&labelSelector=n", "one two"),
    ] {
        assert_eq!(stage.list(selector).0.join(" "), names, "{selector}");
    }
}

#[test]
fn an_answer_can_be_a_table() {
    let mut stage = Stage::new(Release::V1_36);
    stage.ok("POST", PODS, json!({"metadata": {"name": "p"}, "spec": {"containers": [{}]}}));
    stage.now += Duration::from_secs(180);
    stage.accept = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let table = stage.ok("GET", PODS, Value::Null);
    let names = table["columnDefinitions"].as_array().unwrap().iter().map(|column| column["name"].clone());
    assert_eq!(names.collect::<Vec<_>>(), ["Name", "Ready", "Status", "Age"]);
    assert_eq!(table["rows"][0]["cells"], json!(["p", "0/1", "Pending", "3m"]));
    stage.accept = "text/html";
    stage.refused(("GET", PODS), Value::Null, (406, "NotAcceptable"));
}
