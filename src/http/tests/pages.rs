//! Tests of `/debug/decisions` and `/debug/stuck`.

use super::*;
use crate::telemetry::StuckReason;
use kube_gc_core::object::Namespace;

fn object() -> ObjectView {
    ObjectView {
        resource: "jobs.batch".to_owned(),
        namespace: Some("a".to_owned()),
        name: Some("b".to_owned()),
        uid: UID.to_owned(),
    }
}

/// Returns the query in the fields of a decision.
pub fn decisions(query: &DecisionQuery) -> DecisionsPage {
    let asked = DecisionView {
        more_owners: 0,
        at: noon(),
        object: object(),
        action: "delete",
        policy: Some("Background"),
        finalizer: None,
        outcome: "denied",
        error: Some(format!("{query:?}")),
        owners: vec![OwnerView {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: "owner".to_owned(),
            uid: "u".to_owned(),
            blocking: true,
            controller: false,
            class: "absent".to_owned(),
            evidence: "live".to_owned(),
            error: None,
        }],
        owner: None,
    };
    DecisionsPage { total: 7, capacity: 2, decisions: vec![asked], disagreements: None }
}

/// Returns the query in the fields of a stuck object; fails for the namespace `broken`.
pub fn stuck(query: &StuckQuery) -> Result<StuckPage, Ended> {
    if query.namespace == Namespace::parse("broken") {
        return Err(Ended);
    }
    let asked = StuckItem {
        object: object(),
        reason: StuckReason::Denied.as_str(),
        since: noon(),
        waiting_seconds: 3.5,
        attempts: Some(2),
        next_retry_seconds: None,
        message: format!("{query:?}"),
        blocked_by: Vec::new(),
        hint: hint(StuckReason::Denied),
    };
    Ok(StuckPage { standby: false, totals: BTreeMap::from([("denied", 1)]), stuck: vec![asked] })
}

#[tokio::test]
async fn a_page_cannot_control_the_terminal_that_shows_it() {
    let harmful = "\u{7f}\u{9b}31m\u{1b}[2J\u{202e}\u{2028}\r\n";
    let page = crate::http::page::json(StatusCode::OK, &json!({ "message": harmful }));
    let body = axum::body::to_bytes(page.into_body(), usize::MAX).await.unwrap();
    let body = String::from_utf8(body.to_vec()).unwrap();
    assert_eq!(body.lines().count(), 3, "{body:?}");
    assert!(body.chars().all(|c| c == '\n' || kube_gc_core::text::escape::is_printable(c)), "{body:?}");
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["message"], harmful);
}

#[test]
fn an_object_with_a_long_name_and_uid_is_shown_shortened() {
    let long = "x".repeat(500_000);
    let uid = kube_gc_core::object::Uid::parse(&long).unwrap();
    let resource = Arc::new(kube_gc_core::object::ResourceType {
        group_resource: GroupResource::parse("configmaps"),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        scope: kube_gc_core::object::Scope::Namespaced,
    });
    let namespace = Namespace::parse("a");
    let identity = kube_gc_core::object::Identity { resource, namespace, name: long.as_str().into(), uid };
    let view = serde_json::to_string(&ObjectView::from(&identity)).unwrap();
    assert!(view.len() < 1024, "{} bytes", view.len());
}

#[tokio::test]
async fn decisions_have_exactly_the_documented_fields() {
    let (status, page) = json_of(get_debug("/debug/decisions").await);
    let asked = format!("{:?}", DecisionQuery::default());
    let expected = json!({
        "total": 7, "capacity": 2,
        "decisions": [{
            "at": "2026-11-20T12:00:00Z",
            "object": { "resource": "jobs.batch", "namespace": "a", "name": "b", "uid": UID },
            "action": "delete", "policy": "Background", "finalizer": null, "outcome": "denied", "error": asked,
            "owners": [{
                "api_version": "v1", "kind": "Pod", "name": "owner", "uid": "u", "blocking": true,
                "controller": false, "class": "absent", "evidence": "live", "error": null,
            }],
            "owner": null,
        }],
    });
    assert_eq!((status, page), (StatusCode::OK, expected));
}

#[tokio::test]
async fn decisions_are_filtered_by_every_parameter() {
    let path = format!(
        "/debug/decisions?namespace=n&resource=jobs.batch&uid={UID}&action=delete&outcome=denied&limit=3"
    );
    let (_, page) = json_of(get_debug(&path).await);
    let asked = DecisionQuery {
        namespace: Namespace::parse("n"),
        resource: Some(GroupResource::parse("jobs.batch")),
        uid: Uid::parse(UID),
        action: Some("delete".to_owned()),
        outcome: Some("denied".to_owned()),
        limit: Some(3),
    };
    assert_eq!(page["decisions"][0]["error"], format!("{asked:?}"));
}

