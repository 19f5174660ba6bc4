//! Pods on a runtime, made as the kubelet makes them, but on the node's network.

use std::collections::BTreeMap;
use std::path::Path;

use crate::messages::*;
use crate::{Client, Error};

/// A pod with a sandbox.
#[derive(Clone, Debug)]
pub struct Pod {
    config: PodSandboxConfig,
    sandbox: String,
}

impl Pod {
    /// Creates the sandbox of the pod `default/web` and starts it. Its logs go below a directory like
    /// `/var/log/pods`.
    ///
    /// # Errors
    ///
    /// The runtime failed.
    pub async fn start(client: &Client, logs: &Path) -> Result<Self, Error> {
        let (namespace, name, uid) = ("default", "web", "uid-web");
        let labels = [(POD_NAMESPACE, namespace), (POD_NAME, name), (POD_UID, uid)];
        let annotations = [(CONFIG_SOURCE, "api")];
        let config = PodSandboxConfig {
            metadata: Some(PodSandboxMetadata {
                name: name.to_owned(),
                uid: uid.to_owned(),
                namespace: namespace.to_owned(),
                attempt: 0,
            }),
            log_directory: logs.join(format!("{namespace}_{name}_{uid}")).to_string_lossy().into_owned(),
            labels: map(&labels),
            annotations: map(&annotations),
            linux: Some(LinuxPodSandboxConfig {
                security_context: Some(LinuxSandboxSecurityContext {
                    namespace_options: Some(NamespaceOption {
                        network: NamespaceMode::Node as i32,
                        ..NamespaceOption::default()
                    }),
                    ..LinuxSandboxSecurityContext::default()
                }),
                ..LinuxPodSandboxConfig::default()
            }),
            ..PodSandboxConfig::default()
        };
        let request =
            RunPodSandboxRequest { config: Some(config.clone()), ..RunPodSandboxRequest::default() };
        let sandbox = client.call(request).await?.pod_sandbox_id;
        Ok(Self { config, sandbox })
    }

    /// The id of the sandbox.
    pub fn sandbox(&self) -> &str {
        &self.sandbox
    }

    /// Creates a container of an image, by its name in the pod, how often it was created before, and what it
    /// runs. Returns its id.
    ///
    /// # Errors
    ///
    /// The runtime failed.
    pub async fn create(
        &self,
        client: &Client,
        image: &str,
        (name, attempt): (&str, u32),
        command: &[&str],
    ) -> Result<String, Error> {
        let mut labels = self.config.labels.clone();
        labels.insert(CONTAINER_NAME.to_owned(), name.to_owned());
        let config = ContainerConfig {
            metadata: Some(ContainerMetadata { name: name.to_owned(), attempt }),
            image: Some(ImageSpec { image: image.to_owned(), ..ImageSpec::default() }),
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            labels,
            log_path: format!("{name}/{attempt}.log"),
            ..ContainerConfig::default()
        };
        let request = CreateContainerRequest {
            pod_sandbox_id: self.sandbox.clone(),
            config: Some(config),
            sandbox_config: Some(self.config.clone()),
        };
        Ok(Box::pin(client.call(request)).await?.container_id)
    }

    /// The same, and starts it.
    ///
    /// # Errors
    ///
    /// The runtime failed.
    pub async fn run(
        &self,
        client: &Client,
        image: &str,
        identity: (&str, u32),
        command: &[&str],
    ) -> Result<String, Error> {
        let container_id = Box::pin(self.create(client, image, identity, command)).await?;
        client.call(StartContainerRequest { container_id: container_id.clone() }).await?;
        Ok(container_id)
    }
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}
