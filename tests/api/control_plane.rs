//! A control plane for one test.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

/// A control plane that ends when this is dropped.
pub struct ControlPlane {
    pub kubeconfig: PathBuf,
    own: Option<Own>,
}

struct Own {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    directory: PathBuf,
}

impl ControlPlane {
    /// The cluster of `$KUBE_GC_TEST_KUBECONFIG`, or a control plane of its own.
    pub fn start() -> Self {
        match std::env::var_os("KUBE_GC_TEST_KUBECONFIG") {
            Some(path) => Self { kubeconfig: path.into(), own: None },
            None => Self::start_own(),
        }
    }

    /// A control plane of its own, whose servers can be stopped and started.
    pub fn start_own() -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/control-plane/serve.sh");
        let mut child = Command::new(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("tests/control-plane/serve.sh starts");
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let ready = answer(&mut stdout);
        let path = |field: &str| PathBuf::from(ready[field].as_str().unwrap());
        let (kubeconfig, directory) = (path("kubeconfig"), path("dir"));
        Self { kubeconfig, own: Some(Own { child, stdin, stdout, directory }) }
    }

    /// Sends a command to the script, for example `kill etcd`.
    pub fn tell(&mut self, command: &str) {
        let own = self.own.as_mut().expect("a server of our own");
        writeln!(own.stdin.as_mut().unwrap(), "{command}").unwrap();
        answer(&mut own.stdout);
    }

    /// The directory with its data.
    pub fn directory(&self) -> PathBuf {
        self.own.as_ref().expect("a server of our own").directory.clone()
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if let Some(own) = &mut self.own {
            // The script ends everything when its input ends.
            own.stdin = None;
            let _ = own.child.wait();
        }
    }
}

fn answer(stdout: &mut BufReader<ChildStdout>) -> Value {
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    serde_json::from_str(&line).expect("serve.sh answers with a line of JSON")
}
