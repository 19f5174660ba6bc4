//! An object of a running collector is followed, as a stream does.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Endpoints};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::client::Body;
use kube::{Resource as _, ResourceExt as _};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::{Collector, Settings, server};
use crate::http::{Follow, NeighbourhoodPage, ObjectQuery, Streamed as _};
use kube_gc_core::object::{GroupResource, Uid};

/// Far longer than anything that a stream waits for.
const LONG: Duration = Duration::from_secs(3600);

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

    fn follow(&self, root: &ConfigMap) -> Followed {
        let uid = Uid::parse(&root.uid().unwrap()).unwrap();
        let query = ObjectQuery { uid, resource: None, up: 8, down: 8, max: 20, limit: 200, after: 0 };
        Followed(self.collector.introspection.follow(query))
    }

    /// Creates an object that the collector has seen then.
    async fn create(&self, object: &ConfigMap) -> ConfigMap {
        let created = self.configmaps.create(&PostParams::default(), object).await.unwrap();
        self.collector.wait_seen("configmaps", &created.resource_version().unwrap()).await.unwrap();
        created
    }
}

/// An object that is followed.
struct Followed(Box<dyn Follow>);

impl Followed {
    async fn look(&mut self) -> Option<NeighbourhoodPage> {
        self.0.look().await.unwrap()
    }

    /// How many objects there are, and how many types could not be looked at.
    async fn counts(&mut self) -> (usize, usize) {
        let page = self.look().await.unwrap();
        (page.shown.nodes.len(), page.incomplete.len())
    }

    /// When it is told to look again, if nothing more happens in the cluster.
    async fn told_after(&self) -> Option<Duration> {
        // Time passes only while nothing is left to do.
        tokio::time::pause();
        let began = Instant::now();
        let is_told = timeout(LONG, self.0.outdated()).await.is_ok();
        let after = began.elapsed();
        tokio::time::resume();
        is_told.then_some(after)
    }
}

fn named(name: &str, owner: Option<OwnerReference>) -> ConfigMap {
    let owner_references = owner.map(|owner| vec![owner]);
    let metadata = ObjectMeta { name: Some(name.to_owned()), owner_references, ..ObjectMeta::default() };
    ConfigMap { metadata, ..ConfigMap::default() }
}

#[tokio::test]
async fn a_new_object_below_is_told_of_and_nothing_else() {
    let (stage, root) = Stage::holding("configmaps", named("root", None)).await;
    stage.open().await;
    let mut followed = stage.follow(&root);
    assert_eq!(followed.counts().await, (1, 0));
    stage.create(&named("other", None)).await;
    assert_eq!(followed.told_after().await, None);
    let mut last = root;
    for (name, count) in [("child", 2), ("grandchild", 3)] {
        last = stage.create(&named(name, last.owner_ref(&()))).await;
        assert_eq!(followed.told_after().await, Some(Duration::ZERO), "{name}");
        assert_eq!(followed.counts().await, (count, 0));
        assert_eq!(followed.told_after().await, None, "it has looked since");
    }
    stage.collector.stop().await.unwrap();
}

#[tokio::test]
async fn an_object_that_the_graph_does_not_have_yet_is_followed() {
    let (stage, root) = Stage::holding("configmaps", named("root", None)).await;
    let mut followed = stage.follow(&root);
    assert_eq!(followed.look().await, None);
    stage.open().await;
    assert_eq!(followed.told_after().await, Some(Duration::ZERO));
    assert_eq!(followed.counts().await, (1, 0));
    stage.collector.stop().await.unwrap();
}

#[tokio::test]
async fn a_type_that_is_not_listed_yet_is_named_until_it_is() {
    let (stage, root) = Stage::holding("secrets", named("root", None)).await;
    stage.collector.wait_seen("configmaps", &root.resource_version().unwrap()).await.unwrap();
    let mut followed = stage.follow(&root);
    let page = followed.look().await.unwrap();
    assert!(page.incomplete.iter().any(|unseen| unseen.what == "secrets"), "{page:?}");
    stage.open().await;
    assert_eq!(followed.told_after().await, Some(Duration::ZERO));
    assert_eq!(followed.counts().await, (1, 0));
    assert_eq!(followed.told_after().await, None, "it knows");
    stage.collector.stop().await.unwrap();
}

/// An owner that the collector does not watch is read from the server.
#[tokio::test]
async fn what_was_read_live_counts_for_ten_seconds() {
    let (stage, _) = Stage::holding("configmaps", named("other", None)).await;
    stage.open().await;
    let owner = Endpoints { metadata: named("owner", None).metadata, subsets: None };
    let owners: Api<Endpoints> = Api::namespaced(stage.configmaps.clone().into_client(), "default");
    let owner = owners.create(&PostParams::default(), &owner).await.unwrap();
    let root = stage.create(&named("root", owner.owner_ref(&()))).await;
    stage.collector.wait_idle().await.unwrap();
    let mut followed = stage.follow(&root);
    assert_eq!(followed.counts().await, (2, 0));
    let after = followed.told_after().await.unwrap();
    // The look was a moment before, and the clock has milliseconds.
    assert!((1..=10).contains(&after.as_secs()), "{after:?}");
    stage.collector.stop().await.unwrap();
}
