//! The kubelet's own garbage collectors, as a program that is told what to collect.
//!
//! `tests/node-oracle` builds it, of Kubernetes 1.20.2. It speaks v1alpha2.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::Endpoint;

/// What the kubelet is configured with.
#[derive(Clone, Debug, Serialize)]
pub struct KubeletRules {
    /// Containers younger than this are kept.
    pub min_age_seconds: i64,
    /// How many dead containers are kept of each container of a pod; negative for no limit.
    pub max_per_container: i64,
    /// How many dead containers are kept in all; negative for no limit.
    pub max_total: i64,
    /// From which usage in percent on images are removed.
    pub image_high: i64,
    /// Down to which usage.
    pub image_low: i64,
    /// Images younger than this are kept.
    pub image_min_age_seconds: i64,
    /// The image of sandboxes, which is always kept.
    pub sandbox_image: String,
}

impl Default for KubeletRules {
    fn default() -> Self {
        Self {
            min_age_seconds: 0,
            max_per_container: 1,
            max_total: -1,
            image_high: 85,
            image_low: 80,
            image_min_age_seconds: 120,
            sandbox_image: String::new(),
        }
    }
}

/// One round.
#[derive(Clone, Debug, Default, Serialize)]
pub struct KubeletPass {
    /// Collect containers, sandboxes and logs.
    pub containers: bool,
    /// Collect images.
    pub images: bool,
    /// Collect what is collected under pressure.
    pub pressure: bool,
    /// The uids of the pods that exist.
    pub pods: Vec<String>,
    /// The uids of those of them that are terminated.
    pub terminated: Vec<String>,
    /// Whether all pods are known.
    pub sources_ready: bool,
    /// The size of the file system of images.
    pub capacity: u64,
    /// What is left of it.
    pub available: u64,
}

/// How a round ended: errors, or empty texts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct KubeletOutcome {
    /// Of containers, sandboxes and logs.
    pub containers: String,
    /// Of images.
    pub images: String,
}

/// The program, until this value is dropped.
#[derive(Debug)]
pub struct Kubelet {
    // Ends the program.
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Kubelet {
    /// Builds the program if necessary, which takes minutes once, and returns its path.
    ///
    /// # Errors
    ///
    /// It cannot be built here.
    pub async fn program() -> io::Result<PathBuf> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/node-oracle/ensure.sh");
        let output = Command::new(script).stdin(Stdio::null()).stderr(Stdio::inherit()).output().await?;
        if !output.status.success() {
            return Err(io::Error::other(format!("{script} failed")));
        }
        Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim_end()))
    }

    /// Starts the program. It collects nothing before it is [set up](Self::set_up).
    ///
    /// # Errors
    ///
    /// It does not start.
    pub fn start(program: &Path) -> io::Result<Self> {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // It tells of each removal.
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let missing = || io::Error::other("no pipe");
        let input = child.stdin.take().ok_or_else(missing)?;
        let output = BufReader::new(child.stdout.take().ok_or_else(missing)?).lines();
        Ok(Self { child, input, output })
    }

    /// The process, unless it has ended.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Makes collectors that have seen nothing yet. `root` stands for the root directory above the
    /// kubelet's logs.
    ///
    /// # Errors
    ///
    /// The runtime does not answer, or the rules make no sense to the kubelet.
    pub async fn set_up(&mut self, endpoint: &Endpoint, root: &Path, rules: &KubeletRules) -> io::Result<()> {
        let mut setup = serde_json::to_value(rules)?;
        (setup["endpoint"], setup["root"]) = (json!(endpoint.to_string()), json!(root));
        let answer = self.ask(&json!({ "setup": setup })).await?;
        match answer["setup"].as_str() {
            Some("") => Ok(()),
            error => Err(io::Error::other(format!("the kubelet's collectors cannot be set up: {error:?}"))),
        }
    }

    /// Collects once.
    ///
    /// # Errors
    ///
    /// The program has ended.
    pub async fn pass(&mut self, pass: &KubeletPass) -> io::Result<KubeletOutcome> {
        Ok(serde_json::from_value(self.ask(&json!({ "pass": pass })).await?)?)
    }

    async fn ask(&mut self, question: &Value) -> io::Result<Value> {
        self.input.write_all(format!("{question}\n").as_bytes()).await?;
        self.input.flush().await?;
        let answer = self
            .output
            .next_line()
            .await?
            .ok_or_else(|| io::Error::other("the kubelet's collectors ended"))?;
        Ok(serde_json::from_str(&answer)?)
    }
}
