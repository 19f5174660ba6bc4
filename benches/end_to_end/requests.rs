//! The API server's own count of the requests about ConfigMaps.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::http::{Call, Client};

/// How many requests about ConfigMaps have been answered, by verb; watches left aside.
pub async fn count(client: &Client) -> Result<u64> {
    let page = client.send(Call::get("/metrics")).await?.success()?;
    Ok(count_in(&String::from_utf8_lossy(&page)).values().sum())
}

/// Reads the page of metrics.
pub fn count_in(page: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
        let Some((labels, value)) = line.rsplit_once(' ') else { continue };
        if !labels.contains("resource=\"configmaps\"") {
            continue;
        }
        let verb = labels.split("verb=\"").nth(1).and_then(|rest| rest.split('"').next());
        let (Some(verb), Ok(value)) = (verb, value.parse::<f64>()) else { continue };
        if verb != "WATCH" {
            // A count; far below what a float holds exactly.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let value = value as u64;
            *counts.entry(verb.to_owned()).or_default() += value;
        }
    }
    counts
}
