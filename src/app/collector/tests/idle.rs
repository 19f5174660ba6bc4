//! The collector says that it is idle only when nothing more follows.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::client::Body;
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{Collector, server};
use crate::ErrorKind;
use crate::introspect::IdleQuery;
use kube_gc_core::object::{GroupResource, ResourceVersion};

fn config_map(name: &str, owner: Option<&ConfigMap>) -> ConfigMap {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let mut object = ConfigMap { metadata, ..ConfigMap::default() };
    object.meta_mut().owner_references = owner.and_then(|owner| owner.owner_ref(&())).map(|one| vec![one]);
    object
}

/// How many chains are deleted. `KUBE_GC_IDLE_CHAINS` sets another number.
const CHAINS: usize = 200;

/// Between two links of a chain, the answer to a DELETE and the event of it come in any order.
/// `KUBE_GC_IDLE_KUBECONFIG` names another API server than the embedded one.
#[tokio::test]
async fn a_chain_is_gone_when_the_collector_is_idle() {
    let client = match std::env::var_os("KUBE_GC_IDLE_KUBECONFIG") {
        Some(path) => {
            let mut config = kube_gc_client::load_config(Some(path.as_ref()), None).await.unwrap();
            config.default_retry = false;
            kube::Client::try_from(config).unwrap()
        }
        None => server().client(),
    };
    let collector = Collector::builder_with_client(client.clone()).start().await.unwrap();
    let configmaps: Api<ConfigMap> = Api::namespaced(client, "default");
    let create = async |name: String, owner: Option<&ConfigMap>| {
        configmaps.create(&PostParams::default(), &config_map(&name, owner)).await.unwrap()
    };
    let chains = std::env::var("KUBE_GC_IDLE_CHAINS").map_or(CHAINS, |number| number.parse().unwrap());
    let mut early = Vec::new();
    for chain in 0..chains {
        let head = create(format!("head-{chain}"), None).await;
        let mut last = head.clone();
        for link in 0..=chain % 10 {
            last = create(format!("link-{chain}-{link}"), Some(&last)).await;
        }
        configmaps.delete(&head.name_any(), &DeleteParams::default()).await.unwrap();
        let marker = create(format!("marker-{chain}"), None).await;
        collector.wait_seen("configmaps", &marker.resource_version().unwrap()).await.unwrap();
        match chain / 10 % 3 {
            0 => collector.wait_idle().await.unwrap(),
            1 => collector.wait_idle_in("default").await.unwrap(),
            _ => collector.wait_idle_below(&head.uid().unwrap()).await.unwrap(),
        }
        configmaps.delete(&marker.name_any(), &DeleteParams::default()).await.unwrap();
        let left: Vec<_> = configmaps.list(&ListParams::default()).await.unwrap().items;
        let left: Vec<_> = left.iter().map(kube::ResourceExt::name_any).collect();
        early.extend((!left.is_empty()).then(|| format!("chain {chain}: {left:?}")));
    }
    assert!(early.is_empty(), "{} of {chains} were early: {early:?}", early.len());
    collector.stop().await.unwrap();
}

