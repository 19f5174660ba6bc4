//! Access control: the page asks for a token, and keeps it in memory. Only a real API server
//! reviews tokens.

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use crate::browser::{Browser, LAPTOP};
use crate::search::ENTER;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::{Cluster, Collector, ControlPlane, Options};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A token of a service account that may read the debug pages.
async fn token(cluster: &Cluster) -> Result<String> {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "page" },
        "rules": [{ "nonResourceURLs": ["/debug/*"], "verbs": ["get"] }],
    });
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "person" } });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "page" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "page" },
        "subjects": [{ "kind": "ServiceAccount", "name": "person", "namespace": "default" }],
    });
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    cluster.send("POST", accounts, None, Some(&account)).await?;
    cluster.send("POST", &format!("{RBAC}/clusterroles"), None, Some(&role)).await?;
    cluster.send("POST", &format!("{RBAC}/clusterrolebindings"), None, Some(&binding)).await?;
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {
            "user": "system:serviceaccount:default:person",
            "nonResourceAttributes": { "path": "/debug/summary", "verb": "get" },
        },
    });
    // A rejection would be cached.
    poll("the role to take effect", async || {
        let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        Ok(cluster.send("POST", reviews, None, Some(&review)).await?["status"]["allowed"] == true)
    })
    .await?;
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": { "expirationSeconds": 3600 },
    });
    let answer = cluster.send("POST", &format!("{accounts}/person/token"), None, Some(&request)).await?;
    Ok(answer["status"]["token"].as_str().context("no token")?.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_asks_for_a_token_and_keeps_it_in_memory() -> Result<()> {
    let Some(browser) = Browser::start("the page asks for a token", LAPTOP).await? else { return Ok(()) };
    let plane = tokio::task::spawn_blocking(|| ControlPlane::start_with(None, &[])).await??;
    let cluster = Cluster::new(plane.client().await?);
    let token = token(&cluster).await?;
    let options = Options::config("[access]\nlisteners = \"debug\"\n");
    let collector = Collector::start(&plane, options).await?;
    collector.ready().await?;
    browser.goto(&format!("http://{}/", collector.debug_address())).await?;
    browser.until("the question", "document.querySelector('#token').open").await?;
    ensure!(
        browser.js("return document.querySelector('#health').textContent").await? == "",
        "data without a token"
    );
    ensure!(collector.get_debug("/debug/summary").await?.status == 401);

    browser.press("garbage").await?;
    browser.press(ENTER).await?;
    browser.until("the refusal", "document.querySelector('#token').open && document.querySelector('#token-why').textContent.includes('does not know this token')").await?;
    browser.press(&token).await?;
    browser.press(ENTER).await?;
    browser.says("#health", "types synced").await?;
    ensure!(browser.js("return document.querySelector('#token').open").await? == false);

    let kept = "return [document.cookie, localStorage.length, sessionStorage.length, history.state, document.documentElement.outerHTML.includes('.eyJ')]";
    ensure!(browser.js(kept).await? == json!(["", 0, 0, null, false]), "the token is kept outside of memory");
    ensure!(browser.query().await?.is_empty());
    browser.reload().await?;
    browser.until("the question again", "document.querySelector('#token').open").await?;
    browser.close().await?;
    collector.stop().await
}
