//! The values that each key may have.

use std::path::Path;
use std::time::Duration;

use tracing_subscriber::filter::{LevelFilter, Targets};

use super::node::{is_endpoint, is_pattern, is_root};
use super::{Listeners, Settings};

/// The bounds of one key.
pub(super) struct Rule {
    /// The key, with its section.
    pub(super) key: &'static str,
    /// The values that are allowed; follows "it must be" in the error.
    pub(super) allowed: &'static str,
    /// Whether the settings are within the bounds.
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
const LISTENERS: &str = r#""none", "health", "debug" or "both""#;
const TIMEOUT: &str = r#"a duration from "100ms" to "1h", with its unit"#;
const UP_TO_AN_HOUR: &str = r#"a duration from "0s" to "1h", with its unit"#;
const MIN_PAUSE: &str = r#"a duration with its unit, from "1ms" to the maximum of this backoff"#;
const AGE: &str = r#"a duration from "0s" to "366d", with its unit"#;
const DEAD: &str = "a whole number from -1 (all stay) to 1000000";
const PERIOD: &str = r#"a duration from "1s" to "1d", with its unit"#;
const FREE: &str = "a whole percentage from 0 to 99";
const ROOT: &str = "an absolute path of at least two parts, without `.` and `..`";
const STUCK_AFTER: &str = r#"a duration from "1s" to "24h", with its unit, or "0s""#;
const DAY: Duration = Duration::from_secs(24 * 3600);
const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);
const MAX_PAUSE: &str = r#"a duration up to "1h", with its unit"#;

