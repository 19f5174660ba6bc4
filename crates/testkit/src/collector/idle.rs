//! Waits until the collector has nothing left to do.

use super::*;

impl Collector {
    /// Waits until the collector has nothing to do and has seen each of these resources at the
    /// given resourceVersion or later.
    pub async fn idle(&self, seen: &[(String, String)]) -> Result<()> {
        self.idle_within(DEADLINE, seen, false).await
    }

    /// Like [`idle`](Self::idle), but ignores objects that wait for their next attempt after a
    /// failure.
    pub async fn idle_with_parked(&self, seen: &[(String, String)]) -> Result<()> {
        self.idle_within(DEADLINE, seen, true).await
    }

    /// Like [`idle`](Self::idle), with another deadline.
    pub async fn idle_within(
        &self,
        deadline: Duration,
        seen: &[(String, String)],
        parked: bool,
    ) -> Result<()> {
        let path = idle_path(seen, parked);
        let answer =
            self.poll_until_ok(&self.debug, &path, deadline).await.context("the collector is not idle")?;
        ensure!(answer.json()?["idle"] == true, "200, but not idle: {}", answer.body);
        Ok(())
    }

    /// Like [`idle_within`](Self::idle_within), but also ignores objects of one type, such as
    /// `widgets.example.com`, that keep failing.
    pub async fn idle_but_for(
        &self,
        deadline: Duration,
        seen: &[(String, String)],
        failing: &str,
    ) -> Result<()> {
        let deadline = Instant::now() + deadline;
        loop {
            let Err(error) = self.idle_within(Duration::ZERO, seen, true).await else { return Ok(()) };
            if self.only_fails(seen, failing).await? {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, error.context(format!("not only {failing} fails")));
            sleep(POLL).await;
        }
    }

    /// Whether the only remaining work is to retry failing objects of one type.
    async fn only_fails(&self, seen: &[(String, String)], failing: &str) -> Result<bool> {
        let idle = self.get_debug(&idle_path(seen, true)).await?.json()?;
        let queues = self.get_debug("/debug/queues").await?.json()?;
        let queues = queues.as_array().context("no queues")?;
        let is_of_type = |item: &&Value| {
            let is_failed = |error: &str| error.starts_with("failed: ");
            item["object"]["resource"] == failing && item["last_error"].as_str().is_some_and(is_failed)
        };
        let items = queues.iter().filter_map(|queue| queue["failing"].as_array()).flatten();
        let of_type = items.filter(is_of_type).count();
        let counts = idle["queues"].as_object().context("no counts")?;
        let sum = |field: &str| counts.values().filter_map(|counts| counts[field].as_u64()).sum::<u64>();
        Ok(sum("ready") + sum("processing") == 0
            && sum("delayed") == u64::try_from(of_type)?
            && idle["unseen_writes"] == 0
            && idle["not_seen"].as_array().is_some_and(Vec::is_empty))
    }
}

fn idle_path(seen: &[(String, String)], parked: bool) -> String {
    let mut path = "/debug/idle".to_owned();
    let mut separator = '?';
    for (resource, version) in seen {
        let _ = write!(path, "{separator}seen={}", percent_encoded(&format!("{resource}={version}")));
        separator = '&';
    }
    if parked {
        let _ = write!(path, "{separator}parked=ok");
    }
    path
}
