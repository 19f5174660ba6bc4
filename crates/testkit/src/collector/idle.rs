//! Waits until the collector has nothing left to do.

use super::*;

/// The work that may be left when a collector has settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// None.
    Empty,
    /// Some objects wait for their next attempt after a failure.
    Parked,
    /// The same, and objects of this type, such as `widgets.example.com`, keep failing.
    FailingOf(&'static str),
}

impl Collector {
    /// Waits until it has seen this version of a type, such as `widgets.example.com`.
    pub async fn sees(&self, resource: &str, version: &str) -> Result<()> {
        let path = format!("/debug/idle?seen={resource}%3D{version}");
        poll(&format!("version {version} of {resource} to be seen"), async || {
            let report = self.get_debug(&path).await?.json()?;
            Ok(report["not_seen"].as_array().is_some_and(Vec::is_empty))
        })
        .await
    }

    /// Waits until the collector has nothing to do and has seen each of these resources at the
    /// given resourceVersion or later.
    pub async fn idle(&self, seen: &[(String, String)]) -> Result<()> {
        self.idle_within(DEADLINE, seen, Rest::Empty).await
    }

    /// Like [`idle`](Self::idle), with another deadline, and with work that may be left.
    pub async fn idle_within(&self, within: Duration, seen: &[(String, String)], rest: Rest) -> Result<()> {
        let path = idle_path(seen, rest);
        let deadline = Instant::now() + within;
        loop {
            // A type that fails is looked at in between.
            let left = deadline.saturating_duration_since(Instant::now());
            let patience = if matches!(rest, Rest::FailingOf(_)) { Duration::ZERO } else { left };
            let answer = self.poll_until_ok(&self.debug, &path, patience).await;
            match (answer, rest) {
                (Ok(answer), _) => {
                    ensure!(answer.json()?["idle"] == true, "200, but not idle: {}", answer.body);
                    return Ok(());
                }
                (Err(_), Rest::FailingOf(failing)) if self.only_fails(&path, failing).await? => return Ok(()),
                (Err(_), Rest::FailingOf(_)) if Instant::now() < deadline => sleep(POLL).await,
                (Err(error), _) => return Err(error.context("the collector is not idle")),
            }
        }
    }

    /// Whether the only remaining work is to retry failing objects of one type.
    async fn only_fails(&self, path: &str, failing: &str) -> Result<bool> {
        let idle = self.get_debug(path).await?.json()?;
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

fn idle_path(seen: &[(String, String)], rest: Rest) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(seen.iter().map(|(resource, version)| ("seen", format!("{resource}={version}"))));
    if rest != Rest::Empty {
        query.append_pair("parked", "ok");
    }
    format!("/debug/idle?{}", query.finish())
}
