//! Exec plugins: programs that print credentials, such as `aws eks get-token`.
//!
//! kube runs them, too, but keeps a token without an expiry forever, and each of its clients asks anew.
//! Here a plugin is asked once for all clients of a process.

use std::io::{self, IsTerminal as _};
use std::process::{Output, Stdio};
use std::time::{Duration, SystemTime};

use k8s_openapi::jiff::Timestamp;
use kube::config::{ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::json;
use tokio::process::Command;
use tokio::time::timeout;

use super::CredentialsError;

/// The longest time without an answer from a plugin that no person can answer.
const LONGEST: Duration = Duration::from_secs(120);

/// What a plugin prints.
#[derive(Deserialize)]
struct Printed {
    status: Option<Answer>,
}

/// The credentials from a plugin.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Answer {
    expiration_timestamp: Option<String>,
    pub token: Option<String>,
    pub client_certificate_data: Option<String>,
    pub client_key_data: Option<String>,
}

impl Answer {
    /// When the credentials end; `None` if they do not.
    pub fn ends(&self) -> Result<Option<SystemTime>, CredentialsError> {
        let moment = self.expiration_timestamp.as_deref().map(str::parse::<Timestamp>).transpose();
        let moment = moment.map_err(|_| {
            CredentialsError::new("the plugin's expirationTimestamp is not a valid RFC 3339 time")
        })?;
        Ok(moment.map(SystemTime::from))
    }
}

/// Runs a plugin. One that a person can answer may take as long as it likes.
pub async fn ask(plugin: &ExecConfig) -> Result<Answer, CredentialsError> {
    let name = plugin.command.as_deref().unwrap_or_default();
    let failed =
        |why: String| CredentialsError::new(format!("the exec plugin {name:?} of the kubeconfig {why}"));
    let unusable = |error: io::Error| {
        let hint = plugin.install_hint.as_deref().map(|hint| format!("; {}", hint.trim()));
        failed(format!("cannot be run: {error}{}", hint.unwrap_or_default()))
    };
    let is_interactive = is_interactive(plugin, name)?;
    let child = command(plugin, name, is_interactive)?.spawn().map_err(unusable)?;
    let output = async { child.wait_with_output().await.map_err(unusable) };
    let output = if is_interactive {
        output.await
    } else {
        let took_too_long = || failed(format!("had no answer within {} s", LONGEST.as_secs()));
        timeout(LONGEST, output).await.unwrap_or_else(|_| Err(took_too_long()))
    };
    let Output { status, stdout, stderr } = output?;
    if !status.success() {
        let stderr = String::from_utf8_lossy(&stderr);
        let last = stderr.trim().lines().next_back().map(|line| format!(": {line}")).unwrap_or_default();
        return Err(failed(format!("failed with {status}{last}")));
    }
    // The parser's message might quote a token.
    let printed: Printed = serde_saphyr::from_slice(&stdout)
        .map_err(|_| failed("printed something other than an ExecCredential".to_owned()))?;
    let answer =
        printed.status.ok_or_else(|| failed("printed an ExecCredential without a status".to_owned()))?;
    if answer.token.is_none() && answer.client_certificate_data.is_none() {
        return Err(failed("printed neither a token nor a client certificate".to_owned()));
    }
    Ok(answer)
}

fn is_interactive(plugin: &ExecConfig, name: &str) -> Result<bool, CredentialsError> {
    let is_terminal = std::io::stdin().is_terminal();
    match plugin.interactive_mode {
        Some(ExecInteractiveMode::Never) => Ok(false),
        None | Some(ExecInteractiveMode::IfAvailable) => Ok(is_terminal),
        Some(ExecInteractiveMode::Always) if is_terminal => Ok(true),
        Some(ExecInteractiveMode::Always) => {
            let why = "needs a terminal on standard input (interactiveMode: Always)";
            Err(CredentialsError::new(format!("the exec plugin {name:?} of the kubeconfig {why}")))
        }
    }
}

fn command(plugin: &ExecConfig, name: &str, interactive: bool) -> Result<Command, CredentialsError> {
    if name.is_empty() {
        return Err(CredentialsError::new("the exec plugin of the kubeconfig has no command"));
    }
    let mut spec = json!({ "interactive": interactive });
    if let Some(cluster) = plugin.cluster.as_ref().filter(|_| plugin.provide_cluster_info) {
        let cluster = serde_json::to_value(cluster);
        spec["cluster"] = cluster.map_err(|error| CredentialsError::new(error.to_string()))?;
    }
    let version = plugin.api_version.as_deref().unwrap_or_default();
    let asked = json!({ "apiVersion": version, "kind": "ExecCredential", "spec": spec }).to_string();
    let pairs = plugin.env.iter().flatten().filter_map(|pair| Some((pair.get("name")?, pair.get("value")?)));
    let mut command = Command::new(name);
    command.args(plugin.args.iter().flatten()).envs(pairs).env("KUBERNETES_EXEC_INFO", asked);
    // A person sees what the plugin asks for; a collector quotes the end of it.
    let (stdin, stderr) =
        if interactive { (Stdio::inherit(), Stdio::inherit()) } else { (Stdio::null(), Stdio::piped()) };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(stderr).kill_on_drop(true);
    Ok(command)
}
