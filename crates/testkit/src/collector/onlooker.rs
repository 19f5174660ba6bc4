//! A collector in a dry run next to one that does the work.

use super::*;

/// The time limit of the other collector.
const GRACE: &str = "[comparison]\ngrace = \"30s\"\n";

/// The results of the comparison of a dry run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Comparisons {
    /// Another client did it.
    pub agreed: f64,
    /// No client did it.
    pub disagreed: f64,
    /// It is no longer necessary.
    pub overtaken: f64,
    /// Not compared.
    pub dropped: f64,
    /// Not decided yet.
    pub pending: f64,
}

impl Options {
    /// Options of a collector that only observes another one, with which it must agree.
    #[must_use]
    pub fn looking_on(mut self) -> Self {
        self.config = Some(self.config.unwrap_or_default() + GRACE);
        self.looks_on = true;
        self.arg("--dry-run")
    }
}

impl Collector {
    /// Whether it was started as an observer.
    pub fn looks_on(&self) -> bool {
        self.looks_on
    }

    /// The results of its comparison.
    pub async fn comparisons(&self) -> Result<Comparisons> {
        let metrics = self.metrics().await?;
        let sum = |name: &str, label: &str| {
            let are = metrics.iter().filter(|(series, _)| series.starts_with(name) && series.contains(label));
            are.map(|(_, value)| value).sum()
        };
        let of = |result: &str| sum("kube_gc_comparisons_total{", &format!("result=\"{result}\""));
        Ok(Comparisons {
            agreed: of("agreed"),
            disagreed: of("disagreed"),
            overtaken: of("overtaken"),
            dropped: of("dropped"),
            pending: sum("kube_gc_comparisons_pending", ""),
        })
    }

    /// Waits until all its decisions are compared.
    pub async fn has_compared(&self) -> Result<()> {
        poll("the comparisons", async || Ok(self.comparisons().await?.pending == 0.0)).await
    }

    /// The log lines that need attention.
    pub fn alarms(&self) -> Vec<String> {
        let is_alarm = |line: &&String| {
            let entry: Value = serde_json::from_str(line).unwrap_or_default();
            !matches!(entry["level"].as_str(), Some("INFO" | "DEBUG" | "TRACE"))
        };
        self.log.borrow().lines.iter().filter(is_alarm).cloned().collect()
    }

    /// Fails if it would have done anything that the other collector did not do, or if it raised an
    /// alarm.
    pub async fn agrees(&self) -> Result<()> {
        let compared = self.comparisons().await?;
        ensure!(compared.disagreed == 0.0 && compared.dropped == 0.0, "{compared:?}");
        let alarms = self.alarms();
        ensure!(alarms.is_empty(), "alarms:\n{}", alarms.join("\n"));
        Ok(())
    }
}
