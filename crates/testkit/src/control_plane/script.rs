//! A real control plane: etcd and kube-apiserver, started by
//! `tests/control-plane/serve.sh`, which stops them when the pipe that is its
//! standard input closes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::info::{Info, Server};
use crate::{lock, target};

/// The running script.
#[derive(Debug)]
pub(super) struct Script {
    child: Child,
    // `None` after it was told to end.
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    errors: Arc<Mutex<String>>,
}

impl Script {
    /// Runs the script, and waits until the servers are ready.
    pub(super) fn start(apiserver_flags: &[&str]) -> Result<(Self, Info)> {
        let script = target::repository().join("tests/control-plane/serve.sh");
        let mut command = Command::new(&script);
        command.arg("--").args(apiserver_flags);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Fewer garbage collections of Go: here, memory is cheaper than processor time.
            .env("GOGC", "400")
            // Its own process group, because a test runner that kills the group of a test would
            // kill the script before it can clean up.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot run {}", script.display()))?;

        let errors = Arc::new(Mutex::new(String::new()));
        if let Some(stderr) = child.stderr.take() {
            let errors = Arc::clone(&errors);
            thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    // Directly to the terminal and not to the captured output of the test, because
                    // it may be the progress of a long build.
                    let _ = writeln!(std::io::stderr(), "{line}");
                    let mut errors = lock(&errors);
                    errors.push_str(&line);
                    errors.push('\n');
                }
            });
        }
        let commands = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("no pipe from the script")?);
        let mut script = Self { child, commands, answers, errors };
        let info = script.answer()?;
        Ok((script, info))
    }

    /// Sends the script a command about a server.
    pub(super) fn command(&mut self, verb: &str, server: Server) -> Result<Info> {
        let commands = self.commands.as_mut().context("the control plane was stopped")?;
        writeln!(commands, "{verb} {}", server.name()).context("the control plane has ended")?;
        self.answer()
    }

    /// Reads one line of JSON.
    fn answer(&mut self) -> Result<Info> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        if line.is_empty() {
            let status = self.end();
            bail!("the control plane ended ({status}):\n{}", lock(&self.errors));
        }
        serde_json::from_str(&line).with_context(|| format!("unexpected output of serve.sh: {line}"))
    }

    /// Closes the pipe and waits for the script, which waits for the servers.
    pub(super) fn end(&mut self) -> String {
        self.commands = None;
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return status.to_string(),
                Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(10)),
                // The servers end with the script.
                Ok(None) | Err(_) => {
                    let _ = self.child.kill();
                    let _ = self.child.wait();
                    return "the control plane had to be killed, because it did not end by itself".to_owned();
                }
            }
        }
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.end();
    }
}
