//! What each key may be set to.

use std::time::Duration;

use tracing_subscriber::EnvFilter;

use super::Settings;

/// The bounds of one key.
pub(super) struct Rule {
    /// The key, with its section.
    pub(super) key: &'static str,
    /// What is allowed, to follow "it must be".
    pub(super) allowed: &'static str,
    /// Whether a value of the right type is within the bounds.
    pub(super) holds: fn(&Settings) -> bool,
}

const fn rule(key: &'static str, allowed: &'static str, holds: fn(&Settings) -> bool) -> Rule {
    Rule { key, allowed, holds }
}

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

const HOUR: Duration = Duration::from_secs(3600);

const WORKERS: &str = "a whole number from 1 to 1000";
const TIMEOUT: &str = r#"a duration from "100ms" to "1h", with its unit"#;
const UP_TO_AN_HOUR: &str = r#"a duration from "0s" to "1h", with its unit"#;
const MIN_PAUSE: &str = r#"a duration from "1ms" to the longest pause that is set, with its unit"#;
const MAX_PAUSE: &str = r#"a duration up to "1h", with its unit"#;

/// One rule for each key; a test sees to that.
pub(super) const RULES: &[Rule] = &[
    rule("dry_run", "true or false", |_| true),
    rule("workers.delete", WORKERS, |s| (1..=1000).contains(&s.workers.delete)),
    rule("workers.orphan", WORKERS, |s| (1..=1000).contains(&s.workers.orphan)),
    rule("graph.partitions", "a whole number from 0 (one for each core) to 1024", |s| {
        s.graph.partitions <= 1024
    }),
    rule("graph.absent_owner_capacity", "a whole number from 1 to 10000000", |s| {
        (1..=10_000_000).contains(&s.graph.absent_owner_capacity)
    }),
    rule("discovery.interval", TIMEOUT, |s| (millis(100)..=HOUR).contains(&s.discovery.interval)),
    rule(
        "discovery.ignored",
        r#"a list of resource types such as ["events", "jobs.batch"] (in a variable: events,jobs.batch)"#,
        |_| true,
    ),
    rule("watch.page_size", "a whole number from 1 to 100000", |s| {
        (1..=100_000).contains(&s.watch.page_size)
    }),
    rule("watch.max_backoff", MAX_PAUSE, |s| s.watch.max_backoff <= HOUR),
    rule("watch.min_backoff", MIN_PAUSE, |s| {
        (millis(1)..=s.watch.max_backoff).contains(&s.watch.min_backoff)
    }),
    rule("retry.max", MAX_PAUSE, |s| s.retry.max <= HOUR),
    rule("retry.min", MIN_PAUSE, |s| (millis(1)..=s.retry.max).contains(&s.retry.min)),
    rule("startup.sync_timeout", UP_TO_AN_HOUR, |s| s.startup.sync_timeout <= HOUR),
    rule("client.qps", "a whole number from 0 (no limit) to 100000", |s| s.client.qps <= 100_000),
    rule("client.burst", "a whole number from 0 (as many as `client.qps`) to 100000", |s| {
        s.client.burst <= 100_000
    }),
    rule("client.request_timeout", TIMEOUT, |s| (millis(100)..=HOUR).contains(&s.client.request_timeout)),
    rule("shutdown.grace", UP_TO_AN_HOUR, |s| s.shutdown.grace <= HOUR),
    rule("http.listen", r#"an address with a port, such as "127.0.0.1:8080" (port 0: any free one)"#, |_| {
        true
    }),
    rule(
        "http.debug_listen",
        r#"an address with a port, such as "127.0.0.1:8081" (port 0: any free one), other than `http.listen`"#,
        |s| s.http.debug_listen.port() == 0 || s.http.debug_listen != s.http.listen,
    ),
    rule("log.format", r#""text" or "json""#, |_| true),
    rule(
        "log.filter",
        r#"a level (error, warn, info, debug or trace), or levels by module such as "info,kube_gc=debug""#,
        |s| !s.log.filter.is_empty() && EnvFilter::try_new(&s.log.filter).is_ok(),
    ),
];

/// What a key may be set to.
pub(super) fn allowed(key: &str) -> &'static str {
    // Elements of a list are named with their index.
    let key = key.split('[').next().unwrap_or(key);
    RULES.iter().find(|rule| rule.key == key).map_or("what config/default.toml says", |rule| rule.allowed)
}
