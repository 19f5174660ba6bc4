//! The settings of the rules, where everything is, and whether a kubelet runs here.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use kube_gc_cri::{Endpoint, endpoint};
use kube_gc_node::Rules;
use kube_gc_node::rules::{ContainerRules, Effects, ImageRules, Label, LogRoots, Pressure};
use wildmatch::WildMatch;

use super::{NodeError, StateFile};
use kube_gc_config::{BesideKubelet, Settings};

/// Kubelets, and programs that contain or start one.
const NAMES: &str = "kubelet k3s k3s-server k3s-agent rke2 k0s kubelite microshift edgecore hyperkube";
/// What a kubelet has on its host, by kubeadm, EKS, GKE and OpenShift, RKE2, k3s, k0s, `MicroK8s`. It is also there
/// while the kubelet is restarted.
const FILES: [&str; 9] = [
    "var/lib/kubelet/config.yaml",
    "var/lib/kubelet/kubeconfig",
    "var/lib/kubelet/pods",
    "etc/kubernetes/kubelet.conf",
    "var/lib/rancher/rke2/agent/kubelet.kubeconfig",
    "var/lib/rancher/k3s/agent/kubelet.kubeconfig",
    "var/lib/k0s/kubelet",
    "var/lib/k0s/kubelet.conf",
    "var/snap/microk8s/current/credentials/kubelet.config",
];
/// The namespace of the processes of the host: the kernel gives it this number, and no other.
const HOST_PROCESSES: &str = "pid:[4026531836]";
/// Kubernetes sets it in each container of each pod.
const IN_POD: &str = "KUBERNETES_SERVICE_HOST";

/// What a person asks of one pass, beyond the settings.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The percentage that has to be free after the pass, whatever the thresholds say.
    pub free: Option<u8>,
    /// Whether all unused images go.
    pub all: bool,
    /// How long an image must have been unused.
    pub older_than: Option<Duration>,
    /// The labels that an image must have.
    pub labels: Vec<Label>,
    /// Whether to wait for what is only too young.
    pub wait: bool,
}

/// What one node is collected by.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The settings of the rules.
    pub rules: Rules,
    /// The socket of the container runtime.
    pub endpoint: Endpoint,
    /// The name of this node.
    pub name: String,
    /// Where the ages of images are kept.
    pub state: StateFile,
    /// How it is known that a kubelet runs here, or why that cannot be ruled out; nothing if none does.
    /// Follows "a kubelet runs here: ".
    pub kubelet: Option<String>,
    /// What may be removed beside one (safety 3).
    pub beside: Effects,
    /// Looks for a kubelet again.
    pub detect: fn() -> Option<String>,
    /// Whether this process runs in a pod.
    pub in_pod: bool,
}

impl NodeOptions {
    /// What these settings and a person say.
    ///
    /// # Errors
    /// There is no container runtime, or more than one.
    pub fn new(settings: &Settings, asked: &Asked) -> Result<Self, NodeError> {
        let node = &settings.node;
        let endpoint = if node.runtime_endpoint.is_empty() {
            endpoint::discover()?
        } else {
            Endpoint::parse(&node.runtime_endpoint)?
        };
        let endpoint = endpoint.resolved();
        let name = if node.name.is_empty() { hostname() } else { node.name.clone() };
        let state = StateFile::new(&node.state, endpoint.path());
        let beside = match node.beside_kubelet {
            BesideKubelet::Images => Effects::Images,
            BesideKubelet::All => Effects::All,
            _ => Effects::Nothing,
        };
        let (rules, in_pod) = (rules(settings, asked), is_in_pod());
        let mut options = Self { rules, endpoint, name, state, kubelet: None, beside, detect, in_pod };
        options.notice(detect());
        Ok(options)
    }

    /// Takes notice of a kubelet, if there is one.
    pub fn notice(&mut self, kubelet: Option<String>) {
        if kubelet.is_some() {
            self.rules.beside_kubelet = Some(self.beside);
            self.kubelet = kubelet;
        }
    }
}

