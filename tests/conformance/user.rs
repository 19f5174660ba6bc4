//! Users with limited rights.

use anyhow::Result;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use kube_gc_testkit::{Cluster, ControlPlane, Ns};

/// A service account with a ClusterRole of its own.
pub struct User {
    kubeconfig: NamedTempFile,
}

impl User {
    /// Creates a service account with these rules.
    pub async fn create(plane: &ControlPlane, cluster: &Cluster, ns: &Ns, rules: Value) -> Result<Self> {
        let account = ns.of::<ServiceAccount>("collector").create().await?;
        let role = format!("{}-collector", ns.name());
        cluster.of::<ClusterRole>(&role).field("rules", rules).create().await?;
        let api_group = "rbac.authorization.k8s.io";
        cluster
            .of::<ClusterRoleBinding>(&role)
            .field("roleRef", json!({ "apiGroup": api_group, "kind": "ClusterRole", "name": role }))
            .field(
                "subjects",
                json!([{ "kind": "ServiceAccount", "namespace": ns.name(), "name": account.name }]),
            )
            .create()
            .await?;
        let token = match plane.embedded() {
            Some(embedded) => embedded.token_of(&account),
            None => cluster.token(ns.name(), &account.name, 3600, None).await?,
        };
        Self::with_token(plane, &token)
    }

    /// A user with this token, which may be invalid. (The embedded server accepts every token.)
    pub fn with_token(plane: &ControlPlane, token: &str) -> Result<Self> {
        let info = plane.info();
        let mut server = json!({ "server": info.url });
        if plane.embedded().is_none() {
            server["certificate-authority"] = json!(info.dir.join("ca.crt"));
        }
        let kubeconfig = NamedTempFile::new()?;
        serde_json::to_writer(
            &kubeconfig,
            &kube_gc_testkit::kubeconfig(&server, &json!({ "token": token })),
        )?;
        Ok(Self { kubeconfig })
    }

    /// The kubeconfig to act as this user.
    pub fn kubeconfig(&self) -> &std::path::Path {
        self.kubeconfig.path()
    }
}
