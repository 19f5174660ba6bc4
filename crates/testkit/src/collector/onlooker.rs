//! A collector in a dry run, beside one that does the work.

use super::*;

/// How long the other collector may take.
const GRACE: &str = "[comparison]\ngrace = \"30s\"\n";

/// What a dry run has compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Comparisons {
    /// Somebody else did it.
    pub agreed: f64,
    /// Nobody did it.
    pub disagreed: f64,
    /// It is not to be done any more.
    pub overtaken: f64,
    /// Not compared.
    pub dropped: f64,
    /// Not settled yet.
    pub pending: f64,
}

impl Options {
    /// For one that only looks on at another, with which it is to agree.
    #[must_use]
    pub fn looking_on(mut self) -> Self {
        self.config = Some(self.config.unwrap_or_default() + GRACE);
        self.looks_on = true;
        self.arg("--dry-run")
    }
}

impl Collector {
    /// Whether it was started to look on.
    pub fn looks_on(&self) -> bool {
        self.looks_on
    }

    /// What it has compared.
    pub async fn comparisons(&self) -> Result<Comparisons> {
        let mut compared = Comparisons::default();
        for (series, value) in self.metrics().await? {
            let is = |result: &str| series.contains(&format!("result=\"{result}\""));
            match series.split('{').next() {
                Some("kube_gc_comparisons_pending") => compared.pending = value,
                Some("kube_gc_comparisons_total") if is("agreed") => compared.agreed += value,
                Some("kube_gc_comparisons_total") if is("disagreed") => compared.disagreed += value,
                Some("kube_gc_comparisons_total") if is("overtaken") => compared.overtaken += value,
                Some("kube_gc_comparisons_total") if is("dropped") => compared.dropped += value,
                _ => {}
            }
        }
        Ok(compared)
    }

    /// Waits until everything that it would have done is settled.
    pub async fn has_compared(&self, within: Duration) -> Result<()> {
        let deadline = Instant::now() + within;
        loop {
            let compared = self.comparisons().await?;
            if compared.pending == 0.0 {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "not settled after {within:?}: {compared:?}");
            sleep(POLL).await;
        }
    }

    /// The lines of its log that somebody should look at.
    pub fn alarms(&self) -> Vec<String> {
        let is_alarm = |line: &&String| {
            let entry: Value = serde_json::from_str(line).unwrap_or_default();
            !matches!(entry["level"].as_str(), Some("INFO" | "DEBUG" | "TRACE"))
        };
        self.log.borrow().lines.iter().filter(is_alarm).cloned().collect()
    }

    /// Fails if it would have done anything that the other collector has not done, or
    /// raised an alarm.
    pub async fn agrees(&self) -> Result<()> {
        let compared = self.comparisons().await?;
        ensure!(compared.disagreed == 0.0 && compared.dropped == 0.0, "{compared:?}");
        let alarms = self.alarms();
        ensure!(alarms.is_empty(), "alarms:\n{}", alarms.join("\n"));
        Ok(())
    }
}
