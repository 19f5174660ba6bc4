//! The checks of `/readyz`.

use kube_gc_observe::readiness::{Check, Readiness};
use kube_gc_observe::telemetry::Timestamp;

use super::view::{MonitorStatus, Undiscovered};

/// The inputs of [`assess`].
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// `Ok` once discovery has succeeded; otherwise its error, or that it has not finished.
    pub discovery: Result<(), &'a str>,
    /// Whether the workers have started: all monitors were synced, or the start-up timeout has
    /// passed.
    pub started: bool,
    /// When the process started.
    pub since: Timestamp,
    /// Every monitor.
    pub monitors: &'a [MonitorStatus],
    /// The parts of the API that cannot be discovered.
    pub undiscovered: &'a [Undiscovered],
    /// The warnings of [`Settings::ignored_type_warnings`](kube_gc_config::Settings::ignored_type_warnings).
    pub ignored: &'a [String],
    /// Why namespaces cannot be finished; `None` if nothing is known.
    pub namespaces: Option<String>,
    /// Why the brake is engaged; `None` if it is not.
    pub brake: Option<&'a str>,
    /// Why the API server cannot be reached now.
    pub outage: Option<String>,
    /// Since when the API server has refused the credentials, and why; `None` if it accepts them.
    pub refused: Option<(Timestamp, String)>,
    /// Whether this replica leads, in words; `None` without an election.
    pub leadership: Option<String>,
    /// In a dry run: how many decisions another collector carried out, and how many it did not.
    pub compared: Option<(u64, u64)>,
}

/// The collector is ready once discovery has succeeded and the graph is synced or the
/// start-up timeout has passed. A type that cannot sync, or a group that cannot be
/// discovered, is only a warning: collection of all other types must not depend on it.
pub(super) fn assess(facts: &Facts<'_>) -> Readiness {
    let mut checks = Vec::new();
    checks.push(match facts.discovery {
        Ok(()) => Check::fine("discovery"),
        Err(why) => Check::failed("discovery", why),
    });
    let unsynced = facts.monitors.iter().filter(|monitor| !monitor.synced).count();
    checks.push(if facts.started && facts.discovery.is_ok() {
        sync(facts.monitors)
    } else if facts.discovery.is_err() {
        Check::failed("sync", format!("waiting for discovery since {}", facts.since))
    } else {
        let all = facts.monitors.len();
        Check::failed(
            "sync",
            format!("{unsynced} of {all} resource types are not synced, waiting since {}", facts.since),
        )
    });
    // A standby is ready. Otherwise, a rolling update would wait for it forever.
    checks.extend(facts.leadership.as_ref().map(|role| Check::fine(format!("leadership: {role}"))));
    let outage = facts.outage.as_ref().map(|why| ("api-server", format!("unreachable: {why}")));
    let refused = facts.refused.as_ref();
    let refused = refused.map(|(since, why)| ("credentials", format!("refused since {since}: {why}")));
    checks.extend(outage.into_iter().chain(refused).map(|(name, why)| Check::warning(name, why)));
    checks.extend(facts.brake.map(|why| Check::warning("brake", why)));
    checks.extend(facts.namespaces.as_ref().map(|why| Check::warning("namespaces", why.as_str())));
    checks.extend(facts.compared.map(comparison));
    checks.extend(facts.undiscovered.iter().map(|part| {
        let Undiscovered { group, version, since, last_error } = part;
        let version = version.as_ref().map(|version| format!("/{version}")).unwrap_or_default();
        let why = format!("not discovered since {since}: {last_error}");
        Check::warning(format!("discovery/{group}{version}"), why)
    }));
    checks.extend(facts.monitors.iter().filter_map(|monitor| {
        let MonitorStatus { version, since, synced, last_error, .. } = monitor;
        let why = match (synced, last_error) {
            (true, None) => return None,
            (true, Some(error)) => {
                format!("{version} has been synced since {since} but cannot be watched now: {error}")
            }
            (false, Some(error)) => format!("{version} has not been synced since {since}: {error}"),
            (false, None) => format!("{version} has not been synced since {since}: no error so far"),
        };
        Some(Check::warning(format!("monitor/{}", monitor.group_resource()), why))
    }));
    checks.extend(facts.ignored.iter().map(|ignored| Check::warning("ignored", ignored.as_str())));
    Readiness { checks }
}

/// A disagreement stays a warning until the process ends, because a person should look at it.
fn comparison((agreed, disagreed): (u64, u64)) -> Check {
    let counts = format!("{agreed} agreed, {disagreed} disagreed");
    match disagreed {
        0 => Check::fine(format!("dry-run: {counts}")),
        _ => Check::warning("dry-run", format!("{counts}; see /debug/decisions")),
    }
}

