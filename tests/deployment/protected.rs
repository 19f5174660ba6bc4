//! The overlay with access control for metrics.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::http::client::{Client, Pair};
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::deployment::{Installation, NAME, Pod, USER, plane};

kube_gc_testkit::scenarios! {
    the_protected_overlay_shows_metrics_to_authorized_users_and_needs_its_rules,
}

/// What the overlay lets the collector ask for.
const REVIEWS: [(&str, &str); 2] =
    [("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews")];
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const MERGE_PATCH: Option<&str> = Some("application/merge-patch+json");

async fn the_protected_overlay_shows_metrics_to_authorized_users_and_needs_its_rules() -> Result<()> {
    let installation = Installation::of(plane()?, "protected").await?;
    let cluster = &installation.cluster;
    let pair = Pair::new()?;
    let secrets = format!("/api/v1/namespaces/{NAME}/secrets");
    cluster.send("POST", &secrets, None, Some(&pair.secret("kube-gc-tls"))).await?;
    for account in ["prometheus", "other"] {
        installation.account(account).await?;
    }
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": "kube-gc-metrics-reader" },
        "roleRef":
            { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "kube-gc-metrics-reader" },
        "subjects": [{ "kind": "ServiceAccount", "name": "prometheus", "namespace": NAME }],
    });
    cluster.send("POST", &format!("{RBAC}/clusterrolebindings"), None, Some(&binding)).await?;
    let get = json!({ "nonResourceAttributes": { "path": "/metrics", "verb": "get" } });
    let reader = format!("system:serviceaccount:{NAME}:prometheus");
    poll("the role to take effect", async || installation.allows(&reader, &get).await).await?;
    ensure!(!installation.allows(USER, &get).await?, "it grants itself what it has not been granted");

    let collector = Pod::of(&installation).await?.start().await?;
    let (client, address) = (Client::trusting(&[&pair])?, collector.health_address());
    poll("readiness", async || Ok(client.get(address, "/readyz", None).await?.status == 200)).await?;
    let prometheus = installation.token_of("prometheus").await?;
    let metrics = client.get(address, "/metrics", Some(&prometheus)).await?;
    ensure!(metrics.status == 200 && metrics.body.contains("kube_gc_build_info"), "{metrics:?}");
    ensure!(client.get(address, "/metrics", None).await?.status == 401);

    // Without its rules, no client can be admitted.
    let role = format!("{RBAC}/clusterroles/kube-gc-reviews");
    let rules = installation.get(&role).await?["rules"].take();
    for (group, resource) in REVIEWS {
        ensure!(rules.as_array().is_some_and(|rules| rules.iter().any(|it| it["resources"][0] == resource)));
        ensure!(installation.may_review(group, resource).await?, "it may not ask for {resource}");
    }
    cluster.send("PATCH", &role, MERGE_PATCH, Some(&json!({ "rules": [] }))).await?;
    let (group, resource) = REVIEWS[0];
    poll("the role to take effect", async || Ok(!installation.may_review(group, resource).await?)).await?;
    // A token that has not been checked yet.
    let other = installation.token_of("other").await?;
    let refused = client.get(address, "/metrics", Some(&other)).await?;
    let words = format!("{resource}.{group} is forbidden");
    ensure!(refused.status == 503 && refused.body.contains(&words), "{refused:?}");
    cluster.send("PATCH", &role, MERGE_PATCH, Some(&json!({ "rules": rules }))).await?;
    let other = installation.token_of("other").await?;
    poll("a forbidden user to get 403", async || {
        Ok(client.get(address, "/metrics", Some(&other)).await?.status == 403)
    })
    .await?;
    collector.stop().await
}
