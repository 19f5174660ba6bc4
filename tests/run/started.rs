//! What programs need that start a collector: when it is ready, where it is, and that it ends.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::{Turn, target};

kube_gc_testkit::scenarios! {
    the_ready_file_is_there_from_ready_to_the_end,
    it_ends_with_the_process_that_started_it,
    it_ends_if_that_process_ended_before,
    it_ends_if_another_process_started_it,
    too_low_a_limit_of_open_files_is_named,
    a_server_without_tls_needs_no_certificates_of_the_system,
}

/// The command of a collector with free ports and a ready file.
fn run(turn: &Turn, ready: &Path) -> Vec<PathBuf> {
    let words = ["run", "--listen", "127.0.0.1:0", "--debug-listen", "127.0.0.1:0", "--kubeconfig"];
    let mut all = vec![target::binary()];
    all.extend(words.map(PathBuf::from));
    all.extend([turn.plane().kubeconfig().to_owned(), "--ready-file".into(), ready.to_owned()]);
    all
}

async fn content(path: &Path) -> Result<Value> {
    poll("the ready file", async || Ok(path.exists())).await?;
    serde_json::from_slice(&std::fs::read(path)?).context("the ready file is not JSON")
}

/// Whether the process is there and not only left for its parent to collect.
fn lives(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

async fn the_ready_file_is_there_from_ready_to_the_end() -> Result<()> {
    let turn = Turn::take().await?;
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("ready.json");
    std::fs::write(&path, "of another process")?;
    let words = run(&turn, &path);
    let mut child =
        Command::new(&words[0]).args(&words[1..]).stderr(Stdio::null()).kill_on_drop(true).spawn()?;
    let pid = child.id().context("it has ended")?;
    poll("a new ready file", async || Ok(std::fs::read(&path).is_ok_and(|text| text.starts_with(b"{"))))
        .await?;
    let ready = content(&path).await?;
    ensure!(ready["kind"] == "Ready" && ready["pid"] == pid, "{ready}");
    ensure!(ready["version"] == env!("CARGO_PKG_VERSION"), "{ready}");
    for (listener, page) in [("health", "readyz"), ("debug", "debug/idle")] {
        let url = format!("http://{}/{page}", ready[listener].as_str().context("no address")?);
        let output = Command::new("curl").args(["--silent", "--fail", &url]).output().await?;
        ensure!(output.status.success(), "{url}: {output:?}");
    }
    let status = Command::new("kill").arg(pid.to_string()).status().await?;
    ensure!(status.success() && child.wait().await?.success());
    ensure!(std::fs::read_dir(directory.path())?.count() == 0, "the file is still there");
    Ok(())
}

async fn it_ends_with_the_process_that_started_it() -> Result<()> {
    let turn = Turn::take().await?;
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("ready.json");
    let words = run(&turn, &path);
    // The shell is the parent, and waits for a line.
    let script = r#""$@" --exit-with-parent 2>/dev/null & read -r _"#;
    let mut shell = Command::new("sh")
        .args(["-c", script, "sh"])
        .args(&words)
        .stdin(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let pid = content(&path).await?["pid"].as_u64().context("no pid")?;
    ensure!(lives(pid));
    shell.kill().await?;
    poll("the collector to end", async || Ok(!lives(pid))).await?;
    ensure!(!path.exists(), "it did not end in an orderly way");
    Ok(())
}

async fn it_ends_if_that_process_ended_before() -> Result<()> {
    let turn = Turn::take().await?;
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("ready.json");
    let words = run(&turn, &path);
    for _ in 0..10 {
        // The shell ends at once.
        let script = r#""$@" --exit-with-parent=$$ >/dev/null 2>&1 & echo $!"#;
        let shell = Command::new("sh").args(["-c", script, "sh"]).args(&words).output().await?;
        let pid: u64 = String::from_utf8_lossy(&shell.stdout).trim().parse()?;
        poll("the collector to end", async || Ok(!lives(pid))).await?;
    }
    ensure!(!path.exists());
    Ok(())
}

async fn it_ends_if_another_process_started_it() -> Result<()> {
    let turn = Turn::take().await?;
    let directory = tempfile::tempdir()?;
    let words = run(&turn, &directory.path().join("ready.json"));
    let other = format!("--exit-with-parent={}", i32::MAX);
    let output = Command::new(&words[0]).args(&words[1..]).arg(&other).output().await?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        !output.status.success() && said.contains(&other) && said.contains("start kube-gc directly"),
        "{said}"
    );
    Ok(())
}

/// An API server that no certificate of this system is needed for, and that is not there.
const NOWHERE: &str = "{current-context: a, clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}], \
    contexts: [{name: a, context: {cluster: a, user: a}}], users: [{name: a, user: {token: known}}]}";

async fn a_server_without_tls_needs_no_certificates_of_the_system() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let kubeconfig = directory.path().join("nowhere");
    std::fs::write(&kubeconfig, NOWHERE)?;
    let mut run = Command::new(target::binary());
    run.args(["run", "--kubeconfig"]).arg(&kubeconfig);
    let output = run.env("SSL_CERT_FILE", "/dev/null").env("SSL_CERT_DIR", "/nonexistent").output().await?;
    let log = String::from_utf8(output.stderr)?;
    ensure!(log.contains("http://127.0.0.1:1/ cannot be reached"), "{log}");
    Ok(())
}

/// The limit is too low for the connections, or even for the threads.
async fn too_low_a_limit_of_open_files_is_named() -> Result<()> {
    let turn = Turn::take().await?;
    let directory = tempfile::tempdir()?;
    let words = run(&turn, &directory.path().join("ready.json"));
    for limit in [40, 8] {
        let mut child = Command::new("sh")
            .args(["-c", &format!(r#"ulimit -n {limit} && exec "$@""#), "sh"])
            .args(&words)
            // Each watch has a connection of its own.
            .env("KUBE_GC__CLIENT__WATCH_PROTOCOL", "http1")
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut log = BufReader::new(child.stderr.take().context("no log")?).lines();
        let named = async {
            while let Some(line) = log.next_line().await? {
                if line.contains("Too many open files")
                    && line.contains("raise the limit of open files (`ulimit -n`)")
                {
                    return Ok(());
                }
            }
            bail!("it has ended without an error about the limit of {limit}")
        };
        timeout(Duration::from_secs(60), named).await.context("no error about the limit")??;
        child.kill().await?;
    }
    // Wherever the start reaches the limit.
    let nowhere = directory.path().join("nowhere");
    std::fs::write(&nowhere, NOWHERE)?;
    let words = [target::binary(), "run".into(), "--kubeconfig".into(), nowhere];
    for limit in 8..30 {
        let mut sh = Command::new("sh");
        sh.args(["-c", &format!(r#"ulimit -n {limit} && exec "$@""#), "sh"]).args(&words);
        let log = String::from_utf8(sh.output().await?.stderr)?;
        ensure!(!log.contains("Too many open files") || log.contains("(`ulimit -n`)"), "{limit}: {log}");
    }
    Ok(())
}
