//! The process of a collector: signals, and its end.

use super::*;

impl Collector {
    /// Suspends the process until the signal `CONT`.
    pub async fn freeze(&self) -> Result<()> {
        self.signal("STOP")?;
        // The signal takes effect when a thread receives it.
        poll("all threads of the collector to stop", async || {
            let mut all = true;
            for thread in std::fs::read_dir(format!("/proc/{}/task", self.pid))? {
                // A state that cannot be read is that of a process that has just ended.
                let stat = std::fs::read_to_string(thread?.path().join("stat")).unwrap_or_default();
                // The state follows the name, which may contain any characters.
                all &= stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'));
            }
            Ok(all)
        })
        .await
    }

    /// Sends a signal by its name: `STOP`, `CONT`.
    pub fn signal(&self, name: &str) -> Result<()> {
        signal(&self.pid.to_string(), name)
    }

    /// Stops it with SIGTERM, and fails unless it exits with code 0.
    pub async fn stop(mut self) -> Result<()> {
        self.signal("TERM")?;
        let status = self.wait().await?;
        ensure!(status.success(), "the collector ended with {status} on SIGTERM");
        self.ended = true;
        Ok(())
    }

    /// Kills it with SIGKILL.
    pub fn kill(mut self) -> Result<()> {
        self.child().kill()?;
        self.child().wait()?;
        self.ended = true;
        Ok(())
    }

    /// Waits for the end of the process.
    pub async fn wait(&self) -> Result<ExitStatus> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child().try_wait()? {
                return Ok(status);
            }
            ensure!(Instant::now() < deadline, "the collector did not end");
            sleep(POLL).await;
        }
    }

    pub(super) fn child(&self) -> MutexGuard<'_, Child> {
        lock(&self.child)
    }
}

/// Sends a process a signal by its name.
pub(crate) fn signal(pid: &str, name: &str) -> Result<()> {
    // The `kill` of the shell needs neither unsafe code nor a crate.
    let status = Command::new("sh").args(["-c", r#"kill -s "$1" "$2""#, "sh", name, pid]).status()?;
    ensure!(status.success(), "cannot send SIG{name} to the process {pid}");
    Ok(())
}
