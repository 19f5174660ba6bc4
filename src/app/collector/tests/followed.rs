//! An object of a running collector is looked at again and again, as a stream does.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::client::Body;
use tokio::sync::watch;

use super::{Collector, server};
use crate::introspect::queries::ObjectQuery;
use crate::introspect::stream::Streamed as _;
use kube_gc_core::object::Uid;

#[tokio::test]
async fn a_type_that_is_not_listed_yet_is_named_until_it_is() {
    let client = server().client();
    let root = ObjectMeta { name: Some("root".to_owned()), ..ObjectMeta::default() };
    let root = ConfigMap { metadata: root, ..ConfigMap::default() };
    let configmaps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let root = configmaps.create(&PostParams::default(), &root).await.unwrap();
    let (open, opened) = watch::channel(false);
    let held = tower::service_fn(move |request: http::Request<Body>| {
        let (client, mut opened) = (client.clone(), opened.clone());
        async move {
            if request.uri().path().ends_with("/secrets") {
                // An error means that the test has ended.
                let _ = opened.wait_for(|is_open| *is_open).await;
            }
            client.send(request).await
        }
    });
    let collector = Collector::builder_with_client(kube::Client::new(held, "default")).start().await.unwrap();
    collector.wait_seen("configmaps", &root.resource_version().unwrap()).await.unwrap();
    let uid = Uid::parse(&root.uid().unwrap()).unwrap();
    let query = ObjectQuery { uid, resource: None, up: 8, down: 8, max: 20, limit: 200, after: 0 };
    let look = async || collector.introspection.look(&query).await.unwrap().unwrap();
    let page = look().await;
    assert!(page.incomplete.iter().any(|unseen| unseen.what == "secrets"), "{page:?}");
    open.send_replace(true);
    collector.wait_idle().await.unwrap();
    let page = look().await;
    assert_eq!((page.shown.nodes.len(), page.incomplete.len()), (1, 0));
    collector.stop().await.unwrap();
}
