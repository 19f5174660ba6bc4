//! The API server's own count of requests for ConfigMaps.

use anyhow::Result;

use crate::http::{Call, Client};
use crate::pages::requests;

/// The number of answered requests for ConfigMaps by verb, without watches.
pub async fn count(client: &Client) -> Result<u64> {
    let page = client.send(Call::get("/metrics")).await?.success()?;
    Ok(requests(&String::from_utf8_lossy(&page)).values().sum())
}
