//! Scripted servers, paused clocks.

mod chaos;
mod encoding;
mod hostile;
mod list;
mod streaming;
mod watch;

use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::scripted::{Part, ReceivedRequest, Reply, Server, lines, widgets};
use crate::{Api, ApiSettings, ErrorClass, HighWater, WatchSettings, WriteGate};
use kube_gc_core::graph::WatchEvent;
use kube_gc_core::object::ResourceVersion;

fn item(name: &str, version: u64) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"ns","uid":"{name}","resourceVersion":"{version}"}}}}"#
    )
}

fn list_next(version: u64, next: &str, items: &[String]) -> Reply {
    Reply::ok(format!(
        r#"{{"kind":"WidgetList","metadata":{{"resourceVersion":"{version}","continue":"{next}"}},"items":[{}]}}"#,
        items.join(",")
    ))
}

fn list(version: u64, names: &[&str]) -> Reply {
    let items: Vec<String> = names.iter().map(|name| item(name, 1)).collect();
    list_next(version, "", &items)
}

fn event(kind: &str, name: &str, version: u64) -> String {
    format!(r#"{{"type":"{kind}","object":{}}}"#, item(name, version))
}

fn bookmark(version: u64) -> String {
    format!(r#"{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"{version}"}}}}}}"#)
}

const GONE: &str =
    r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}"#;

fn start(high_water: &HighWater) -> WatchStart {
    WatchStart { high_water: high_water.clone(), aggregated: false }
}

fn watch(server: &Server) -> ListWatch {
    server.api().watch(widgets(), start(&HighWater::default()))
}

/// A step in a line.
fn text(step: Option<Step>) -> String {
    let names = |events: &[WatchEvent]| {
        let name = |event: &WatchEvent| match event {
            WatchEvent::Apply(facts) => facts.name.to_string(),
            WatchEvent::Delete(facts) => format!("-{}", facts.name),
            WatchEvent::Init { .. } | WatchEvent::InitDone { .. } => panic!("{event:?} in a list"),
        };
        events.iter().map(name).collect::<Vec<_>>().join(",")
    };
    match step {
        None => "ended".into(),
        Some(Step::Init { .. }) => "began".into(),
        Some(Step::InitApply(items)) => format!("items {}", names(&items)),
        Some(Step::InitDone { resource_version }) => {
            format!("listed {}", resource_version.map_or_else(|| "-".into(), |v| v.to_string()))
        }
        Some(Step::Events(events)) => events
            .into_iter()
            .map(|event| match event {
                WatchEvent::Apply(facts) => format!("+{}", facts.name),
                WatchEvent::Delete(facts) => format!("-{}", facts.name),
                WatchEvent::Init { .. } | WatchEvent::InitDone { .. } => panic!("{event:?} in a watch"),
            })
            .collect::<Vec<_>>()
            .join(" "),
        Some(Step::Bookmark { resource_version }) => {
            format!("bookmark {}", resource_version.map_or_else(|| "-".into(), |v| v.to_string()))
        }
        Some(Step::Resumed) => "resumed".into(),
        Some(Step::WatchEnded) => "watch ended".into(),
        Some(Step::Expired { .. }) => "expired".into(),
        Some(Step::Failed { error, .. }) => format!("failed {}", error.class.name()),
        Some(Step::StoreRestored { seen, found }) => format!("restored {seen} {found}"),
    }
}

async fn steps(watch: &mut ListWatch, count: usize) -> Vec<String> {
    let mut steps = Vec::new();
    for _ in 0..count {
        steps.push(text(watch.next().await));
    }
    steps
}

/// The kind of each request: list with its version, page, watch with its version.
fn kinds(server: &Server) -> Vec<String> {
    server.seen().iter().map(kind).collect()
}

fn kind(seen: &ReceivedRequest) -> String {
    let version = seen.query("resourceVersion");
    if seen.query("sendInitialEvents").is_some() {
        format!("stream {}", version.unwrap_or("-"))
    } else if seen.query("watch").is_some() {
        format!("watch {}", version.unwrap_or("-"))
    } else if let Some(token) = seen.query("continue") {
        format!("page {token}")
    } else if seen.query("limit") == Some("1") {
        "check".into()
    } else {
        format!("list {}", version.unwrap_or("store"))
    }
}
