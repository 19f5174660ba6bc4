//! Tests a small controller, with an API server and the collector in the same process. Nothing is
//! installed, and it takes a fraction of a second:
//!
//! ```sh
//! cargo run --example test_controller
//! ```
//!
//! The controller gives each ConfigMap with the label `site` a Secret, which the ConfigMap owns.
//! When a site is deleted, its Secret has to go. That is garbage collection, which no API server
//! does by itself, so a test of such a controller needs a collector.
//!
//! In a test of your own, [`passes`] is the body of a function with `#[tokio::test]`.
//!
//! # What this API server does not do
//!
//! - It does not validate objects beyond their metadata, and it sets no defaults. An object that a
//!   real API server rejects may pass here.
//! - It has no authentication, and no authorization or admission webhooks other than those that
//!   `kube_gc_apiserver::guards` simulates.
//! - It does not serve server-side apply, bodies in YAML, or subresources other than `status` and
//!   `finalize`.
//! - It runs no controllers: a Deployment gets no ReplicaSet, and a Pod is never started. Only
//!   namespaces are emptied and finalized.
//!
//! Test these on a real API server, for example with envtest.

use std::error::Error;
use std::time::Instant;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use kube::core::ObjectMeta;
use kube::{Client, Config, Resource as _, ResourceExt as _};
use kube_gc::Collector;
use kube_gc_apiserver::{ApiServer, Scheme, Settings};

#[tokio::main]
#[allow(clippy::print_stdout, reason = "this is for reading")]
async fn main() -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    passes().await?;
    println!("passed in {} ms", start.elapsed().as_millis());
    Ok(())
}

/// The test.
pub async fn passes() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::new(Settings::default()).serve(([127, 0, 0, 1], 0).into(), Scheme::Http).await?;
    let config = Config::new(server.url().parse()?);
    let client = Client::try_from(config.clone())?;
    let collector = Collector::builder(config).start().await?;
    let controller = tokio::spawn(control(client.clone()));
    let sites: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let secrets: Api<Secret> = Api::namespaced(client, "default");

    sites.create(&PostParams::default(), &site("blog")).await?;
    let secret = created(&secrets, "blog-key").await?;
    assert_eq!(secret.owner_references().len(), 1, "the site owns its Secret");

    // A foreground deletion keeps the site until its Secret is gone. The controller sees that the
    // site changes, and must not create the Secret again.
    let deleted = sites.delete("blog", &DeleteParams::foreground()).await?.left();
    let version = deleted.and_then(|site| site.resource_version()).ok_or("the site has no version")?;
    collector.wait_seen("configmaps", &version).await?;
    collector.wait_idle().await?;
    assert!(secrets.get_opt("blog-key").await?.is_none(), "the Secret is still there");
    assert!(sites.get_opt("blog").await?.is_none(), "the site is still there");

    controller.abort();
    collector.stop().await?;
    Ok(())
}

/// The controller. (One for production also watches the Secrets, and lists again when a watch
/// fails: see the crate `kube-runtime`.)
async fn control(client: Client) -> kube::Result<()> {
    let sites: Api<ConfigMap> = Api::all(client.clone());
    let found = sites.list(&ListParams::default().labels("site")).await?;
    for site in &found {
        reconcile(&client, site).await?;
    }
    let version = found.metadata.resource_version.unwrap_or_default();
    let mut events = sites.watch(&WatchParams::default().labels("site"), &version).await?.boxed();
    while let Some(event) = events.try_next().await? {
        if let WatchEvent::Added(site) | WatchEvent::Modified(site) = event {
            reconcile(&client, &site).await?;
        }
    }
    Ok(())
}

/// Gives a site its Secret, unless it has it or is being deleted.
async fn reconcile(client: &Client, site: &ConfigMap) -> kube::Result<()> {
    if site.meta().deletion_timestamp.is_some() {
        return Ok(());
    }
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &site.namespace().unwrap_or_default());
    let name = format!("{}-key", site.name_any());
    if secrets.get_opt(&name).await?.is_none() {
        let metadata = ObjectMeta {
            name: Some(name),
            owner_references: site.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        };
        secrets.create(&PostParams::default(), &Secret { metadata, ..Secret::default() }).await?;
    }
    Ok(())
}

fn site(name: &str) -> ConfigMap {
    let labels = [("site".to_owned(), String::new())].into();
    let metadata = ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
    ConfigMap { metadata, ..ConfigMap::default() }
}

/// Waits until there is a Secret of this name.
async fn created(secrets: &Api<Secret>, name: &str) -> Result<Secret, Box<dyn Error>> {
    let field = format!("metadata.name={name}");
    let found = secrets.list(&ListParams::default().fields(&field)).await?;
    let version = found.metadata.resource_version.unwrap_or_default();
    if let Some(secret) = found.items.into_iter().next() {
        return Ok(secret);
    }
    let mut events = secrets.watch(&WatchParams::default().fields(&field), &version).await?.boxed();
    while let Some(event) = events.try_next().await? {
        if let WatchEvent::Added(secret) = event {
            return Ok(secret);
        }
    }
    Err("the watch ended before there was a Secret".into())
}
