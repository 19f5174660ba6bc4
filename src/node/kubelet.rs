//! Whether a kubelet runs on this node: beside one, nothing is removed unless it is asked for
//! (safety 3).

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

/// Kubelets, and programs that contain one.
const NAMES: [&str; 6] = ["kubelet", "k3s", "k3s-server", "k3s-agent", "kubelite", "hyperkube"];
/// The kubelet's configuration, as kubeadm and others place it.
const CONFIG: &str = "/var/lib/kubelet/config.yaml";
/// Kubernetes sets it in each container of each pod.
const IN_POD: &str = "KUBERNETES_SERVICE_HOST";

/// Whether there is a kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Nothing shows one.
    Absent,
    /// There is one, or it cannot be ruled out.
    Present {
        /// How that is known; follows "a kubelet runs here: ".
        why: String,
    },
}

/// Whether this process runs in a pod.
#[must_use]
pub fn is_in_pod() -> bool {
    is_set(std::env::var_os(IN_POD))
}

fn is_set(variable: Option<OsString>) -> bool {
    variable.is_some_and(|value| !value.is_empty())
}

/// Looks for a kubelet: in a pod there always is one; elsewhere by its process or its configuration.
#[must_use]
pub fn detect() -> Presence {
    judge(is_in_pod(), Path::new("/proc"), Path::new(CONFIG))
}

fn judge(in_pod: bool, proc: &Path, config: &Path) -> Presence {
    let present = |why: String| Presence::Present { why };
    if in_pod {
        return present("this process runs in a pod".to_owned());
    }
    match process(proc) {
        Ok(Some(name)) => return present(format!("the process {name} runs")),
        Ok(None) => {}
        Err(error) => {
            return present(format!("it cannot be ruled out, as {} cannot be read: {error}", proc.display()));
        }
    }
    // Anything at this path counts, and so does what cannot be looked at.
    match fs::symlink_metadata(config) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Presence::Absent
        }
        Ok(_) | Err(_) => present(format!("{} exists", config.display())),
    }
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
        if let Some(known) = NAMES.iter().find(|known| **known == name.trim_end()) {
            return Ok(Some(known));
        }
    }
    // This process itself is always there.
    if seen { Ok(None) } else { Err(io::Error::other("it shows no processes")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proc(names: &[&str]) -> tempfile::TempDir {
        let proc = tempfile::tempdir().unwrap();
        for (number, name) in names.iter().enumerate() {
            let process = proc.path().join((number + 1).to_string());
            fs::create_dir(&process).unwrap();
            fs::write(process.join("comm"), format!("{name}\n")).unwrap();
        }
        fs::create_dir(proc.path().join("sys")).unwrap();
        proc
    }

    #[test]
    fn a_kubelet_is_known_by_the_pod_its_process_or_its_configuration() {
        let none = Path::new("/no/such/file");
        let proc_without = proc(&["init", "containerd", "my-kubelet"]);
        assert_eq!(judge(false, proc_without.path(), none), Presence::Absent);
        assert!(matches!(judge(true, proc_without.path(), none), Presence::Present { .. }));
        for name in NAMES {
            let proc = proc(&["init", name]);
            let Presence::Present { why } = judge(false, proc.path(), none) else { panic!("{name}") };
            assert!(why.contains(name), "{why}");
        }
        let config = tempfile::NamedTempFile::new().unwrap();
        assert!(matches!(judge(false, proc_without.path(), config.path()), Presence::Present { .. }));
    }

    #[test]
    fn what_cannot_be_ruled_out_counts_as_present() {
        let nothing = tempfile::tempdir().unwrap();
        let none = Path::new("/no/such/file");
        for proc in [nothing.path(), none] {
            assert!(matches!(judge(false, proc, none), Presence::Present { .. }));
        }
    }

    #[test]
    fn an_empty_variable_is_no_pod() {
        assert!(!is_set(None) && !is_set(Some(OsString::new())) && is_set(Some("10.0.0.1".into())));
    }
}
