//! Runs the Deployment, or the DaemonSet of node collection, as the kubelet does: the collector, with
//! the user and the arguments of the manifest, in a file system that has only the content of the
//! image and the volumes.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tempfile::TempDir;

use super::super::collector::Collector;
use super::super::control_plane::ControlPlane;
use super::installation::Installation;
use crate::target;

/// Where clients in a pod find their credentials.
const CREDENTIALS: &str = "var/run/secrets/kubernetes.io/serviceaccount";

/// The node that pods run on.
pub const NODE_NAME: &str = "node-1";
/// Takes away what root has beyond other users.
const SETPRIV: &str = "setpriv";

/// The file system of a pod, and how to start the collector in it.
pub struct Pod {
    // Kept as long as a collector runs in it.
    root: Arc<TempDir>,
    container: Value,
    user: String,
    address: (String, String),
    /// Of the namespace, of the service account, and of the pod, as far as the collector can see.
    name: &'static str,
}

impl Pod {
    /// The pod of the workload.
    pub async fn of(installation: &Installation<'_>) -> Result<Self> {
        let token = installation.request_token(None).await?;
        Self::with_token(installation, &token).await
    }

    /// The same with this token.
    pub async fn with_token(installation: &Installation<'_>, token: &str) -> Result<Self> {
        let name = installation.name;
        let workload = installation.workload().await?;
        let spec = &workload["spec"]["template"]["spec"];
        ensure!(spec["serviceAccountName"] == name, "another service account: {spec}");
        ensure!(spec["automountServiceAccountToken"] != false, "without a token");
        let container = spec["containers"][0].clone();
        let root = tempfile::Builder::new().prefix("kube-gc-pod-").tempdir()?;
        // Readable for others and not writable: a read-only root.
        std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o755))?;
        let url = installation.plane.info().url.clone();
        let (host, port) = url.trim_start_matches("https://").split_once(':').context("no port")?;
        let address = (host.to_owned(), port.to_owned());
        let security = &spec["securityContext"];
        let user = format!("{}:{}", security["runAsUser"], security["runAsGroup"]);
        let pod = Self { root: Arc::new(root), container, user, address, name };
        pod.install_image()?;
        pod.mount_volumes(installation, spec).await?;
        pod.mount(Path::new(CREDENTIALS), &credentials(installation.plane, token, name)?)?;
        Ok(pod)
    }

    /// Where a path of the pod is.
    pub fn path(&self, inside: &str) -> PathBuf {
        self.root.path().join(inside.trim_start_matches('/'))
    }

    /// Starts the collector, with listeners on free ports of loopback.
    pub async fn start(&self) -> Result<Collector> {
        let mut command = self.command()?;
        command.args(["--listen", "127.0.0.1:0", "--debug-listen", "127.0.0.1:0"]);
        let root = Arc::clone(&self.root);
        Collector::spawn(command, Some(Box::new(root))).await
    }

    /// The command of the container.
    pub fn command(&self) -> Result<Command> {
        let root = self.root.path();
        let ids = Command::new("id").arg("--user").output().context("who runs this test?")?;
        // Neither is in the environment of the collector after `exec`.
        let mut command = if ids.stdout == b"0\n" {
            let mut command = Command::new("chroot");
            command.arg(format!("--userspec={}", self.user)).arg(root);
            command
        } else {
            let mut command = Command::new("unshare");
            command.arg("--map-root-user").arg("--root").arg(root);
            command
        };
        if self.is_root() {
            command.arg(format!("/{SETPRIV}"));
            command.args(["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]);
        }
        command.arg("/kube-gc");
        command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        let mut arguments = Vec::new();
        for argument in self.container["args"].as_array().context("no arguments")? {
            arguments.push(argument.as_str().context("no text")?.to_owned());
        }
        for variable in self.container["env"].as_array().into_iter().flatten() {
            let name = variable["name"].as_str().context("no name")?;
            let value = match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
                Some("metadata.namespace" | "metadata.name") => self.name,
                Some("spec.nodeName") => NODE_NAME,
                Some("metadata.uid") => "3c9b6a1e-0000-4000-8000-000000000000",
                Some(other) => bail!("{name}: {other}"),
                None => variable["value"].as_str().context("no value")?,
            };
            command.env(name, value);
            for argument in &mut arguments {
                *argument = argument.replace(&format!("$({name})"), value);
            }
        }
        command.args(arguments);
        command.env("KUBERNETES_SERVICE_HOST", &self.address.0);
        command.env("KUBERNETES_SERVICE_PORT", &self.address.1);
        Ok(command)
    }

    /// Replaces the token, as the kubelet does.
    pub fn rotate(&self, plane: &ControlPlane, token: &str) -> Result<()> {
        self.mount(Path::new(CREDENTIALS), &credentials(plane, token, self.name)?)
    }

    /// Whether the collector is root, which then has no capabilities.
    fn is_root(&self) -> bool {
        self.user.starts_with("0:")
    }

    fn install_image(&self) -> Result<()> {
        self.install_program(&target::binary(), "kube-gc")?;
        if self.is_root() {
            let found = Command::new("sh").args(["-c", &format!("command -v {SETPRIV}")]).output()?;
            let path = String::from_utf8(found.stdout)?;
            ensure!(found.status.success(), "{SETPRIV} (package util-linux) is needed on PATH");
            self.install_program(Path::new(path.trim()), SETPRIV)?;
        }
        Ok(())
    }

    /// A program, and the libraries of one that is not static, as test binaries usually are not.
    fn install_program(&self, binary: &Path, name: &str) -> Result<()> {
        self.install(binary, Path::new(name))?;
        let libraries = Command::new("ldd").arg(binary).output().context("ldd is needed")?;
        let libraries = String::from_utf8(libraries.stdout)?;
        for word in libraries.split_whitespace().filter(|word| word.starts_with('/')) {
            let path = word.trim_end_matches(':');
            if Path::new(path) != binary {
                self.install(Path::new(path), Path::new(path.trim_start_matches('/')))?;
            }
        }
        Ok(())
    }

    fn install(&self, from: &Path, to: &Path) -> Result<()> {
        let to = self.root.path().join(to);
        if let Some(parent) = to.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::copy(from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        Ok(())
    }

    async fn mount_volumes(&self, installation: &Installation<'_>, spec: &Value) -> Result<()> {
        for mount in self.container["volumeMounts"].as_array().into_iter().flatten() {
            let volumes = spec["volumes"].as_array().context("no volumes")?;
            let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]);
            let volume = volume.with_context(|| format!("no volume for {mount}"))?;
            let path = mount["mountPath"].as_str().context("not mounted")?;
            // Until a test puts something in it, the host's is as empty as one of the pod.
            if volume["hostPath"].is_object() || volume["emptyDir"].is_object() {
                std::fs::create_dir_all(self.path(path))?;
                continue;
            }
            let (source, is_secret) = match volume["secret"]["secretName"].as_str() {
                Some(name) => {
                    let path = format!("/api/v1/namespaces/{}/secrets/{name}", installation.name);
                    (installation.get(&path).await?, true)
                }
                None => {
                    let name =
                        volume["configMap"]["name"].as_str().context("neither ConfigMap nor Secret")?;
                    (installation.configmap(name).await?, false)
                }
            };
            let mut files = Vec::new();
            for (file, content) in source["data"].as_object().context("no data")? {
                let content = content.as_str().context("no text")?;
                let text = if is_secret {
                    String::from_utf8(STANDARD.decode(content)?)?
                } else {
                    content.to_owned()
                };
                files.push((file.clone(), text));
            }
            self.mount(Path::new(path.trim_start_matches('/')), &files)?;
        }
        Ok(())
    }

    /// Files as the kubelet projects them: renaming one link changes all of them at once.
    fn mount(&self, path: &Path, files: &[(String, String)]) -> Result<()> {
        let directory = self.root.path().join(path);
        std::fs::create_dir_all(&directory)?;
        let content = tempfile::Builder::new().prefix("..").tempdir_in(&directory)?.keep();
        std::fs::set_permissions(&content, std::fs::Permissions::from_mode(0o755))?;
        for (name, text) in files {
            std::fs::write(content.join(name), text)?;
            let link = directory.join(name);
            if !link.exists() && !link.is_symlink() {
                symlink(Path::new("..data").join(name), link)?;
            }
        }
        let next = directory.join("..data_tmp");
        symlink(content.file_name().context("no name")?, &next)?;
        std::fs::rename(next, directory.join("..data"))?;
        Ok(())
    }
}

/// The content of a projected volume with the credentials of a service account.
fn credentials(plane: &ControlPlane, token: &str, namespace: &str) -> Result<Vec<(String, String)>> {
    let ca = std::fs::read_to_string(plane.info().dir.join("ca.crt"))?;
    let files = [("token", token), ("ca.crt", ca.as_str()), ("namespace", namespace)];
    Ok(files.map(|(name, content)| (name.to_owned(), content.to_owned())).into())
}
