// tests/cascade.rs
use kube_gc::Collector;
use kube_gc::k8s_openapi::api::core::v1::ConfigMap;
use kube_gc::kube::api::{Api, DeleteParams, ObjectMeta, PostParams};
use kube_gc::kube::{Client, Config, Resource as _, ResourceExt as _};
use kube_gc_apiserver::{ApiServer, Scheme, Settings};

fn named(name: &str) -> ConfigMap {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    ConfigMap { metadata, ..ConfigMap::default() }
}

#[tokio::test]
async fn a_dependent_goes_with_its_owner() -> Result<(), Box<dyn std::error::Error>> {
    let server = ApiServer::new(Settings::default()).serve(([127, 0, 0, 1], 0).into(), Scheme::Http).await?;
    let config = Config::new(server.url().parse()?);
    let collector = Collector::builder(config.clone()).start().await?;
    collector.wait_idle().await?;
    let configmaps: Api<ConfigMap> = Api::namespaced(Client::try_from(config)?, "default");

    let owner = configmaps.create(&PostParams::default(), &named("catalog")).await?;
    let mut dependent = named("price");
    dependent.meta_mut().owner_references = owner.owner_ref(&()).map(|reference| vec![reference]);
    configmaps.create(&PostParams::default(), &dependent).await?;

    configmaps.delete("catalog", &DeleteParams::default()).await?;
    // The collector has to know of the deletion: this version is a later one.
    let later = configmaps.create(&PostParams::default(), &named("later")).await?;
    collector.wait_seen("configmaps", &later.resource_version().ok_or("no version")?).await?;
    collector.wait_idle().await?;
    assert!(configmaps.get_opt("price").await?.is_none());
    collector.stop().await?;
    Ok(())
}
