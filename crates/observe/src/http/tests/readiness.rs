//! Tests of `/readyz`.

use super::*;

fn assess(discovery: Result<(), &str>, started: bool) -> Readiness {
    let monitors = [MonitorStatus { synced: true, last_error: None, ..widgets() }, widgets()];
    let ignored = ["jobs.batch is ignored: …".to_owned()];
    let undiscovered = [things()];
    Readiness::assess(&Facts {
        discovery,
        started,
        since: noon(),
        monitors: &monitors,
        undiscovered: &undiscovered,
        ignored: &ignored,
        brake: None,
        refused: None,
        leadership: None,
        compared: None,
    })
}

#[tokio::test]
async fn a_standby_is_ready_and_says_who_leads() {
    let ready = |role: &str| {
        Readiness::assess(&Facts {
            discovery: Ok(()),
            started: true,
            since: noon(),
            monitors: &[],
            undiscovered: &[],
            ignored: &[],
            brake: None,
            refused: None,
            leadership: Some(role.to_owned()),
            compared: None,
        })
    };
    for (role, line) in [
        ("leader", "[+]leadership: leader ok\n"),
        ("standby of other_1", "[+]leadership: standby of other_1 ok\n"),
    ] {
        let (status, _, body) = get(health(ready(role)), "/readyz?verbose").await;
        assert_eq!(status, StatusCode::OK, "{body}");
        assert!(body.contains(line), "{body}");
    }
}

/// Rule 2.15.
#[tokio::test]
async fn a_type_that_cannot_sync_is_named_and_does_not_fail_readiness() {
    let router = health(assess(Ok(()), true));
    assert_eq!(get(router.clone(), "/readyz").await.2, "ok");
    let (status, _, body) = get(router, "/readyz?verbose").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        body,
        "[+]discovery ok\n\
         [!]sync warning: 1 of 2 resource types are not synced, the first since 2026-11-20T12:00:00Z\n\
         [!]discovery/things.example.com/v1 warning: not discovered since 2026-11-20T12:00:00Z: service unavailable\n\
         [!]monitor/widgets.example.com warning: v1 has not been synced since 2026-11-20T12:00:00Z: conversion webhook \
         failed: connection refused\n\
         [!]ignored warning: jobs.batch is ignored: …\n\
         readyz check passed\n"
    );
}

#[tokio::test]
async fn the_collector_is_not_ready_before_discovery_and_sync_and_says_why() {
    let (status, _, body) = get(health(assess(Err("connection refused"), false)), "/readyz").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(body.contains("[-]discovery failed: connection refused\n"), "{body}");
    assert!(body.contains("[-]sync failed: waiting for discovery since 2026-11-20T12:00:00Z\n"), "{body}");
    assert!(body.ends_with("readyz check failed\n"), "{body}");

    let (status, _, body) = get(health(assess(Ok(()), false)), "/readyz").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let expected =
        "[-]sync failed: 1 of 2 resource types are not synced, waiting since 2026-11-20T12:00:00Z\n";
    assert!(body.contains(expected), "{body}");
    assert!(!Readiness::default().ready(), "nothing checked is not ready");
}
