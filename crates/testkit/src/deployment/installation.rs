//! An overlay that is applied to a control plane.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::sync::MutexGuard;

use super::super::cluster::{Cluster, poll};
use super::super::control_plane::ControlPlane;
use crate::{Shared, shared, target};

/// The name of all objects of the manifests, and of their namespace.
pub const NAME: &str = "kube-gc";
/// The user name of the service account.
pub const USER: &str = "system:serviceaccount:kube-gc:kube-gc";
/// The name of all objects of node collection, and of their namespace.
pub const NODE: &str = "kube-gc-node";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
/// The name of the file in the ConfigMap.
const CONFIG: &str = "config.toml";
/// The first minor release that serves all types of the manifests.
const TODAY: u32 = 29;

/// An applied overlay, in the caller's turn on the control plane.
pub struct Installation<'a> {
    /// The control plane.
    pub plane: &'a ControlPlane,
    /// A client with all rights.
    pub cluster: Cluster,
    /// The name of the namespace, the workload and the service account.
    pub name: &'static str,
    // The kubeconfig for kubectl.
    directory: TempDir,
    _turn: MutexGuard<'a, ()>,
}

static PLANE: Shared<ControlPlane> = Shared::new();

/// The control plane that all tests of the manifests share. Its checks of owner references are as
/// strict as those of an API server can be.
pub fn plane() -> Result<&'static ControlPlane> {
    let strict = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement";
    shared(&PLANE, || ControlPlane::start_with(&[strict]))
}

/// Stops the shared control plane, if it was started.
pub(crate) fn end() {
    if let Some(Ok(plane)) = PLANE.get() {
        plane.end();
    }
}

/// A directory of the repository.
pub fn repository(path: &str) -> PathBuf {
    target::repository().join(path)
}

