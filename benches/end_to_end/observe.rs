//! Observes the end of a cascade, in ways that cost the server little and are the same for all
//! contestants.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;
use tokio::time::sleep;

use crate::http::{Call, Client};
use crate::objects::{Object, config_maps, remaining};

/// The time limit of every wait.
const DEADLINE: Duration = Duration::from_secs(600);

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

/// A watch on a ConfigMap.
#[derive(Debug)]
pub struct Watch {
    body: Body,
    buffer: Vec<u8>,
}

impl Watch {
    /// From the known version of the object.
    pub async fn object(client: &Client, object: &Object) -> Result<Self> {
        let selector = format!("&fieldSelector=metadata.name%3D{}", object.name);
        let path = format!(
            "{}?watch=true&timeoutSeconds=3600&resourceVersion={}{selector}",
            config_maps(&object.namespace),
            object.version
        );
        Ok(Self { body: client.stream(Call::get(path)).await?, buffer: Vec::new() })
    }

    /// Waits until the object is deleted, and returns when that was.
    pub async fn deleted(&mut self) -> Result<Instant> {
        loop {
            while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let at = Instant::now();
                let event: Value = serde_json::from_slice(&self.buffer[..end])?;
                self.buffer.drain(..=end);
                ensure!(event["type"] != "ERROR", "the watch has failed: {event}");
                if event["type"] == "DELETED" {
                    return Ok(at);
                }
            }
            let frame = tokio::time::timeout(DEADLINE, self.body.frame()).await;
            let frame = frame.context("no event for too long")?.context("the watch has ended")??;
            self.buffer.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new()));
        }
    }
}

/// The shortest interval.
const SHORTEST: Duration = Duration::from_millis(5);
/// The longest interval.
const LONGEST: Duration = Duration::from_millis(500);

/// The next interval. At most a quarter of the elapsed time, because the speed at the beginning
/// says little.
fn next_look(elapsed: Duration, size: u64, left: u64) -> Duration {
    let done = size.saturating_sub(left);
    if done == 0 {
        return SHORTEST * 4;
    }
    // A float represents such counts exactly.
    #[allow(clippy::cast_precision_loss)]
    let rest = elapsed.mul_f64(left as f64 / done as f64);
    rest.mul_f64(0.7).min(elapsed / 4).clamp(SHORTEST, LONGEST)
}

/// The number of answered requests for ConfigMaps, without watches, by the API server's own count.
pub async fn requests(client: &Client) -> Result<u64> {
    let page = client.send(Call::get("/metrics")).await?.success()?;
    Ok(requests_of(&String::from_utf8_lossy(&page)))
}

/// The API server's count of requests for ConfigMaps, without watches.
///
/// Rejected requests count, too. Older servers count them separately, with the requests that
/// ended early.
fn requests_of(page: &str) -> u64 {
    let mut count = 0;
    for line in page.lines() {
        let Some((labels, value)) = line.rsplit_once(' ') else { continue };
        let counts_all = labels.starts_with("apiserver_request_total{");
        let refused =
            labels.starts_with("apiserver_request_terminations_total{") && labels.contains("code=\"429\"");
        if !(counts_all || refused) || !labels.contains("resource=\"configmaps\"") {
            continue;
        }
        if !labels.contains("verb=\"WATCH\"")
            && let Ok(value) = value.parse::<f64>()
        {
            // The value is a count.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let value = value as u64;
            count += value;
        }
    }
    count
}