/// Whether all types are synced and watched, after the start. If not, a restart would not help,
/// and collection of all other types continues.
fn sync(monitors: &[MonitorStatus]) -> Check {
    let all = monitors.len();
    let unsynced = monitors.iter().filter(|monitor| !monitor.synced).map(|monitor| monitor.since);
    let failing = monitors.iter().filter(|monitor| monitor.synced && monitor.last_error.is_some());
    let failing = failing.map(|monitor| monitor.failing_since.unwrap_or(monitor.since));
    let problems = [
        (unsynced.clone().count(), unsynced.min(), "are not synced"),
        (failing.clone().count(), failing.min(), "cannot be watched now"),
    ];
    let problems: Vec<_> = problems
        .into_iter()
        .filter_map(|(count, first, what)| {
            first.map(|since| format!("{count} of {all} resource types {what}, the first since {since}"))
        })
        .collect();
    if problems.is_empty() { Check::fine("sync") } else { Check::warning("sync", problems.join("; ")) }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    fn noon() -> Timestamp {
        Timestamp(SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_176_000))
    }

    fn monitor(synced: bool, last_error: Option<&str>) -> MonitorStatus {
        MonitorStatus {
            group: "example.com".to_owned(),
            version: "v1".to_owned(),
            resource: "widgets".to_owned(),
            synced,
            since: noon(),
            last_error: last_error.map(str::to_owned),
            failing_since: Some(noon()),
        }
    }

    fn facts() -> Facts<'static> {
        Facts {
            discovery: Ok(()),
            started: true,
            since: noon(),
            monitors: &[],
            undiscovered: &[],
            ignored: &[],
            namespaces: None,
            brake: None,
            outage: None,
            refused: None,
            leadership: None,
            compared: None,
        }
    }

    /// Rule 2.15.
    #[test]
    fn a_type_that_cannot_sync_is_named_and_does_not_fail_readiness() {
        let monitors = [
            monitor(true, None),
            monitor(true, Some("refused")),
            monitor(false, Some("conversion webhook failed:\nconnection refused")),
        ];
        let undiscovered = [Undiscovered {
            group: "things.example.com".to_owned(),
            version: Some("v1".to_owned()),
            since: noon(),
            last_error: "service\nunavailable".to_owned(),
        }];
        let ready = assess(&Facts {
            monitors: &monitors,
            undiscovered: &undiscovered,
            ignored: &["jobs.batch is ignored: …".to_owned()],
            leadership: Some("standby of other_1".to_owned()),
            outage: Some("GET /version: cannot connect".to_owned()),
            brake: Some("deletion is paused since noon"),
            namespaces: Some("may not".to_owned()),
            compared: Some((3, 1)),
            ..facts()
        });
        assert!(ready.ready());
        assert_eq!(
            ready.verbose("readyz"),
            "[+]discovery ok\n\
             [!]sync warning: 1 of 3 resource types are not synced, the first since 2026-11-20T12:00:00Z; \
             1 of 3 resource types cannot be watched now, the first since 2026-11-20T12:00:00Z\n\
             [+]leadership: standby of other_1 ok\n\
             [!]api-server warning: unreachable: GET /version: cannot connect\n\
             [!]brake warning: deletion is paused since noon\n\
             [!]namespaces warning: may not\n\
             [!]dry-run warning: 3 agreed, 1 disagreed; see /debug/decisions\n\
             [!]discovery/things.example.com/v1 warning: not discovered since 2026-11-20T12:00:00Z: service unavailable\n\
             [!]monitor/widgets.example.com warning: v1 has been synced since 2026-11-20T12:00:00Z but cannot be \
             watched now: refused\n\
             [!]monitor/widgets.example.com warning: v1 has not been synced since 2026-11-20T12:00:00Z: conversion \
             webhook failed: connection refused\n\
             [!]ignored warning: jobs.batch is ignored: …\n\
             readyz check passed\n"
        );
        assert_eq!(sync(&monitors[..1]), Check::fine("sync"));
        assert_eq!(comparison((3, 0)), Check::fine("dry-run: 3 agreed, 0 disagreed"));
    }

    #[test]
    fn the_collector_is_not_ready_before_discovery_and_sync_and_says_why() {
        let monitors = [monitor(true, None), monitor(false, None)];
        let starting = Facts { started: false, monitors: &monitors, ..facts() };
        for (discovery, lines) in [
            (
                Err("connection refused"),
                "[-]discovery failed: connection refused\n\
                 [-]sync failed: waiting for discovery since 2026-11-20T12:00:00Z\n",
            ),
            (
                Ok(()),
                "[+]discovery ok\n\
                 [-]sync failed: 1 of 2 resource types are not synced, waiting since 2026-11-20T12:00:00Z\n",
            ),
        ] {
            let readiness = assess(&Facts { discovery, ..starting.clone() });
            assert!(!readiness.ready());
            let page = readiness.verbose("readyz");
            assert!(page.starts_with(lines) && page.ends_with("readyz check failed\n"), "{page}");
        }
        assert!(!Readiness::default().ready(), "nothing checked is not ready");
    }
}
