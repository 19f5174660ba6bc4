//! Tests `crates/client` with a real kube-apiserver and etcd: what only its encodings and connections show. What
//! the client reads and writes is shown by the scenarios, which run on a real server, too.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bench;
mod connections;
mod encodings;

use bench::{Bench, GROUP, next, owner};

#[tokio::test(flavor = "multi_thread")]
async fn encodings_agree_and_watches_share_connections() {
    let bench = Bench::new().await;
    // Enough for compressed answers.
    for _ in 0..400 {
        let long = "x".repeat(400);
        bench.create("v1", "ConfigMap", serde_json::json!({"annotations": {"long": long}})).await;
    }
    encodings::agree(&bench).await;
    connections::are_shared(&bench).await;
}
