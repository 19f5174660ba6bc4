//! The page that says whether anything is left to do.

use super::*;

#[tokio::test]
async fn a_version_that_is_not_a_number_is_rejected_with_the_reason() {
    let (status, _, body) = get_debug("/debug/idle?seen=configmaps=newest").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(
        body,
        "seen=\"configmaps=newest\": the version \"newest\" is not a whole number above 0; pass \
         metadata.resourceVersion of an object\n"
    );
}

/// Rule 9.8.
#[tokio::test]
async fn the_idle_page_takes_versions_and_gives_reasons() {
    let fake = Arc::new(Fake::new());
    let router = debug_router(Arc::clone(&fake) as Arc<dyn Introspection>);
    let path = "/debug/idle?seen=pods=7&seen=deployments.apps%3D8&parked=ok";
    let (status, report) = json_of(get(router.clone(), path).await);
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(
        report,
        json!({
            "idle": false,
            "reasons": ["pods=7 has not been seen yet", "deployments.apps=8 has not been seen yet"],
            "queues": {
                "garbage_collector_attempt_to_delete": {"ready": 0, "processing": 0, "delayed": 0, "parked": 1},
            },
            "unseen_writes": 0,
            "not_seen": ["pods=7", "deployments.apps=8"],
        })
    );
    let asked = IdleQuery {
        seen: vec![
            (GroupResource::parse("pods"), ResourceVersion::number(7)),
            (GroupResource::parse("deployments.apps"), ResourceVersion::number(8)),
        ],
        parked_ok: true,
    };
    assert_eq!(*fake.asked.lock().unwrap(), [asked]);

    let (status, report) = json_of(get(router.clone(), "/debug/idle?parked=ok").await);
    assert_eq!((status, &report["idle"]), (StatusCode::OK, &json!(true)));
    let (status, report) = json_of(get(router, "/debug/idle").await);
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(report["reasons"], json!(["garbage_collector_attempt_to_delete: 1 parked"]));
}

#[test]
fn any_work_is_a_reason_not_to_be_idle() {
    let parked_ok = IdleQuery { parked_ok: true, ..IdleQuery::default() };
    let judge = |counts, unseen, others| {
        let queues = BTreeMap::from([("q".to_owned(), counts)]);
        IdleReport::judge(&parked_ok, queues, unseen, &[], others).idle
    };
    let none = QueueCounts::default();
    assert!(judge(none, 0, vec![]));
    assert!(judge(QueueCounts { parked: 1, ..none }, 0, vec![]));
    assert!(!judge(QueueCounts { ready: 1, ..none }, 0, vec![]));
    assert!(!judge(QueueCounts { processing: 1, ..none }, 0, vec![]));
    assert!(!judge(QueueCounts { delayed: 1, ..none }, 0, vec![]));
    assert!(!judge(none, 1, vec![]));
    assert!(!judge(none, 0, vec!["syncing".to_owned()]));
}
