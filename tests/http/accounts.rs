//! Service accounts that may read pages. Each test target uses a part of this module.

use anyhow::Result;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use serde_json::json;

use kube_gc_testkit::Cluster;
use kube_gc_testkit::cluster::poll;

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
        let role = format!("{}-{name}", self.namespace);
        let rules = json!([{ "nonResourceURLs": [path], "verbs": ["get"] }]);
        let of = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role });
        let to = json!([{ "kind": "ServiceAccount", "name": name, "namespace": self.namespace }]);
        self.cluster.of::<ClusterRole>(&role).field("rules", rules).create().await?;
        let binding = self.cluster.of::<ClusterRoleBinding>(&role);
        binding.field("roleRef", of).field("subjects", to).create().await?;
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
        self.cluster.token(&self.namespace, name, seconds, None).await
    }
}