#[tokio::test]
async fn stuck_objects_have_exactly_the_documented_fields() {
    let (status, page) = json_of(get_debug("/debug/stuck").await);
    let expected = json!({
        "standby": false, "totals": { "denied": 1 },
        "stuck": [{
            "object": { "resource": "jobs.batch", "namespace": "a", "name": "b", "uid": UID },
            "reason": "denied", "since": "2026-11-20T12:00:00Z", "waiting_seconds": 3.5, "attempts": 2,
            "next_retry_seconds": null, "message": format!("{:?}", StuckQuery::default()),
            "hint": hint(StuckReason::Denied),
        }],
    });
    assert_eq!((status, page), (StatusCode::OK, expected));
}

#[tokio::test]
async fn stuck_objects_are_filtered_by_every_parameter() {
    let path = "/debug/stuck?namespace=n&resource=jobs.batch&reason=invalid_scope&limit=3";
    let (_, page) = json_of(get_debug(path).await);
    let asked = StuckQuery {
        namespace: Namespace::parse("n"),
        resource: Some(GroupResource::parse("jobs.batch")),
        reason: Some(StuckReason::InvalidScope),
        limit: Some(3),
    };
    assert_eq!(page["stuck"][0]["message"], format!("{asked:?}"));
    let (status, ..) = get_debug("/debug/stuck?namespace=broken").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn invalid_parameters_are_rejected_with_a_reason() {
    for (path, said) in [
        ("/debug/stuck?reason=tired", "must be one of conflict, denied,"),
        ("/debug/stuck?limit=0", "whole number from 1 to"),
        ("/debug/stuck?uid=x", "unknown parameter \"uid\""),
        ("/debug/stuck?namespace=", "namespace= needs"),
        ("/debug/stuck?namespace=a&namespace=b", "namespace= is set twice"),
        ("/debug/decisions?resource=", "resource= needs"),
        ("/debug/decisions?uid=", "uid= needs"),
        ("/debug/decisions?action=", "action= needs"),
        ("/debug/decisions?limit=many", "whole number from 1 to"),
        ("/debug/decisions?reason=denied", "unknown parameter \"reason\""),
    ] {
        let (status, _, body) = get_debug(path).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}");
        assert!(body.contains(said), "{path}: {body}");
    }
}

#[tokio::test]
async fn a_truncated_graph_is_recognizable() {
    let broken: TextStream = stream::iter([Ok("half".to_owned()), Err(Ended)]).boxed();
    let answer = page::stream("text/plain", broken);
    assert_eq!(answer.status(), StatusCode::OK, "that it would break off was not known");
    assert!(answer.into_body().collect().await.is_err());
}

#[tokio::test]
async fn a_graph_is_generated_only_as_fast_as_it_is_read() {
    let made = Arc::new(Mutex::new(0));
    let counter = Arc::clone(&made);
    let endless = stream::repeat_with(move || {
        *counter.lock().unwrap() += 1;
        Ok("piece".to_owned())
    });
    let mut body = page::stream("text/plain", endless.boxed()).into_body();
    assert_eq!(*made.lock().unwrap(), 0, "nothing is made for nobody");
    for _ in 0..3 {
        body.frame().await.unwrap().unwrap();
    }
    assert_eq!(*made.lock().unwrap(), 3);
}

#[tokio::test]
async fn questions_about_objects_are_answered_or_refused() {
    let router = || debug_router(Arc::new(Fake::new()));
    let (status, _, body) = get(router(), &format!("/debug/neighbourhood?uid={UID}&down=2")).await;
    assert_eq!((status, body.contains("\"nodes\": []")), (StatusCode::OK, true), "{body}");
    for (path, expected) in [
        ("/debug/neighbourhood?uid=other", StatusCode::NOT_FOUND),
        ("/debug/neighbourhood", StatusCode::BAD_REQUEST),
        ("/debug/explain?uid=a", StatusCode::SERVICE_UNAVAILABLE),
        ("/debug/explain?uid=a&down=1", StatusCode::BAD_REQUEST),
        ("/debug/search?q=web", StatusCode::OK),
        ("/debug/search?limit=0", StatusCode::BAD_REQUEST),
        ("/debug/summary", StatusCode::OK),
    ] {
        assert_eq!(get(router(), path).await.0, expected, "{path}");
    }
}

#[tokio::test]
async fn a_page_that_hangs_is_cancelled() {
    tokio::time::pause();
    let answer = page::within_timeout(std::future::pending()).await;
    assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT);
}
