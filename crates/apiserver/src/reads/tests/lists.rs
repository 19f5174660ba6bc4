//! Get and list: versions, pages, and invalid options.

use super::*;

const RELEASES: [Release; 2] = [Release::V1_20, Release::V1_36];

#[test]
fn an_object_is_its_own_404() {
    let (mut fixture, [_, c2, ..]) = Fixture::filled(Release::V1_36);
    let (code, object) = fixture.get("/api/v1/namespaces/shop/configmaps/c2");
    assert_eq!((code, &object["metadata"]["resourceVersion"]), (200, &json!(c2.to_string())));
    let (code, status) = fixture.get("/api/v1/namespaces/shop/configmaps/c9");
    assert_eq!((code, &status["reason"]), (404, &json!("NotFound")));
    assert_eq!(status["details"], json!({"name": "c9", "kind": "configmaps"}));
}

#[test]
fn a_list_has_the_objects_of_a_namespace_or_of_all() {
    let mut fixture = Fixture::new(Release::V1_36);
    for (namespace, name) in [("shop", "a"), ("shop-b", "a"), ("shop", "b")] {
        fixture.put(namespace, name, json!({}));
    }
    assert_eq!(fixture.list("").names(), ["a", "b"]);
    let (_, all) = fixture.get("/api/v1/configmaps");
    assert_eq!(all["kind"], "ConfigMapList");
    let namespaces: Vec<&Value> =
        all["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["namespace"]).collect();
    assert_eq!(namespaces, ["shop-b", "shop", "shop"]);
    assert_eq!(all["items"][0]["kind"], Value::Null, "items of built-in types have no kind");
}

#[test]
fn all_pages_of_a_list_have_one_version() {
    for release in RELEASES {
        let (mut fixture, [.., c5]) = Fixture::filled(release);
        let first = fixture.list("limit=2");
        assert_eq!((first.names(), first.remaining(), first.version()), (vec!["c1", "c2"], Some(3), c5));
        fixture.remove("shop", "c3");
        fixture.put("shop", "c31", json!({}));
        fixture.put("shop", "c4", json!({"app": "y"}));
        let second = fixture.list(&format!("limit=2&continue={}", first.token().unwrap()));
        assert_eq!((second.names(), second.remaining(), second.version()), (vec!["c3", "c4"], Some(1), c5));
        assert_eq!(second.0["items"][1]["metadata"]["labels"]["app"], "x");
        let third = fixture.list(&format!("limit=2&continue={}", second.token().unwrap()));
        assert_eq!((third.names(), third.remaining(), third.token()), (vec!["c5"], None, None));
    }
}

#[test]
fn pages_span_namespaces() {
    let mut fixture = Fixture::new(Release::V1_36);
    for (namespace, name) in [("a", "1"), ("a-b", "1"), ("b", "1")] {
        fixture.put(namespace, name, json!({}));
    }
    let (mut seen, mut token) = (Vec::new(), String::new());
    for _ in 0..3 {
        let (_, page) = fixture.get(&format!("/api/v1/configmaps?limit=1&continue={token}"));
        seen.push(page["items"][0]["metadata"]["namespace"].as_str().unwrap().to_owned());
        token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
    }
    assert_eq!((seen, token.as_str()), (vec!["a-b".to_owned(), "a".to_owned(), "b".to_owned()], ""));
}

#[test]
fn a_full_page_at_the_end_is_the_last() {
    let (mut fixture, _) = Fixture::filled(Release::V1_36);
    let page = fixture.list("limit=5");
    assert_eq!((page.names().len(), page.token()), (5, None));
}

#[test]
fn a_page_with_a_selector_has_no_remaining_count() {
    let (mut fixture, _) = Fixture::filled(Release::V1_36);
    let page = fixture.list("limit=1&labelSelector=app=x");
    assert_eq!((page.names(), page.remaining()), (vec!["c1"], None));
    assert!(page.token().is_some());
}

#[test]
fn a_list_of_a_compacted_version_can_be_continued_inconsistently() {
    let (mut fixture, _) = Fixture::filled(Release::V1_36);
    let token = fixture.list("limit=2").token().unwrap().to_owned();
    fixture.remove("shop", "c3");
    fixture.server.store.compact(u64::MAX);
    let path = format!("/api/v1/namespaces/shop/configmaps?limit=2&continue={token}");
    let (code, status) = fixture.get(&path);
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
    let token = status["metadata"]["continue"].as_str().unwrap();
    let rest = fixture.list(&format!("limit=2&continue={token}"));
    assert_eq!((rest.names(), rest.version()), (vec!["c4", "c5"], fixture.server.store.head()));
}

#[test]
fn malformed_tokens_are_rejected() {
    let (mut fixture, _) = Fixture::filled(Release::V1_36);
    let token = fixture.list("limit=2").token().unwrap().to_owned();
    for query in
        ["continue=abc".to_owned(), "continue=%%".to_owned(), format!("continue={token}&resourceVersion=5")]
    {
        let (code, reason, _) = fixture.refused(&query);
        assert_eq!((code, reason.as_str()), (400, "BadRequest"), "{query}");
    }
    assert_eq!(fixture.list(&format!("continue={token}&resourceVersion=0")).names(), ["c3", "c4", "c5"]);
}

#[test]
fn versions_can_be_requested_in_three_ways() {
    for release in RELEASES {
        let (mut fixture, [c1, c2, .., c5]) = Fixture::filled(release);
        assert_eq!(fixture.list("resourceVersion=0").names().len(), 5);
        let exact = fixture.list(&format!("resourceVersion={c2}&resourceVersionMatch=Exact"));
        assert_eq!((exact.names(), exact.version()), (vec!["c1", "c2"], c2));
        let page = fixture.list(&format!("resourceVersion={c1}&limit=2"));
        assert_eq!(
            (page.names(), page.version()),
            (vec!["c1"], c1),
            "a page has exactly the requested version"
        );
        let newer = fixture.list(&format!("resourceVersion={c2}&resourceVersionMatch=NotOlderThan&limit=2"));
        assert_eq!((newer.names(), newer.version()), (vec!["c1", "c2"], c5));
        assert_eq!(fixture.list("resourceVersion=0&limit=2").names().len(), 5, "the cache has no pages");
        fixture.server.store.compact(c2);
        let (code, reason, _) = fixture.refused(&format!("resourceVersion={c1}&resourceVersionMatch=Exact"));
        assert_eq!((code, reason.as_str()), (410, "Expired"));
    }
}

#[test]
fn malformed_versions_are_rejected() {
    let (mut fixture, _) = Fixture::filled(Release::V1_20);
    let refused = [
        ("resourceVersion=abc", 500),
        ("resourceVersion=999&limit=2", 500),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422),
        ("resourceVersionMatch=NotOlderThan", 422),
        ("resourceVersion=2&resourceVersionMatch=Sometimes", 422),
        ("limit=some", 400),
    ];
    for (query, code) in refused {
        assert_eq!(fixture.refused(query).0, code, "{query}");
    }
    assert_eq!(fixture.refused("continue=x&resourceVersionMatch=Exact").0, 422);
}