/// The names of all overlays.
pub fn overlays() -> Result<BTreeSet<String>> {
    let entries = std::fs::read_dir(repository("deploy/overlays"))?;
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

impl<'a> Installation<'a> {
    /// Waits for this test's turn, applies an overlay, and waits until its role takes effect.
    pub async fn of(plane: &'a ControlPlane, overlay: &str) -> Result<Self> {
        let turn = plane.exclusive().await;
        let cluster = Cluster::new(plane.client().await?);
        let directory = tempfile::Builder::new().prefix("kube-gc-deploy-").tempdir()?;
        let name = if overlay == "node" { NODE } else { NAME };
        let installation = Self { plane, cluster, name, directory, _turn: turn };
        installation.install(overlay).await?;
        Ok(installation)
    }

    async fn install(&self, overlay: &str) -> Result<()> {
        self.kubectl(&["apply", "--filename"], &repository("tests/deployment/operator.yaml")).await?;
        let operator = repository("tests/deployment/operator.yaml");
        self.kubectl(&["wait", "--for=condition=Established", "--filename"], &operator).await?;
        self.customize(overlay)?;
        self.apply().await.with_context(|| format!("the overlay {overlay}"))?;
        let may_delete = self.role().await?.iter().any(|rule| grants(rule, "delete"));
        poll("the role to take effect", async || {
            Ok(self.may("list", "", "pods").await? && self.may("delete", "", "pods").await? == may_delete)
        })
        .await
    }

    /// Writes a kustomization of this overlay that this server accepts.
    fn customize(&self, overlay: &str) -> Result<()> {
        let path = |name: &str| self.directory.path().join(name);
        for (name, target) in [("deploy", "deploy"), ("old-server", "tests/deployment/old-server")] {
            symlink(repository(target), path(name))?;
        }
        let minor = self.plane.info().version.split('.').nth(1).and_then(|minor| minor.parse().ok());
        let minor: u32 = minor.context("the API server does not report its version")?;
        let components = if minor < TODAY { json!(["old-server"]) } else { json!([]) };
        let kustomization =
            json!({ "resources": [format!("deploy/overlays/{overlay}")], "components": components });
        // JSON is YAML.
        Ok(std::fs::write(path("kustomization.yaml"), kustomization.to_string())?)
    }

    /// `kubectl apply -k`.
    pub async fn apply(&self) -> Result<()> {
        self.kubectl(&["apply", "--kustomize"], self.directory.path()).await?;
        Ok(())
    }

    /// The output of `kubectl kustomize`.
    pub async fn built(&self) -> Result<String> {
        self.kubectl(&["kustomize"], self.directory.path()).await
    }

    /// Extends the kustomization for the next time that it is applied.
    pub fn add(&self, field: &str, value: Value) -> Result<()> {
        let path = self.directory.path().join("kustomization.yaml");
        let mut kustomization: Value = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
        kustomization[field] = value;
        Ok(std::fs::write(path, kustomization.to_string())?)
    }

    /// Runs kubectl on a file or directory.
    pub async fn kubectl(&self, arguments: &[&str], path: &Path) -> Result<String> {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(self.plane.kubeconfig());
        // Its caches are keyed by the address of the server, and addresses are reused.
        command.arg("--cache-dir").arg(self.directory.path().join("cache"));
        command.args(arguments).arg(path).stdin(Stdio::null()).kill_on_drop(true);
        let output = command.output().await.context("kubectl 1.27 or newer is needed on PATH")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "kubectl {arguments:?} {} (1.27 or newer is required): {errors}",
            path.display()
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Reads an object by its path.
    pub async fn get(&self, path: &str) -> Result<Value> {
        self.cluster.send("GET", path, None, None).await.with_context(|| path.to_owned())
    }

    /// The Deployment.
    pub async fn deployment(&self) -> Result<Value> {
        self.get(&format!("/apis/apps/v1/namespaces/{NAME}/deployments/{NAME}")).await
    }

    /// The Deployment, or the DaemonSet of node collection.
    pub async fn workload(&self) -> Result<Value> {
        if self.name == NODE {
            return self.get(&format!("/apis/apps/v1/namespaces/{NODE}/daemonsets/{NODE}")).await;
        }
        self.deployment().await
    }

    /// A ConfigMap of the namespace.
    pub async fn configmap(&self, name: &str) -> Result<Value> {
        self.get(&format!("/api/v1/namespaces/{}/configmaps/{name}", self.name)).await
    }

    /// The name of the ConfigMap that the workload refers to.
    pub async fn config_name(&self) -> Result<String> {
        let volumes = self.workload().await?["spec"]["template"]["spec"]["volumes"].take();
        let volumes = volumes.as_array().context("no volumes")?;
        let name = volumes.iter().find_map(|volume| volume["configMap"]["name"].as_str());
        name.map(str::to_owned).context("no ConfigMap")
    }

    /// The configuration of the collector in that ConfigMap.
    pub async fn configuration(&self) -> Result<String> {
        let configmap = self.configmap(&self.config_name().await?).await?;
        configmap["data"][CONFIG].as_str().map(str::to_owned).with_context(|| format!("no {CONFIG}"))
    }

    /// Changes that configuration, as a person can.
    pub async fn configure(&self, text: &str) -> Result<()> {
        let path = format!("/api/v1/namespaces/{}/configmaps/{}", self.name, self.config_name().await?);
        let patch = json!({ "data": { CONFIG: text } });
        self.cluster.send("PATCH", &path, Some("application/merge-patch+json"), Some(&patch)).await?;
        Ok(())
    }

    /// The rules of the ClusterRole.
    pub async fn role(&self) -> Result<Vec<Value>> {
        let role = self.get(&format!("{ROLES}/{}", self.name)).await?;
        Ok(role["rules"].as_array().context("no rules")?.clone())
    }

    /// Whether the service account is allowed to do this everywhere. The resource may include a
    /// subresource: `pods/log`.
    pub async fn may(&self, verb: &str, group: &str, resource: &str) -> Result<bool> {
        self.may_in("", verb, group, resource).await
    }

    /// Whether the service account is allowed to do this in a namespace; an empty one means
    /// everywhere.
    pub async fn may_in(&self, namespace: &str, verb: &str, group: &str, resource: &str) -> Result<bool> {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let attributes = json!({
            "groups": [
                "system:serviceaccounts",
                format!("system:serviceaccounts:{}", self.name),
                "system:authenticated",
            ],
            "resourceAttributes": {
                "namespace": namespace,
                "verb": verb,
                "group": group,
                "resource": resource,
                "subresource": subresource,
            },
        });
        self.allows(&format!("system:serviceaccount:{0}:{0}", self.name), &attributes).await
    }

    /// Requests a token of the service account, as the kubelet does. A token that is bound to an
    /// object is invalid after the object is deleted.
    pub async fn request_token(&self, bound_to: Option<&Value>) -> Result<String> {
        self.cluster.token(self.name, self.name, 3600, bound_to).await
    }

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
        self.cluster.token(NAME, name, 3600, None).await
    }
}

/// The ClusterRole.
pub fn role_path() -> String {
    format!("{ROLES}/{NAME}")
}

/// Whether a rule has this verb.
pub fn grants(rule: &Value, verb: &str) -> bool {
    rule["verbs"].as_array().is_some_and(|verbs| verbs.contains(&json!(verb)))
}
