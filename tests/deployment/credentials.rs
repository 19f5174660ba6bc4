//! Credentials that change while the collector runs.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::deployment::scenes::{Scene, Scenes};
use kube_gc_testkit::ControlPlane;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::deployment::{Installation, NAME, Pod};

kube_gc_testkit::scenarios! {
    a_rotated_token_is_picked_up,
}

/// Files are read again at least once a minute, and rejected work is retried within twice that
/// time.
const PATIENCE: Duration = Duration::from_secs(300);

/// A token is bound to a Secret and becomes invalid with it. So the use of the new token can be
/// shown without waiting until the old one expires.
async fn a_rotated_token_is_picked_up() -> Result<()> {
    // Its own control plane, because this test waits long.
    let plane = ControlPlane::start()?;
    let installation = Installation::of(&plane, "plain").await?;
    let cluster = &installation.cluster;
    let mut tokens = Vec::new();
    for name in ["first", "second"] {
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name } });
        let path = format!("/api/v1/namespaces/{NAME}/secrets");
        let secret = cluster.send("POST", &path, None, Some(&secret)).await?;
        let uid = &secret["metadata"]["uid"];
        let bound_to = json!({ "apiVersion": "v1", "kind": "Secret", "name": name, "uid": uid });
        tokens.push(installation.request_token(Some(&bound_to)).await?);
    }
    let pod = Pod::with_token(&installation, &tokens[0]).await?;
    let collector = pod.start().await?;
    collector.ready().await?;

    pod.rotate(&plane, &tokens[1])?;
    let first = format!("/api/v1/namespaces/{NAME}/secrets/first");
    cluster.send("DELETE", &first, None, None).await?;
    poll("the first token to lose its worth", async || {
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": { "token": tokens[0] },
        });
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        let answer = cluster.send("POST", path, None, Some(&review)).await?;
        Ok(answer["status"]["authenticated"] != true)
    })
    .await?;

    let scenes = Scenes::plant(cluster, &Scenes::widgets(cluster).await?).await?;
    scenes.begin(cluster).await?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let done = scenes.done(cluster).await?;
        // A warning event is only tried once.
        if Scene::ALL.iter().all(|scene| done.contains(scene) || *scene == Scene::CrossNamespace) {
            break;
        }
        ensure!(Instant::now() < deadline, "done with the second token: {done:?}");
        sleep(Duration::from_millis(200)).await;
    }
    collector.stop().await.context("after the rotation")
}