/// The rules: one for each key, which a test checks.
pub(super) const RULES: &[Rule] = &[
    rule("dry_run", "true or false", |_| true),
    rule("finish_namespaces", "true or false", |_| true),
    rule("namespaces.quiet", UP_TO_AN_HOUR, |s| s.namespaces.quiet <= HOUR),
    rule("comparison.grace", TIMEOUT, |s| (millis(100)..=HOUR).contains(&s.comparison.grace)),
    rule("workers.delete", WORKERS, |s| (1..=1000).contains(&s.workers.delete)),
    rule("workers.orphan", WORKERS, |s| (1..=1000).contains(&s.workers.orphan)),
    rule("workers.release", WORKERS, |s| (1..=1000).contains(&s.workers.release)),
    rule("events.stuck_after", STUCK_AFTER, |s| {
        s.events.stuck_after.is_zero() || (millis(1000)..=DAY).contains(&s.events.stuck_after)
    }),
    rule("graph.partitions", "a whole number from 0 (one for each core, at most 8) to 1024", |s| {
        s.graph.partitions <= 1024
    }),
    rule("graph.threads", r#""auto", "own" or "shared""#, |_| true),
    rule("graph.absent_owner_capacity", "a whole number from 1 to 10000000", |s| {
        (1..=10_000_000).contains(&s.graph.absent_owner_capacity)
    }),
    rule("graph.birth_grace", r#"a duration from "0s" to "1m", with its unit"#, |s| {
        s.graph.birth_grace <= Duration::from_secs(60)
    }),
    rule("discovery.orphan_wait", UP_TO_AN_HOUR, |s| s.discovery.orphan_wait <= HOUR),
    rule("discovery.interval", TIMEOUT, |s| (millis(100)..=HOUR).contains(&s.discovery.interval)),
    rule(
        "discovery.ignored",
        r#"a list of resource types such as ["events", "jobs.batch"] (in a variable: events,jobs.batch)"#,
        |_| true,
    ),
    rule("watch.page_size", "a whole number from 1 to 100000", |s| {
        (1..=100_000).contains(&s.watch.page_size)
    }),
    rule("watch.streaming_lists", "true or false", |_| true),
    rule("watch.list_threads", "a whole number from 0 (one for each core, at most 4) to 256", |s| {
        s.watch.list_threads <= 256
    }),
    rule("watch.max_backoff", MAX_PAUSE, |s| s.watch.max_backoff <= HOUR),
    rule("watch.min_backoff", MIN_PAUSE, |s| {
        (millis(1)..=s.watch.max_backoff).contains(&s.watch.min_backoff)
    }),
    rule("retry.max", MAX_PAUSE, |s| s.retry.max <= HOUR),
    rule("retry.min", MIN_PAUSE, |s| (millis(1)..=s.retry.max).contains(&s.retry.min)),
    rule("leader.enabled", "true or false", |_| true),
    rule(
        "leader.namespace",
        "the name of a namespace, or empty (that of the pod or of the kubeconfig)",
        |s| s.leader.namespace.is_empty() || is_label(&s.leader.namespace),
    ),
    rule("leader.name", "the name of a Lease, such as \"kube-gc\"", |s| is_name(&s.leader.name)),
    rule(
        "leader.identity",
        "a text of at most 200 printable ASCII characters without spaces, or empty",
        |s| s.leader.identity.len() <= 200 && s.leader.identity.chars().all(|c| c.is_ascii_graphic()),
    ),
    rule("leader.lease_duration", r#"a duration in whole seconds from "1s" to "1h", with its unit"#, |s| {
        s.leader.lease_duration.subsec_nanos() == 0
            && (millis(1000)..=HOUR).contains(&s.leader.lease_duration)
    }),
    rule("leader.renew_deadline", "a duration shorter than `leader.lease_duration`, with its unit", |s| {
        s.leader.renew_deadline < s.leader.lease_duration
    }),
    rule(
        "leader.retry_period",
        r#"a duration with its unit, from "10ms" and shorter than `leader.renew_deadline` divided by 1.2"#,
        |s| {
            s.leader.retry_period >= millis(10)
                && s.leader.retry_period.mul_f64(1.2) < s.leader.renew_deadline
        },
    ),
    rule("brake.deletions_per_minute", "a whole number from 0 (no limit) to 1000000", |s| {
        s.brake.deletions_per_minute <= 1_000_000
    }),
    rule("brake.namespace_deletions_per_minute", "a whole number from 0 (no limit) to 1000000", |s| {
        s.brake.namespace_deletions_per_minute <= 1_000_000
    }),
    rule("brake.percent", "a whole number from 0 (no limit) to 100", |s| s.brake.percent <= 100),
    rule("brake.percent_floor", "a whole number from 0 to 1000000", |s| s.brake.percent_floor <= 1_000_000),
    rule("brake.window", r#"a duration from "1s" to "24h", with its unit"#, |s| {
        (millis(1000)..=24 * HOUR).contains(&s.brake.window)
    }),
    rule("startup.sync_timeout", UP_TO_AN_HOUR, |s| s.startup.sync_timeout <= HOUR),
    rule("client.qps", "a whole number from 0 (no limit) to 100000", |s| s.client.qps <= 100_000),
    rule("client.burst", "a whole number from 0 (as many as `client.qps`) to 100000", |s| {
        s.client.burst <= 100_000
    }),
    rule("client.encoding", r#""protobuf" or "json""#, |_| true),
    rule("client.compression", "true or false", |_| true),
    rule("client.watch_protocol", r#""http2" or "http1""#, |_| true),
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
    rule(
        "http.hosts",
        r#"a list of names without ports, such as ["kube-gc.example.com"] (in a variable: a.example.com,b.example.com)"#,
        |s| s.http.hosts.iter().all(|host| is_host(host)),
    ),
    // Each rule reports the key that the user has set.
    rule(
        "tls.listeners",
        r#""none" or, with `tls.certificate` and `tls.key` set, "health", "debug" or "both""#,
        |s| s.tls.listeners == Listeners::None || (is_set(&s.tls.certificate) && is_set(&s.tls.key)),
    ),
    rule("tls.certificate", "the path of a PEM file, with `tls.key` set, or empty", |s| {
        !is_set(&s.tls.certificate) || is_set(&s.tls.key)
    }),
    rule("tls.key", "the path of a PEM file, with `tls.certificate` set, or empty", |s| {
        !is_set(&s.tls.key) || is_set(&s.tls.certificate)
    }),
    rule("access.listeners", LISTENERS, |_| true),
    rule("debug.decisions", "a whole number from 0 (keep none) to 100000", |s| s.debug.decisions <= 100_000),
    rule("log.format", r#""text" or "json""#, |_| true),
    rule("log.decisions", r#""auto", "all", "summaries" or "none""#, |_| true),
    rule(
        "log.filter",
        r#"a level (off, error, warn, info, debug or trace), or levels by module such as "info,kube_gc=debug""#,
        |s| is_log_filter(&s.log.filter),
    ),
    rule(
        "node.runtime_endpoint",
        r#"the socket of a container runtime, such as "unix:///run/containerd/containerd.sock", or empty (the only one that exists)"#,
        |s| is_endpoint(&s.node.runtime_endpoint),
    ),
    rule("node.name", "the name of a node, or empty (the hostname)", |s| {
        s.node.name.is_empty() || is_name(&s.node.name)
    }),
    rule("node.pods", r#""api" or "none""#, |_| true),
    rule("node.state", "the absolute path of a file", |s| {
        s.node.state.is_absolute() && s.node.state.file_name().is_some()
    }),
    rule("node.beside_kubelet", r#""nothing", "images" or "all""#, |_| true),
    rule("node.min_age", AGE, |s| s.node.min_age <= YEAR),
    rule("node.max_per_container", DEAD, |s| (-1..=1_000_000).contains(&s.node.max_per_container)),
    rule("node.max_total", DEAD, |s| (-1..=1_000_000).contains(&s.node.max_total)),
    rule("node.high", "a whole percentage from 1 to 100", |s| (1..=100).contains(&s.node.high)),
    rule("node.low", "a whole percentage from 0, below `node.high`", |s| s.node.low < s.node.high),
    rule("node.period", PERIOD, |s| (millis(1000)..=DAY).contains(&s.node.period)),
    rule("node.images.min_age", AGE, |s| s.node.images.min_age <= YEAR),
    rule("node.images.max_age", r#"a duration up to ten years, with its unit; "0s" means no limit"#, |s| {
        s.node.images.max_age <= 10 * YEAR
    }),
    rule(
        "node.images.keep",
        "a list of at most 256 names of images without spaces and commas, in which `*` stands for any text",
        |s| s.node.images.keep.len() <= 256 && s.node.images.keep.iter().all(|pattern| is_pattern(pattern)),
    ),
    rule("node.images.keep_local", "true or false", |_| true),
    rule("node.images.period", PERIOD, |s| (millis(1000)..=DAY).contains(&s.node.images.period)),
    rule("node.pressure.enabled", "true or false", |_| true),
    rule("node.pressure.bytes", FREE, |s| s.node.pressure.bytes <= 99),
    rule("node.pressure.inodes", FREE, |s| s.node.pressure.inodes <= 99),
    rule("node.roots.pods", ROOT, |s| is_root(&s.node.roots.pods)),
    rule(
        "node.roots.containers",
        "an absolute path of at least two parts, without `.` and `..`, other than `node.roots.pods`",
        |s| is_root(&s.node.roots.containers) && s.node.roots.containers != s.node.roots.pods,
    ),
];

fn is_host(name: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    name.len() <= 253 && name.split('.').all(|label| !label.is_empty() && label.bytes().all(fine))
}

fn is_set(path: &Path) -> bool {
    !path.as_os_str().is_empty()
}

/// Whether a log filter is likely to be what its author meant.
///
/// `tracing_subscriber` takes any word that is not a level for the name of a module, and then
/// logs only that module: "loud" and "verbose" would silence the log. So a module must have a
/// level or belong to this program. "kube-gc=debug" would silence it, too: no module has such a
/// name. So the filter must say something about this program, if only by a level for all.
fn is_log_filter(text: &str) -> bool {
    let is_level = |directive: &str| !directive.is_empty() && directive.parse::<LevelFilter>().is_ok();
    let is_ours = |directive: &str| directive.starts_with(env!("CARGO_CRATE_NAME"));
    let is_module = |directive: &str| directive.contains('=') && !directive.contains('-');
    let mut directives = text.split(',').map(str::trim);
    directives.clone().all(|directive| is_level(directive) || is_ours(directive) || is_module(directive))
        && directives.any(|directive| is_level(directive) || is_ours(directive))
        // Spans and fields, of which this program has none.
        && !text.contains('[')
        && text.parse::<Targets>().is_ok()
}

/// Whether this is a valid name of a namespace: a DNS label.
fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let ends = |byte: Option<&u8>| byte.is_some_and(|byte| *byte != b'-');
    let bytes = text.as_bytes();
    bytes.len() <= 63 && bytes.iter().copied().all(inner) && ends(bytes.first()) && ends(bytes.last())
}

/// Whether this is a valid name of an object: a DNS subdomain.
fn is_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

/// The values that a key may have.
pub(super) fn allowed(key: &str) -> &'static str {
    // The key of a list's element has an index.
    let key = key.split('[').next().unwrap_or(key);
    RULES.iter().find(|rule| rule.key == key).map_or("what config/default.toml says", |rule| rule.allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_filter_names_levels_and_not_just_any_word() {
        for filter in [
            "info",
            "WARN",
            "off",
            "info,kube_gc=debug",
            "info,kube_gc::api=trace",
            "kube_gc",
            "kube_gc::api",
            "off,hyper=debug",
            "kube_gc=debug,hyper=warn",
        ] {
            assert!(is_log_filter(filter), "{filter}");
        }
        let silent = ["kube-gc=debug", "hyper=debug", "loud=info"];
        let wrong = [
            "",
            "loud",
            "verbose",
            "info,loud",
            "info,",
            "kube_gc=loud",
            "INFO DEBUG",
            "info,kube_gc[a]=debug",
        ];
        for filter in silent.into_iter().chain(wrong).chain(["info,kube-gc=debug"]) {
            assert!(!is_log_filter(filter), "{filter}");
        }
    }
}
