//! The process: started, restarted and ended with the test.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use super::Archive;
use super::archive::BUSYBOX;
use crate::{Client, Endpoint, Settings};

/// The image of sandboxes; every containerd of this module has it.
const PAUSE: &str = "kube-gc.test/pause:1";
/// How long containerd may take to answer after it was started.
const START: Duration = Duration::from_secs(60);
/// How long an imported image may take to appear in the runtime's list.
const APPEAR: Duration = Duration::from_secs(30);

/// Starts containerd and everything of it in a namespace of processes and mounts, and obeys commands.
///
/// The namespace's first process ends when its standard input does, also when the test is killed; with
/// it the kernel ends containerd, its shims and all containers. What is left are a mount and a
/// directory, which the outer shell removes. The shims keep their sockets below /run.
const SCRIPT: &str = r#"
set -eu
dir=$1 size=$2
exec 2>>"$dir/log"
mount -t tmpfs -o "size=$size,mode=0711" tmpfs "$dir/root"
unshare --mount --pid --fork --mount-proc sh -c '
mount -t tmpfs -o mode=0755 tmpfs /run
start() { containerd --config "$0/config.toml" >>"$0/log" 2>&1 & pid=$!; }
start
echo started
while read -r command; do
  case $command in
  kill) kill -KILL $pid; wait $pid || : ;;
  start) start ;;
  esac
  echo "$command"
done' "$dir" || :
umount -l "$dir/root"
rm -rf --one-file-system "$dir"
"#;

/// Whether a test with a real containerd can run. If not, says so, past the test harness, which shows
/// only failures.
///
/// # Panics
/// If `KUBE_GC_CONTAINERD` is set, as in continuous integration, where such tests must run.
pub fn can_run(test: &str) -> bool {
    let Some(missing) = missing() else { return true };
    assert!(
        std::env::var("KUBE_GC_CONTAINERD").is_err(),
        "{test} is required by KUBE_GC_CONTAINERD, but {missing}"
    );
    let _ = writeln!(io::stderr(), "skipped: {test}: {missing}");
    false
}

/// What is missing for a real containerd, or `None`.
fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("containers need root".to_owned());
    }
    for program in
        ["containerd", "containerd-shim-runc-v2", "ctr", "runc", "unshare", "mount", "sha256sum", "tar"]
    {
        let found =
            Command::new("sh").args(["-c", "command -v \"$0\"", program]).stdout(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            return Some(format!("there is no {program}"));
        }
    }
    if !Path::new(BUSYBOX).exists() {
        return Some(format!("there is no {BUSYBOX}, of the package busybox-static"));
    }
    let mounts =
        Command::new("unshare").args(["--mount", "--pid", "--fork", "--mount-proc", "true"]).output();
    if !mounts.is_ok_and(|output| output.status.success()) {
        return Some("this root may not mount".to_owned());
    }
    None
}

/// A containerd that runs until this value is dropped.
#[derive(Debug)]
pub struct Containerd {
    directory: PathBuf,
    shell: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    endpoint: Endpoint,
}

