//! Observes the end of a cascade, in ways that cost the server little and are the same for all
//! contestants.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::time::sleep;

use crate::http::{Call, Client};
use crate::objects::{Object, config_maps, remaining};
use crate::pace::next_look;

/// The time limit of every wait.
pub const DEADLINE: Duration = Duration::from_secs(600);

/// Waits until a namespace is empty, and returns when that was.
///
/// The next check follows after a part of the estimated rest of the time: about twenty checks for
/// any number of objects, and the end is found within milliseconds.
pub async fn emptied(client: &Client, namespace: &str, size: usize) -> Result<Instant> {
    let begun = Instant::now();
    let size = u64::try_from(size)?;
    loop {
        let left = remaining(client, namespace).await?;
        let now = Instant::now();
        if left == 0 {
            return Ok(now);
        }
        ensure!(now - begun < DEADLINE, "{left} objects are left in {namespace} after {DEADLINE:?}");
        sleep(next_look(now - begun, size, left)).await;
    }
}

/// A watch on ConfigMaps.
#[derive(Debug)]
pub struct Watch {
    body: Incoming,
    buffer: Vec<u8>,
}

/// An event of a watch.
#[derive(Clone, Debug)]
pub struct Event {
    /// When it was read.
    pub at: Instant,
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub kind: String,
    /// The object's name.
    pub name: String,
}

impl Watch {
    /// Watches one object, from its known version.
    pub async fn object(client: &Client, object: &Object) -> Result<Self> {
        let selector = format!("&fieldSelector=metadata.name%3D{}", object.name);
        Self::begin(client, &object.namespace, &selector, &object.version).await
    }

    /// Watches all objects of a namespace from now on.
    pub async fn namespace(client: &Client, namespace: &str) -> Result<Self> {
        let list = client.send(Call::get(format!("{}?limit=1", config_maps(namespace)))).await?.json()?;
        let version = list["metadata"]["resourceVersion"].as_str().context("no version")?;
        Self::begin(client, namespace, "", version).await
    }

    async fn begin(client: &Client, namespace: &str, selector: &str, version: &str) -> Result<Self> {
        let path = format!(
            "{}?watch=true&timeoutSeconds=3600&resourceVersion={version}{selector}",
            config_maps(namespace)
        );
        Ok(Self { body: client.stream(Call::get(path)).await?, buffer: Vec::new() })
    }

    /// The next event.
    pub async fn next(&mut self) -> Result<Event> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let at = Instant::now();
                let event: Value = serde_json::from_slice(&self.buffer[..end])?;
                self.buffer.drain(..=end);
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let (kind, name) = (text(&event["type"]), text(&event["object"]["metadata"]["name"]));
                ensure!(kind != "ERROR", "the watch has failed: {event}");
                return Ok(Event { at, kind, name });
            }
            let frame = tokio::time::timeout(DEADLINE, self.body.frame()).await;
            let frame = frame.context("no event for too long")?.context("the watch has ended")??;
            self.buffer.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new()));
        }
    }

    /// Waits until an object is deleted, and returns when that was.
    pub async fn deleted(&mut self, name: &str) -> Result<Instant> {
        loop {
            let event = self.next().await?;
            if event.kind == "DELETED" && event.name == name {
                return Ok(event.at);
            }
        }
    }
}
