//! A control plane for one run.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

/// A control plane that ends when this is dropped.
pub struct Server {
    pub kubeconfig: PathBuf,
    pub version: String,
    process: u64,
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Server {
    pub fn start() -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/control-plane/serve.sh");
        let mut child = Command::new(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("tests/control-plane/serve.sh starts");
        let stdin = child.stdin.take();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).expect("serve.sh answers with a line of JSON");
        Self {
            kubeconfig: ready["kubeconfig"].as_str().unwrap().into(),
            version: ready["version"].as_str().unwrap().to_owned(),
            process: ready["apiserver_pid"].as_u64().unwrap(),
            child,
            stdin,
        }
    }

    /// The CPU time of kube-apiserver so far.
    pub fn processor_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process)).unwrap();
        // The name in parentheses may contain anything. utime and stime are the 14th and 15th
        // field, in ticks of a hundredth of a second.
        let (_, after) = stat.rsplit_once(')').unwrap();
        let ticks: u64 =
            after.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
        Duration::from_millis(ticks * 10)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The script ends everything when its input ends.
        self.stdin = None;
        let _ = self.child.wait();
    }
}
