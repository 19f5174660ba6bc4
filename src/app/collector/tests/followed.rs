//! An object of a running collector is looked at again and again, as a stream does.

use k8s_openapi::api::core::v1::{ConfigMap, Endpoints};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::client::Body;
use kube::{Resource as _, ResourceExt as _};
use tokio::sync::watch;

use super::{Collector, Settings, server};
use kube_gc_core::object::{GroupResource, Uid};
use kube_gc_observe::http::{NeighbourhoodPage, ObjectQuery, Streamed as _};

/// The collector does not watch these.
const UNWATCHED: &str = "endpoints";

/// A dry run on a server of its own, whose lists of one resource can wait.
struct Stage {
    collector: Collector,
    configmaps: Api<ConfigMap>,
    lists: watch::Sender<bool>,
}

impl Stage {
    /// The lists of this resource wait for [`open`](Self::open). `root` is in the cluster.
    async fn holding(resource: &'static str, root: ConfigMap) -> (Self, ConfigMap) {
        let client = server().client();
        let (lists, opened) = watch::channel(false);
        let configmaps = Api::namespaced(client.clone(), "default");
        let root = configmaps.create(&PostParams::default(), &root).await.unwrap();
        let held = tower::service_fn(move |request: http::Request<Body>| {
            let (client, mut opened) = (client.clone(), opened.clone());
            async move {
                if request.uri().path().ends_with(&format!("/{resource}")) {
                    // An error means that the test has ended.
                    let _ = opened.wait_for(|is_open| *is_open).await;
                }
                client.send(request).await
            }
        });
        // Nobody else changes what is followed.
        let mut settings = Settings { dry_run: true, ..Settings::default() };
        settings.discovery.ignored.push(GroupResource::parse(UNWATCHED));
        let collector = Collector::builder(kube::Client::new(held, "default")).settings(settings);
        (Self { collector: collector.start().await.unwrap(), configmaps, lists }, root)
    }

    async fn open(&self) {
        self.lists.send_replace(true);
        self.collector.wait_idle().await.unwrap();
    }

    async fn look(&self, root: &ConfigMap) -> Option<NeighbourhoodPage> {
        let uid = Uid::parse(&root.uid().unwrap()).unwrap();
        let query = ObjectQuery { uid, resource: None, up: 8, down: 8, max: 20, limit: 200, after: 0 };
        self.collector.introspection.look(&query).await.unwrap()
    }

    /// How many objects there are, and how many types could not be looked at.
    async fn counts(&self, root: &ConfigMap) -> (usize, usize) {
        let page = self.look(root).await.unwrap();
        (page.shown.nodes.len(), page.incomplete.len())
    }

    /// Creates an object that the collector has seen then.
    async fn create(&self, object: &ConfigMap) -> ConfigMap {
        let created = self.configmaps.create(&PostParams::default(), object).await.unwrap();
        self.collector.wait_seen("configmaps", &created.resource_version().unwrap()).await.unwrap();
        created
    }
}

fn named(name: &str, owner: Option<OwnerReference>) -> ConfigMap {
    let owner_references = owner.map(|owner| vec![owner]);
    let metadata = ObjectMeta { name: Some(name.to_owned()), owner_references, ..ObjectMeta::default() };
    ConfigMap { metadata, ..ConfigMap::default() }
}

#[tokio::test]
async fn an_object_shows_what_is_new_below_once_the_graph_has_it() {
    let (stage, root) = Stage::holding("configmaps", named("root", None)).await;
    assert_eq!(stage.look(&root).await, None);
    stage.open().await;
    assert_eq!(stage.counts(&root).await, (1, 0));
    stage.create(&named("other", None)).await;
    let mut last = root.clone();
    for (name, count) in [("child", 2), ("grandchild", 3)] {
        last = stage.create(&named(name, last.owner_ref(&()))).await;
        assert_eq!(stage.counts(&root).await, (count, 0), "{name}");
    }
    stage.collector.stop().await.unwrap();
}

#[tokio::test]
async fn a_type_that_is_not_listed_yet_is_named_until_it_is() {
    let (stage, root) = Stage::holding("secrets", named("root", None)).await;
    stage.collector.wait_seen("configmaps", &root.resource_version().unwrap()).await.unwrap();
    let page = stage.look(&root).await.unwrap();
    assert!(page.incomplete.iter().any(|unseen| unseen.what == "secrets"), "{page:?}");
    stage.open().await;
    assert_eq!(stage.counts(&root).await, (1, 0));
    stage.collector.stop().await.unwrap();
}

/// An owner that the collector does not watch is read from the server.
#[tokio::test]
async fn what_is_read_live_is_shown() {
    let (stage, _) = Stage::holding("configmaps", named("other", None)).await;
    stage.open().await;
    let owner = Endpoints { metadata: named("owner", None).metadata, subsets: None };
    let owners: Api<Endpoints> = Api::namespaced(stage.configmaps.clone().into_client(), "default");
    let owner = owners.create(&PostParams::default(), &owner).await.unwrap();
    let root = stage.create(&named("root", owner.owner_ref(&()))).await;
    stage.collector.wait_idle().await.unwrap();
    assert_eq!(stage.counts(&root).await, (2, 0));
    stage.collector.stop().await.unwrap();
}
