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
use crate::testing::{Part, ReceivedRequest, Reply, Server, lines, paged, widgets};
use crate::{Api, ApiSettings, ErrorClass, WatchSettings, WriteGate};
use kube_gc_core::graph::{DeletesProve, WatchEvent};
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

/// The server's store has not reached the version that a list requires.
fn too_large() -> Reply {
    let details = r#"{"causes":[{"reason":"ResourceVersionTooLarge"}],"retryAfterSeconds":1}"#;
    Reply::status(504, "Timeout: Too large resource version: 50, current: 7", details)
}

/// Which version was seen before; 0 stands for none.
type Start = (u64, DeletesProve);

fn seen_up_to(version: u64) -> Start {
    (version, DeletesProve::Absence)
}

fn aggregated(version: u64) -> Start {
    (version, DeletesProve::Nothing)
}

fn watch_from(api: &Api, (version, deletes_prove): Start) -> ListWatch {
    if version > 0 {
        api.high_water().advance(&widgets().group_resource, &ResourceVersion::number(version));
    }
    api.watch(widgets(), deletes_prove)
}

fn watch(server: &Server) -> ListWatch {
    watch_from(&server.api(), seen_up_to(0))
}

/// A step in a line.
fn text(step: Option<Step>) -> String {
    let shown = |events: Vec<WatchEvent>, applied: &str, between: &str| {
        let shown = events.into_iter().map(|event| match event {
            WatchEvent::Apply(facts) => format!("{applied}{}", facts.name),
            WatchEvent::Delete(facts) => format!("-{}", facts.name),
            WatchEvent::Init { .. } | WatchEvent::InitDone { .. } => panic!("{event:?} in a step"),
        });
        shown.collect::<Vec<_>>().join(between)
    };
    let number = |version: Option<ResourceVersion>| version.map_or_else(|| "-".into(), |v| v.to_string());
    match step {
        None => "ended".into(),
        Some(Step::Init { .. }) => "began".into(),
        Some(Step::InitApply(items)) => format!("items {}", shown(items, "", ",")),
        Some(Step::InitDone { resource_version }) => format!("listed {}", number(resource_version)),
        Some(Step::Events(events)) => shown(events, "+", " "),
        Some(Step::Bookmark { resource_version }) => format!("bookmark {}", number(resource_version)),
        Some(Step::Resumed) => "resumed".into(),
        Some(Step::WatchEnded) => "watch ended".into(),
        Some(Step::Expired { .. }) => "expired".into(),
        Some(Step::Failed { error, .. }) => {
            let class = format!("{:?}", error.class).to_lowercase();
            format!("failed {}", class.split(' ').next().unwrap())
        }
        Some(Step::StoreRestored { seen, found }) => format!("restored {seen} {found}"),
    }
}

/// Fails unless these steps follow, which `; ` separates.
async fn follows(watch: &mut ListWatch, expected: &str) {
    let mut steps = Vec::new();
    for _ in expected.split("; ") {
        steps.push(text(watch.next().await));
    }
    assert_eq!(steps.join("; "), expected);
}

/// Fails unless these steps follow from these replies, after these requests at first.
async fn play(start: Start, replies: Vec<Reply>, expected: &str, requests: &str) -> Server {
    let server = Server::replying(replies);
    follows(&mut watch_from(&server.api(), start), expected).await;
    assert_asked(&server, requests);
    server
}

/// Fails unless these were the first requests: list with its version, page, watch with its version.
fn assert_asked(server: &Server, expected: &str) {
    let count = expected.split("; ").count();
    let kinds: Vec<_> = server.seen().iter().take(count).map(kind).collect();
    assert_eq!(kinds.join("; "), expected);
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