/// The settings of the rules.
fn rules(settings: &Settings, asked: &Asked) -> Rules {
    let (node, images, pressure) = (&settings.node, &settings.node.images, &settings.node.pressure);
    // A negative number stands for no limit.
    let limit = |count: i64| usize::try_from(count).ok();
    let nonzero = |duration: Duration| Some(duration).filter(|duration| !duration.is_zero());
    Rules {
        containers: ContainerRules {
            min_age: node.min_age,
            max_per_container: limit(node.max_per_container),
            max_total: limit(node.max_total),
            period: node.period,
        },
        images: ImageRules {
            high: node.high,
            low: node.low,
            min_age: images.min_age,
            max_age: nonzero(images.max_age),
            keep: images.keep.iter().map(|pattern| WildMatch::new(pattern)).collect(),
            keep_local: images.keep_local,
            period: images.period,
        },
        pressure: pressure.enabled.then_some(Pressure { bytes: pressure.bytes, inodes: pressure.inodes }),
        free: asked.free,
        all: asked.all,
        older_than: asked.older_than,
        labels: asked.labels.clone(),
        roots: LogRoots { pods: node.roots.pods.clone(), containers: node.roots.containers.clone() },
        dry_run: settings.dry_run,
        ..Rules::default()
    }
}

/// The hostname as the kubelet takes it for the name of its node.
fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().trim().to_lowercase()
}

/// Whether this process runs in a pod.
fn is_in_pod() -> bool {
    is_set(std::env::var_os(IN_POD))
}

fn is_set(variable: Option<OsString>) -> bool {
    variable.is_some_and(|value| !value.is_empty())
}

/// Looks for a kubelet: in a pod there always is one; elsewhere by its process or its files.
fn detect() -> Option<String> {
    judge(is_in_pod(), Path::new("/"))
}

fn judge(in_pod: bool, root: &Path) -> Option<String> {
    if in_pod {
        return Some("this process runs in a pod".to_owned());
    }
    let proc = root.join("proc");
    match process(&proc) {
        Ok(Some(name)) => return Some(format!("the process {name} runs")),
        Ok(None) => {}
        Err(error) => {
            return Some(format!("it cannot be ruled out, as {} cannot be read: {error}", proc.display()));
        }
    }
    // Anything at these paths counts, and so does what cannot be looked at.
    let is_absent =
        |error: &io::Error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    let mut files = FILES.iter().map(|file| root.join(file));
    if let Some(file) = files.find(|file| !fs::symlink_metadata(file).is_err_and(|error| is_absent(&error))) {
        return Some(format!("{} exists", file.display()));
    }
    // In a container that is no pod, neither its process nor its files can be seen.
    let sees_host = fs::read_link(proc.join("self/ns/pid")).is_ok_and(|it| it.as_os_str() == HOST_PROCESSES);
    let unseen =
        "it cannot be ruled out, as this process runs in a container without the processes of the host";
    (!sees_host).then(|| unseen.to_owned())
}

