//! The API server's own count of the requests about ConfigMaps.

use anyhow::Result;

use crate::http::{Call, Client};
use crate::pages::requests;

/// How many requests about ConfigMaps have been answered, by verb; watches left aside.
pub async fn count(client: &Client) -> Result<u64> {
    let page = client.send(Call::get("/metrics")).await?.success()?;
    Ok(requests(&String::from_utf8_lossy(&page)).values().sum())
}