/// An object of another namespace cannot be deleted, and is tried again and again.
#[tokio::test]
async fn a_namespace_and_an_owner_are_idle_while_others_are_busy() {
    let client = server().client();
    let asked = Arc::new(Notify::new());
    let refused = tower::service_fn({
        let (client, asked) = (client.clone(), Arc::clone(&asked));
        move |request: http::Request<Body>| {
            let (client, asked) = (client.clone(), Arc::clone(&asked));
            async move {
                let is_refused = request.method() == http::Method::DELETE
                    && request.uri().path().ends_with("/namespaces/busy/configmaps/dependent");
                if is_refused {
                    asked.notify_one();
                    let answer = http::Response::builder().status(500).body(Body::empty());
                    return Ok(answer.unwrap());
                }
                client.send(request).await
            }
        }
    });
    let collector =
        Collector::builder_with_client(kube::Client::new(refused, "default")).start().await.unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let mut owners = Vec::new();
    for namespace in ["busy", "quiet"] {
        let metadata = ObjectMeta { name: Some(namespace.to_owned()), ..ObjectMeta::default() };
        let object = Namespace { metadata, ..Namespace::default() };
        namespaces.create(&PostParams::default(), &object).await.unwrap();
        let configmaps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let create = async |object| configmaps.create(&PostParams::default(), &object).await.unwrap();
        for (owner, dependent) in [("owner", "dependent"), ("calm-owner", "calm-dependent")] {
            let owner = create(config_map(owner, None)).await;
            let middle = create(config_map(&format!("{dependent}s-owner"), Some(&owner))).await;
            create(config_map(dependent, Some(&middle))).await;
            configmaps.delete(&owner.name_any(), &DeleteParams::default()).await.unwrap();
            owners.push(owner.uid().unwrap());
        }
        let marker = create(config_map("marker", None)).await;
        collector.wait_seen("configmaps", &marker.resource_version().unwrap()).await.unwrap();
    }
    let [held, calm, ..] = &owners[..] else { panic!("{owners:?}") };
    collector.wait_idle_in("quiet").await.unwrap();
    collector.wait_idle_below(calm).await.unwrap();
    for (namespace, gone) in [("quiet", "dependent"), ("busy", "calm-dependent")] {
        let configmaps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        assert!(configmaps.get_opt(gone).await.unwrap().is_none(), "{gone}");
    }
    // Its owners are gone by now.
    asked.notified().await;
    let in_namespace =
        IdleQuery { namespace: kube_gc_core::object::Namespace::parse("busy"), ..IdleQuery::default() };
    let below = IdleQuery { owner: kube_gc_core::object::Uid::parse(held), ..IdleQuery::default() };
    for query in [in_namespace, below, IdleQuery::default()] {
        let busy = collector.introspection.idle(query).await;
        assert!(!busy.idle && busy.queues.values().any(|queue| *queue != Default::default()), "{busy:?}");
    }
    collector.stop().await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_a_namespace_or_a_uid_is_an_error() {
    let collector = Collector::builder_with_client(server().client()).start().await.unwrap();
    // They may be gone.
    collector.wait_idle_in("nobodys").await.unwrap();
    collector.wait_idle_below("b62de6b4-9cb6-4ca9-8a84-0eb1a7b5ee5b").await.unwrap();
    for (result, said) in [
        (collector.wait_idle_in("").await, "is no name of a namespace"),
        (collector.wait_idle_in("In Valid!/").await, "is no name of a namespace"),
        (collector.wait_idle_below("").await, "uid is empty"),
        (collector.wait_idle_below("catalog").await, "pass metadata.uid"),
    ] {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(error.to_string().contains(said), "{error}");
    }
    collector.stop().await.unwrap();
}

#[tokio::test]
async fn a_type_may_be_named_without_its_group_and_an_unknown_one_is_named() {
    let collector = Collector::builder_with_client(server().client()).start().await.unwrap();
    collector.wait_idle().await.unwrap();
    for (resource, is_known) in [("deployments", true), ("deployments.apps", true), ("configmap", false)] {
        let seen = vec![(GroupResource::parse(resource), ResourceVersion::number(u64::MAX))];
        let report = collector.introspection.idle(IdleQuery { seen, ..IdleQuery::default() }).await;
        let said = report.reasons.join("; ");
        assert_eq!(report.not_seen.len(), 1);
        assert_eq!(said.contains("no type configmap is watched"), !is_known, "{said}");
    }
    collector.stop().await.unwrap();
}

/// Rule 9.8. Discovery shows a new type only some time after its first object was created.
#[tokio::test]
async fn a_version_of_a_type_that_nobody_serves_is_an_error_and_one_of_a_new_type_is_not() {
    let server = server();
    let client = server.client();
    let post = async |path: &str, object: &Value| -> kube::Result<Value> {
        client.request(http::Request::post(path).body(object.to_string().into_bytes()).unwrap()).await
    };
    let service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.down.example.com"},
        "spec": {
            "group": "down.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
            "service": {"namespace": "default", "name": "nowhere"},
        },
    });
    post("/apis/apiregistration.k8s.io/v1/apiservices", &service).await.unwrap();
    let collector = Collector::builder_with_client(client.clone()).start().await.unwrap();
    collector.wait_idle().await.unwrap();
    for number in 0..10 {
        let group = format!("group-{number}.example.com");
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("widgets.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
            },
        });
        post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.unwrap();
        let widget =
            json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "new"}});
        let path = format!("/apis/{group}/v1/namespaces/default/widgets");
        // It is served a moment later.
        let widget = loop {
            match post(&path, &widget).await {
                Err(kube::Error::Api(status)) if status.code == 404 => tokio::task::yield_now().await,
                created => break created.unwrap(),
            }
        };
        let version = widget["metadata"]["resourceVersion"].as_str().unwrap();
        collector.wait_seen(&format!("widgets.{group}"), version).await.unwrap();
    }
    for nobody in ["widgets.example.com", "widgets/v1.example.com"] {
        let error = collector.wait_seen(nobody, "1").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(error.to_string().contains(&format!("no type {nobody} is watched")), "{error}");
    }
    let error = collector.wait_seen("widgets", "1").await.unwrap_err();
    assert!(error.to_string().contains("may mean widgets.group-0.example.com or widgets.group-1"), "{error}");
    for ignored in ["events", "events.events.k8s.io"] {
        let error = collector.wait_seen(ignored, "1").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(error.to_string().contains("the collector ignores"), "{error}");
    }
    // A group that cannot be discovered may have the type, and a name without a group may be in it.
    let requests = || server.with(|server| server.requests);
    let before = requests();
    for may_be_there in ["widgets.down.example.com", "configmap"].repeat(20) {
        let seen = vec![(GroupResource::parse(may_be_there), ResourceVersion::number(1))];
        let report = collector.introspection.idle(IdleQuery { seen, ..IdleQuery::default() }).await;
        assert!(!report.idle && report.unknown.is_none(), "{report:?}");
    }
    // Discovery tries that group again by itself.
    assert!(requests() - before < 100, "{} requests", requests() - before);
    collector.stop().await.unwrap();
}
