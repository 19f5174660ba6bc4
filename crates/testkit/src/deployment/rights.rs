//! Other accounts, and their rights.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{Installation, NAME};

impl Installation<'_> {
    /// Whether the API server allows this to a user.
    pub async fn allows(&self, user: &str, attributes: &Value) -> Result<bool> {
        let mut review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": attributes,
        });
        review["spec"]["user"] = json!(user);
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let answer = self.cluster.send("POST", path, None, Some(&review)).await?;
        answer["status"]["allowed"].as_bool().context("no answer")
    }

    /// Creates a service account.
    pub async fn account(&self, name: &str) -> Result<()> {
        let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name } });
        let path = format!("/api/v1/namespaces/{NAME}/serviceaccounts");
        self.cluster.send("POST", &path, None, Some(&account)).await?;
        Ok(())
    }

    /// Requests a token of a service account.
    pub async fn token_of(&self, name: &str) -> Result<String> {
        self.token(NAME, name, None).await
    }

    /// Whether the collector may create such reviews.
    pub async fn may_review(&self, group: &str, resource: &str) -> Result<bool> {
        self.may("create", group, resource).await
    }
}
