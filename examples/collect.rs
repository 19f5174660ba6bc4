//! Runs a collector inside a process, next to an API server that is also inside the process.
//!
//! ```sh
//! cargo run --example collect
//! ```
//!
//! It creates an owner with a dependent, deletes the owner, and shows that the collector deletes the
//! dependent.

use std::error::Error;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Client, Config, Resource, ResourceExt};
use kube_gc::Collector;
use kube_gc_apiserver::{ApiServer, Scheme, Settings};

#[tokio::main]
#[allow(clippy::print_stdout, reason = "this is for reading")]
async fn main() -> Result<(), Box<dyn Error>> {
    for name in collect().await? {
        println!("{name} is still there");
    }
    Ok(())
}

/// Returns the names of the objects that are left.
pub async fn collect() -> Result<Vec<String>, Box<dyn Error>> {
    // On a real cluster: `let config = Config::infer().await?;`
    let server = ApiServer::new(Settings::default()).serve(([127, 0, 0, 1], 0).into(), Scheme::Http).await?;
    let config = Config::new(server.url().parse()?);
    let config_maps: Api<ConfigMap> = Api::default_namespaced(Client::try_from(config.clone())?);

    let collector = Collector::builder(config).start().await?;

    let owner = config_maps.create(&PostParams::default(), &config_map("app", None)).await?;
    config_maps.create(&PostParams::default(), &config_map("config-of-app", Some(&owner))).await?;
    config_maps.create(&PostParams::default(), &config_map("config-of-somebody-else", None)).await?;

    // The answer to a foreground deletion is the owner, which stays until its dependents are gone.
    let deleted = config_maps.delete("app", &DeleteParams::foreground()).await?.left();
    let version = deleted.and_then(|owner| owner.resource_version()).ok_or("the owner has no version")?;

    // A watch event takes a moment, so wait until the collector has seen the deletion.
    collector.wait_seen("configmaps", &version).await?;
    collector.wait_idle().await?;

    let left = config_maps.list(&ListParams::default()).await?;
    collector.stop().await?;
    Ok(left.iter().map(ResourceExt::name_any).collect())
}

fn config_map(name: &str, owner: Option<&ConfigMap>) -> ConfigMap {
    let reference = owner.map(|owner| OwnerReference {
        block_owner_deletion: Some(true),
        ..owner.owner_ref(&()).unwrap_or_default()
    });
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            owner_references: reference.map(|reference| vec![reference]),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}