#[test]
fn a_future_version_is_too_large() {
    let (mut fixture, _) = Fixture::filled(Release::V1_36);
    for path in ["configmaps?resourceVersion=999", "configmaps/c1?resourceVersion=999"] {
        let (code, status) = fixture.get(&format!("/api/v1/namespaces/shop/{path}"));
        assert_eq!((code, &status["reason"]), (504, &json!("Timeout")), "{path}");
        assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
        assert_eq!(status["details"]["retryAfterSeconds"], 1);
    }
}

#[test]
fn the_cache_of_an_old_release_knows_only_versions_of_its_type() {
    let (mut fixture, [.., c5]) = Fixture::filled(Release::V1_20);
    let head = fixture.elsewhere();
    assert_eq!(fixture.list("").version(), head);
    assert_eq!(fixture.list("resourceVersion=0").version(), c5);
    assert_eq!(fixture.refused(&format!("resourceVersion={head}")).0, 504);
    let (mut fixture, _) = Fixture::filled(Release::V1_36);
    let head = fixture.elsewhere();
    assert_eq!(fixture.list("resourceVersion=0").version(), head);
    assert_eq!(fixture.list(&format!("resourceVersion={head}")).version(), head);
}

#[test]
fn a_lagging_cache_affects_reads_that_may_be_old() {
    for release in RELEASES {
        let (mut fixture, [.., c4, c5]) = Fixture::filled(release);
        fixture.server.store.freeze(&configmaps());
        fixture.remove("shop", "c1");
        let c6 = fixture.put("shop", "c6", json!({}));
        let names = ["c1", "c2", "c3", "c4", "c5"];
        let stale = fixture.list("resourceVersion=0");
        assert_eq!((stale.names(), stale.version()), (names.to_vec(), c5));
        assert_eq!(fixture.list(&format!("resourceVersion={c4}")).names(), names);
        assert_eq!(fixture.get("/api/v1/namespaces/shop/configmaps/c1?resourceVersion=0").0, 200);
        assert_eq!(fixture.get("/api/v1/namespaces/shop/configmaps/c6?resourceVersion=0").0, 404);
        assert_eq!(fixture.refused(&format!("resourceVersion={c6}")).0, 504);

        let now = ["c2", "c3", "c4", "c5", "c6"];
        assert_eq!(fixture.list("").names(), now);
        assert_eq!(fixture.list("limit=9").names(), now);
        assert_eq!(fixture.get("/api/v1/namespaces/shop/configmaps/c1").0, 404);
        fixture.server.store.thaw(&configmaps());
        assert_eq!(fixture.list(&format!("resourceVersion={c6}")).names(), now);
    }
}
