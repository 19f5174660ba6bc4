//! Service accounts with tokens. Each test target uses a part of this module.

use anyhow::{Context as _, Result};
use serde_json::json;

use kube_gc_testkit::Cluster;
use kube_gc_testkit::cluster::poll;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A namespace with service accounts.
pub struct Accounts {
    pub cluster: Cluster,
    pub namespace: String,
}

impl Accounts {
    /// An account that may `get` this path, if any.
    pub async fn create(&self, name: &str, path: Option<&str>) -> Result<()> {
        let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name } });
        let accounts = format!("/api/v1/namespaces/{}/serviceaccounts", self.namespace);
        self.cluster.send("POST", &accounts, None, Some(&account)).await?;
        let Some(path) = path else { return Ok(()) };
        let name_of_role = format!("{}-{name}", self.namespace);
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": { "name": name_of_role },
            "rules": [{ "nonResourceURLs": [path], "verbs": ["get"] }],
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": { "name": name_of_role },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name_of_role },
            "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": self.namespace }],
        });
        self.cluster.send("POST", &format!("{RBAC}/clusterroles"), None, Some(&role)).await?;
        self.cluster.send("POST", &format!("{RBAC}/clusterrolebindings"), None, Some(&binding)).await?;
        // A rejection would be cached.
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": format!("system:serviceaccount:{}:{name}", self.namespace),
                "nonResourceAttributes": { "path": path.replace('*', "graph"), "verb": "get" },
            },
        });
        poll("the role to take effect", async || {
            let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
            let answer = self.cluster.send("POST", reviews, None, Some(&review)).await?;
            Ok(answer["status"]["allowed"] == true)
        })
        .await
    }

    /// A token of an account with this lifetime.
    pub async fn token(&self, name: &str, seconds: u32) -> Result<String> {
        let path = format!("/api/v1/namespaces/{}/serviceaccounts/{name}/token", self.namespace);
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": { "expirationSeconds": seconds },
        });
        let answer = self.cluster.send("POST", &path, None, Some(&request)).await?;
        Ok(answer["status"]["token"].as_str().context("no token")?.to_owned())
    }
}
