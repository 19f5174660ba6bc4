//! The identity of the contestants on the API server, which is the same for all.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use http::StatusCode;
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::http::{Call, Client};
use kube_gc_testkit::Info;

/// The service account of the cluster's own garbage collector if kube-controller-manager runs
/// with `--use-service-account-credentials`, as with kubeadm. The API server creates its role and
/// its FlowSchema.
const NAMESPACE: &str = "kube-system";
const NAME: &str = "generic-garbage-collector";
/// The lifetime of a token, which exceeds the measurements on one control plane.
const TOKEN_SECONDS: u32 = 24 * 3600;
/// The time limit for the role to take effect.
const DEADLINE: Duration = Duration::from_secs(60);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// The identities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The service account of the cluster's own garbage collector, whose requests the server's
    /// priority and fairness queues.
    Collector,
    /// A user in `system:masters`, whose requests are not limited.
    Exempt,
}

impl Identity {
    /// The name of the user above the table.
    pub const fn user(self) -> &'static str {
        match self {
            Self::Collector => "system:serviceaccount:kube-system:generic-garbage-collector",
            Self::Exempt => "a user in system:masters",
        }
    }
}

/// The credentials.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// For programs.
    pub kubeconfig: PathBuf,
    /// The token for the limit.
    pub token: String,
}

impl Credentials {
    /// The credentials of an identity on a control plane, where `client` may do everything.
    pub async fn of(identity: Identity, plane: &Info, client: &Client) -> Result<Self> {
        match identity {
            Identity::Exempt => Ok(Self { kubeconfig: plane.kubeconfig.clone(), token: plane.token()? }),
            Identity::Collector => {
                let token = token(client).await.context("no token for the contestants")?;
                let kubeconfig = plane.dir.join("contestants.kubeconfig");
                write(&kubeconfig, plane, &token)?;
                let known = until_allowed(plane, &token);
                timeout(DEADLINE, known).await.with_context(|| format!("{NAME} is not let in"))??;
                Ok(Self { kubeconfig, token })
            }
        }
    }
}

/// Creates the service account and requests a token for it.
async fn token(client: &Client) -> Result<String> {
    let accounts = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME}});
    client.post(&accounts, &account).await?;
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    });
    let answer = client.post(&format!("{accounts}/{NAME}/token"), &request).await?;
    answer["status"]["token"].as_str().map(str::to_owned).context("none in the answer")
}

fn write(path: &Path, plane: &Info, token: &str) -> Result<()> {
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "contestants",
        "clusters": [{"name": "test", "cluster": {
            "server": plane.url, "certificate-authority": plane.dir.join("ca.crt"),
        }}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": "contestants", "context": {"cluster": "test", "user": NAME}}],
    });
    // JSON is YAML.
    std::fs::write(path, kubeconfig.to_string()).with_context(|| format!("cannot write {}", path.display()))
}

/// Waits until the role that the server creates at startup takes effect.
async fn until_allowed(plane: &Info, token: &str) -> Result<()> {
    let client = Client::new(plane, token)?;
    loop {
        let answer = client.send(Call::get("/api/v1/configmaps?limit=1")).await?;
        if answer.status != StatusCode::FORBIDDEN {
            answer.success()?;
            return Ok(());
        }
        sleep(PAUSE).await;
    }
}