impl Containerd {
    /// Starts containerd with an image for sandboxes. `disk` is the size in bytes of the file system that holds
    /// images and containers, in memory.
    ///
    /// # Errors
    ///
    /// Something is [`missing`], or containerd does not start; then the error has the end of its log.
    pub async fn start(disk: u64) -> io::Result<Self> {
        let directory = temporary_directory()?;
        for name in ["root", "state", "cni", "images", "logs"] {
            fs::create_dir(directory.join(name))?;
        }
        fs::write(directory.join("config.toml"), config(&directory))?;
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT, "kube-gc-containerd"])
            .arg(&directory)
            .arg(disk.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C ends the test, and thereby this; it would not clean up if it was hit itself.
            .process_group(0)
            .spawn()?;
        let commands = shell.stdin.take();
        let answers = shell.stdout.take().ok_or_else(|| io::Error::other("no standard output"))?;
        let endpoint = Endpoint::parse(&directory.join("containerd.sock").to_string_lossy())
            .map_err(io::Error::other)?;
        let answers = BufReader::new(answers);
        let mut containerd = Self { directory, shell, commands, answers, endpoint };
        containerd.answer("started")?;
        containerd.wait().await?;
        containerd.import(&Archive { name: PAUSE.to_owned(), layers: vec![super::Layer::Program] }).await?;
        Ok(containerd)
    }

    /// The socket.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The file system that holds images and containers.
    pub fn disk(&self) -> PathBuf {
        self.directory.join("root")
    }

    /// A directory for the logs of pods, as `/var/log/pods` is.
    pub fn logs(&self) -> PathBuf {
        self.directory.join("logs")
    }

    /// The image of sandboxes.
    pub fn pause_image(&self) -> &'static str {
        PAUSE
    }

    /// Connects a client.
    ///
    /// # Errors
    ///
    /// As of [`Client::connect`].
    pub async fn client(&self) -> Result<Client, crate::Error> {
        Client::connect(&self.endpoint, Settings::default()).await
    }

    /// Imports an image, and waits until the runtime lists it.
    ///
    /// # Errors
    ///
    /// The import fails, or the image does not appear.
    pub async fn import(&self, archive: &Archive) -> io::Result<()> {
        let file = archive.write(&self.directory.join("images"))?;
        let path = file.to_string_lossy().into_owned();
        self.ctr(&["images", "import", "--snapshotter", "native", &path]).await?;
        fs::remove_file(file)?;
        let client = self.client().await.map_err(io::Error::other)?;
        let deadline = Instant::now() + APPEAR;
        loop {
            let images = client.all_images().await.map_err(io::Error::other)?;
            if images.iter().any(|image| image.repo_tags.contains(&archive.name)) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(io::Error::other(format!("{} was imported and does not appear", archive.name)));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Runs `ctr` in the namespace of Kubernetes, and returns what it prints.
    ///
    /// # Errors
    ///
    /// It cannot be run, or fails.
    pub async fn ctr(&self, arguments: &[&str]) -> io::Result<String> {
        let output = tokio::process::Command::new("ctr")
            .arg("--address")
            .arg(self.endpoint.path())
            .args(["--namespace", "k8s.io"])
            .args(arguments)
            .output()
            .await?;
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(io::Error::other(format!("ctr {} failed: {error}", arguments.join(" "))));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Kills containerd. Containers live on, with their shims.
    ///
    /// # Errors
    ///
    /// The shell that looks after it is gone.
    pub fn kill(&mut self) -> io::Result<()> {
        self.command("kill")
    }

    /// Starts containerd again after [`Containerd::kill`], and waits until it answers.
    ///
    /// # Errors
    ///
    /// It does not start; then the error has the end of its log.
    pub async fn restart(&mut self) -> io::Result<()> {
        self.command("start")?;
        self.wait().await
    }

    /// The end of containerd's log.
    pub fn log(&self) -> String {
        let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Waits until containerd answers.
    async fn wait(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + START;
        loop {
            let error = match self.client().await {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            if Instant::now() > deadline || self.shell.try_wait()?.is_some() {
                return Err(io::Error::other(format!("containerd does not start: {error}\n{}", self.log())));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn command(&mut self, command: &str) -> io::Result<()> {
        let commands = self.commands.as_mut().ok_or_else(|| io::Error::other("containerd has ended"))?;
        writeln!(commands, "{command}")?;
        self.answer(command)
    }

    fn answer(&mut self, expected: &str) -> io::Result<()> {
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        if answer.trim_end() != expected {
            return Err(io::Error::other(format!(
                "containerd cannot be started here: {answer}{}",
                self.log()
            )));
        }
        Ok(())
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        // The end of its input ends everything.
        self.commands = None;
        let _ = self.shell.wait();
    }
}

/// A new directory, short enough for sockets. The shell removes it.
fn temporary_directory() -> io::Result<PathBuf> {
    let output = Command::new("mktemp").args(["-d", "/tmp/kube-gc-containerd.XXXXXX"]).output()?;
    if !output.status.success() {
        return Err(io::Error::other("mktemp failed"));
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim_end()))
}

/// The configuration: nothing outside of the directory, no network, no control groups.
fn config(directory: &Path) -> String {
    let directory = directory.display();
    format!(
        r#"version = 2
root = "{directory}/root"
state = "{directory}/state"
disabled_plugins = [
  "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.overlayfs",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp",
]

[grpc]
address = "{directory}/containerd.sock"

[ttrpc]
address = "{directory}/containerd.ttrpc"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
disable_apparmor = true
disable_cgroup = true
restrict_oom_score_adj = true
stream_server_address = "127.0.0.1"
stream_server_port = "0"

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{directory}/cni"
conf_dir = "{directory}/cni"
"#
    )
}
