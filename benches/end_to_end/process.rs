//! A collector as a child process.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::proc::{self, CPU_STEP, Memory};

/// The time limit for a collector to do what is expected.
const DEADLINE: Duration = Duration::from_secs(300);
/// How many lines of the log a failure shows.
const TAIL: usize = 40;

/// A line of the log, and when it arrived.
type Line = (Instant, String);

#[derive(Debug, Default)]
struct Log {
    lines: Vec<Line>,
    closed: bool,
}

/// A running collector. It ends when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: watch::Receiver<Log>,
    begun: Instant,
}

impl Process {
    /// Starts it, without variables of our environment that it could take for settings.
    pub fn start(command: &mut Command) -> Result<Self> {
        command.env_clear();
        for name in ["PATH", "HOME", "TMPDIR"] {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        let begun = Instant::now();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", command.get_program().display()))?;
        let (sender, log) = watch::channel(Log::default());
        let stderr = child.stderr.take().context("no pipe from the collector")?;
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                sender.send_modify(|log| log.lines.push((Instant::now(), line)));
            }
            sender.send_modify(|log| log.closed = true);
        });
        Ok(Self { child, log, begun })
    }

    /// When it was started.
    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// Waits for a log line, and returns it with the time of its arrival.
    pub async fn logged(&self, is_it: impl Fn(&str) -> bool) -> Result<Line> {
        let mut log = self.log.clone();
        let find = |log: &Log| log.lines.iter().find(|(_, line)| is_it(line)).cloned();
        let line = timeout(DEADLINE, log.wait_for(|log| log.closed || find(log).is_some())).await;
        let found = match line {
            Ok(Ok(log)) => find(&log),
            Ok(Err(_)) | Err(_) => None,
        };
        match found {
            Some(line) => Ok(line),
            None => bail!("the collector did not say what was waited for:\n{}", self.tail()),
        }
    }

    /// Its CPU time so far.
    pub fn cpu(&self) -> Result<Duration> {
        proc::cpu(self.child.id()).with_context(|| format!("the collector has ended:\n{}", self.tail()))
    }

    /// Its memory.
    pub fn memory(&self) -> Result<Memory> {
        proc::memory(self.child.id())
    }

    /// Waits until it is at rest, by its CPU time.
    pub async fn quiet(&self) -> Result<()> {
        let rest = at_rest(|| self.cpu(), CPU_STEP, DEADLINE).await;
        rest.with_context(|| format!("the collector does not come to rest:\n{}", self.tail()))
    }

    /// The last lines of its log.
    fn tail(&self) -> String {
        let log = self.log.borrow();
        let skipped = log.lines.len().saturating_sub(TAIL);
        log.lines[skipped..].iter().map(|(_, line)| format!("    {line}\n")).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The length of an interval.
const INTERVAL: Duration = Duration::from_millis(150);
/// How many idle intervals in a row mean rest.
const INTERVALS: u32 = 3;

/// Waits until a CPU time has grown by no more than this in each of three intervals of 150 ms.
///
/// # Errors
///
/// The CPU time cannot be read, or the deadline has passed.
pub async fn at_rest(cpu: impl Fn() -> Result<Duration>, most: Duration, deadline: Duration) -> Result<()> {
    let begun = Instant::now();
    let mut before = cpu()?;
    let mut quiet = 0;
    while quiet < INTERVALS {
        ensure!(begun.elapsed() < deadline, "not in {} s", deadline.as_secs());
        sleep(INTERVAL).await;
        let now = cpu()?;
        quiet = if now.saturating_sub(before) <= most { quiet + 1 } else { 0 };
        before = now;
    }
    Ok(())
}
