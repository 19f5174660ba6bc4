//! Forwards the body of a watch, line by line.

use std::collections::VecDeque;
use std::io;

use bytes::{Bytes, BytesMut};
use http_body::Frame;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::state::{Shared, StreamCommand, WatchEnd};

pub(super) type Sender = mpsc::Sender<Result<Frame<Bytes>, io::Error>>;

/// Forwards the events of one watch to the collector, until either side ends it.
pub(super) async fn forward(
    shared: Shared,
    index: usize,
    resource: String,
    mut body: Body,
    to: Sender,
    mut commands: mpsc::UnboundedReceiver<StreamCommand>,
) {
    let mut changes = shared.changes.subscribe();
    let mut partial = BytesMut::new();
    let mut lines: VecDeque<Bytes> = VecDeque::new();
    let mut latest: VecDeque<Bytes> = VecDeque::new();
    let mut ended = false;
    loop {
        changes.borrow_and_update();
        while let Some(line) = lines.front() {
            if shared.holds_back(&resource, line) {
                break;
            }
            let Some(line) = lines.pop_front() else { break };
            for line in shared.edited(index, line, &mut latest) {
                if to.send(Ok(Frame::data(line))).await.is_err() {
                    return;
                }
            }
        }
        if ended && lines.is_empty() {
            return;
        }
        tokio::select! {
            biased;
            command = commands.recv() => {
                match command {
                    Some(StreamCommand::Show(line)) => {
                        if to.send(Ok(Frame::data(line))).await.is_err() {
                            return;
                        }
                        continue;
                    }
                    None | Some(StreamCommand::End(WatchEnd::Cleanly)) => {}
                    Some(StreamCommand::End(WatchEnd::Abruptly)) => {
                        let _ = to.send(Err(io::Error::other("cut by the test"))).await;
                    }
                    Some(StreamCommand::End(WatchEnd::Expired)) => {
                        let _ = to.send(Ok(Frame::data(expired()))).await;
                    }
                }
                return;
            }
            () = to.closed() => return,
            _ = changes.changed() => {}
            frame = body.frame(), if !ended => match frame {
                Some(Ok(frame)) => {
                    partial.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new()));
                    while let Some(end) = partial.iter().position(|byte| *byte == b'\n') {
                        lines.push_back(partial.split_to(end + 1).freeze());
                    }
                }
                Some(Err(error)) => {
                    let _ = to.send(Err(io::Error::other(error))).await;
                    return;
                }
                None => ended = true,
            },
        }
    }
}

fn expired() -> Bytes {
    let event = json!({
        "type": "ERROR",
        "object": {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "too old resource version: 1 (2)", "reason": "Expired", "code": 410,
        },
    });
    Bytes::from(format!("{event}\n"))
}

/// A bookmark in the API server's format.
pub(super) fn bookmark(api_version: &str, kind: &str, version: &str) -> Bytes {
    let event = json!({
        "type": "BOOKMARK",
        "object": {
            "apiVersion": api_version, "kind": kind,
            "metadata": { "resourceVersion": version, "creationTimestamp": null },
        },
    });
    Bytes::from(format!("{event}\n"))
}

impl Shared {
    /// The lines to send for a line of a watch: one or, with repeated events, several.
    fn edited(&self, index: usize, line: Bytes, latest: &mut VecDeque<Bytes>) -> Vec<Bytes> {
        let event: Value = serde_json::from_slice(&line).unwrap_or_default();
        self.with_quietly(|state| {
            if !matches!(event["type"].as_str(), Some("ADDED" | "MODIFIED" | "DELETED")) {
                let expired = event["object"]["code"] == 410;
                state.log[index].expired |= expired;
                return (vec![line], expired);
            }
            latest.push_back(line.clone());
            while latest.len() > state.echo {
                latest.pop_front();
            }
            (std::iter::once(line).chain(latest.iter().cloned()).collect(), false)
        })
    }

    /// Whether an event is held, and with it all later ones.
    fn holds_back(&self, resource: &str, line: &[u8]) -> bool {
        self.with_quietly(|state| {
            if state.event_holds.is_empty() {
                return (false, false);
            }
            let event: Value = serde_json::from_slice(line).unwrap_or_default();
            let (mut held, mut news) = (false, false);
            for hold in &mut state.event_holds {
                if hold.matcher.matches_event(resource, &event["object"]) {
                    news |= !hold.caught;
                    (held, hold.caught) = (true, true);
                }
            }
            (held, news)
        })
    }
}
