//! The handle: requests that wait for admission, and scheduled work.

use tokio::sync::{mpsc, watch};

use super::*;
use crate::ApiServer;
use crate::guards::{Admission, Verdict};

async fn ask(client: &kube::Client, method: &str, path: &str, body: Value) -> Value {
    let content_type = call(method, path, &body).content_type;
    let request = http::Request::builder().method(method).uri(path).header("content-type", content_type);
    client.request(request.body(body.to_string().into_bytes()).unwrap()).await.unwrap()
}

/// What waits for a patch is decided again if the object has changed.
#[tokio::test(start_paused = true)]
async fn a_patch_that_waits_is_applied_to_the_state_of_that_time() {
    let server = ApiServer::new(Settings::default());
    let client = server.client();
    ask(&client, "POST", NAMESPACES, json!({"metadata": {"name": "shop"}})).await;
    let first = server.with(|server| put(server, "a", json!({"n": "1"})));
    let (open, gate) = watch::channel(false);
    let (told, mut reviews) = mpsc::unbounded_channel();
    server.admit_by(Some(Admission::new(move |review| {
        told.send(review.object.resource_version()).unwrap();
        let mut gate = gate.clone();
        Verdict::Wait(Box::pin(async move {
            gate.wait_for(|open| *open).await.unwrap();
            Verdict::Allow
        }))
    })));
    let patching = tokio::spawn(async move {
        ask(&client, "PATCH", &format!("{MAPS}/a"), json!({"metadata": {"labels": {"a": "b"}}})).await
    });
    assert_eq!(reviews.recv().await, Some(first));
    let second = server.with(|server| put(server, "a", json!({"n": "2"})));
    open.send(true).unwrap();
    assert_eq!(patching.await.unwrap()["metadata"]["labels"], json!({"a": "b", "n": "2"}));
    assert_eq!(reviews.recv().await, Some(second));
}

#[tokio::test(start_paused = true)]
async fn scheduled_work_is_done_when_one_of_two_runners_has_ended() {
    // Whichever of the two notices the new work first.
    for gone in [0, 1] {
        let server = ApiServer::new(Settings::default());
        let run = |server: ApiServer| tokio::spawn(async move { server.run().await });
        let runners = [run(server.clone()), run(server.clone())];
        tokio::time::sleep(Duration::from_secs(1)).await;
        ask(&server.client(), "POST", CRDS, types::definition()).await;
        // The clock stands still, so the work is scheduled but not due.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        runners[gone].abort();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(server.with(|server| server.catalog.get("shop.example", "toys").is_some()));
        runners[1 - gone].abort();
    }
}
