//! A client that creates, watches and deletes objects on an API server in its own process.
//!
//! No binary is installed and no socket is opened:
//!
//! ```sh
//! cargo run -p kube-gc-apiserver --example watch
//! ```

#![allow(clippy::print_stdout, reason = "it is a program for the terminal")]

use std::error::Error;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, PostParams, WatchEvent, WatchParams};
use kube_gc_apiserver::{ApiServer, Settings};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    for event in events().await? {
        println!("{event}");
    }
    Ok(())
}

/// Creates a ConfigMap, changes it, deletes it, and returns what a watch saw of that.
///
/// # Errors
///
/// A request failed.
pub async fn events() -> Result<Vec<String>, Box<dyn Error>> {
    let server = ApiServer::new(Settings::default());
    let configmaps: Api<ConfigMap> = Api::namespaced(server.client(), "default");

    let empty = configmaps.list(&Default::default()).await?;
    let version = empty.metadata.resource_version.unwrap_or_default();
    let watch = configmaps.watch(&WatchParams::default(), &version).await?;

    let prices = json!({"metadata": {"name": "prices"}, "data": {"apple": "1"}});
    let mut prices = configmaps.create(&PostParams::default(), &serde_json::from_value(prices)?).await?;
    prices.data.get_or_insert_default().insert("apple".into(), "2".into());
    configmaps.replace("prices", &PostParams::default(), &prices).await?;
    configmaps.delete("prices", &DeleteParams::default()).await?;

    let seen = watch.boxed().take(3).map_ok(|event| match event {
        WatchEvent::Added(object) => format!("added {}", name(&object)),
        WatchEvent::Modified(object) => format!("modified {}", name(&object)),
        WatchEvent::Deleted(object) => format!("deleted {}", name(&object)),
        WatchEvent::Bookmark(_) => "bookmark".to_owned(),
        WatchEvent::Error(status) => format!("error: {}", status.message),
    });
    Ok(seen.try_collect().await?)
}

fn name(object: &ConfigMap) -> &str {
    object.metadata.name.as_deref().unwrap_or_default()
}