/// The first process with the name of a kubelet.
fn process(proc: &Path) -> io::Result<Option<&'static str>> {
    let mut seen = false;
    for entry in fs::read_dir(proc)? {
        let entry = entry?;
        let is_process =
            entry.file_name().to_str().is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()));
        if !is_process {
            continue;
        }
        seen = true;
        // A process may end meanwhile.
        let Ok(name) = fs::read_to_string(entry.path().join("comm")) else { continue };
        if let Some(known) = NAMES.split(' ').find(|known| *known == name.trim_end()) {
            return Ok(Some(known));
        }
    }
    // This process itself is always there.
    if seen { Ok(None) } else { Err(io::Error::other("it shows no processes")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_settings_are_the_default_rules() {
        assert_eq!(rules(&Settings::default(), &Asked::default()), Rules::default());
    }

    #[test]
    fn every_setting_reaches_the_rules() {
        let mut settings = Settings::default();
        settings.dry_run = true;
        settings.node.min_age = Duration::from_secs(1);
        (settings.node.max_per_container, settings.node.max_total) = (-1, 7);
        (settings.node.high, settings.node.low) = (70, 60);
        settings.node.period = Duration::from_secs(2);
        settings.node.images.max_age = Duration::from_secs(9);
        settings.node.images.keep = vec!["a*".to_owned()];
        settings.node.images.keep_local = false;
        settings.node.pressure.enabled = true;
        settings.node.beside_kubelet = BesideKubelet::All;
        settings.node.runtime_endpoint = "/run/x.sock".to_owned();
        let labels = vec![Label::parse("stage").unwrap()];
        let asked = Asked { free: Some(33), labels: labels.clone(), ..Asked::default() };
        let mut options = NodeOptions::new(&settings, &asked).unwrap();
        options.notice(Some("the test says so".to_owned()));
        let rules = options.rules;
        assert_eq!(rules.beside_kubelet, Some(Effects::All));
        assert_eq!((rules.containers.max_per_container, rules.containers.max_total), (None, Some(7)));
        assert_eq!((rules.images.high, rules.images.low, rules.free), (70, 60, Some(33)));
        assert_eq!(rules.images.max_age, Some(Duration::from_secs(9)));
        assert_eq!((rules.images.keep.len(), rules.labels), (1, labels));
        assert!(!rules.images.keep_local && rules.dry_run);
        assert_eq!(rules.pressure, Some(Pressure::default()));
    }

    /// Whoever changes the symlink later does not make it another runtime, whose images have other ages.
    #[test]
    fn a_socket_is_called_by_its_own_path() {
        let directory = tempfile::tempdir().unwrap();
        let (socket, link) = (directory.path().join("one.sock"), directory.path().join("link.sock"));
        fs::write(&socket, "").unwrap();
        std::os::unix::fs::symlink("one.sock", &link).unwrap();
        let mut settings = Settings::default();
        settings.node.runtime_endpoint = link.to_str().unwrap().to_owned();
        let options = NodeOptions::new(&settings, &Asked::default()).unwrap();
        assert_eq!(options.endpoint.path(), fs::canonicalize(&socket).unwrap());
    }

    /// A host with these processes, as a process in this namespace sees it.
    fn host(names: &[&str], namespace: &str) -> tempfile::TempDir {
        let host = tempfile::tempdir().unwrap();
        for (number, name) in names.iter().enumerate() {
            let process = host.path().join(format!("proc/{}", number + 1));
            fs::create_dir_all(&process).unwrap();
            fs::write(process.join("comm"), format!("{name}\n")).unwrap();
        }
        fs::create_dir_all(host.path().join("proc/self/ns")).unwrap();
        std::os::unix::fs::symlink(namespace, host.path().join("proc/self/ns/pid")).unwrap();
        host
    }

    #[test]
    fn a_kubelet_is_known_by_the_pod_its_process_or_its_files() {
        let without = || host(&["init", "containerd", "my-kubelet"], HOST_PROCESSES);
        assert_eq!(judge(false, without().path()), None);
        assert!(judge(true, without().path()).is_some());
        for name in NAMES.split(' ') {
            let host = host(&["init", name], HOST_PROCESSES);
            assert!(judge(false, host.path()).is_some_and(|why| why.contains(name)), "{name}");
        }
        for file in FILES {
            let host = without();
            fs::create_dir_all(host.path().join(file)).unwrap();
            assert!(judge(false, host.path()).is_some_and(|why| why.contains(file)), "{file}");
        }
    }

    #[test]
    fn what_cannot_be_ruled_out_counts_as_present() {
        let in_container = host(&["kube-gc"], "pid:[4026532201]");
        assert!(judge(false, in_container.path()).is_some_and(|why| why.contains("container")));
        let without_processes = host(&[], HOST_PROCESSES);
        for root in [without_processes.path(), Path::new("/no/such/directory")] {
            assert!(judge(false, root).is_some_and(|why| why.contains("cannot be read")));
        }
    }

    #[test]
    fn an_empty_variable_is_no_pod() {
        assert!(!is_set(None) && !is_set(Some(OsString::new())) && is_set(Some("10.0.0.1".into())));
    }
}
