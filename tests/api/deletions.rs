//! DELETE options in protobuf and in JSON have the same effect.

use std::sync::{Arc, Mutex};

use http::Request;
use kube::client::ClientBuilder;
use kube_gc::internals::api::{
    Api, ApiSettings, Deleted, Encoding, ErrorClass, HighWater, Step, WatchStart, WriteGate, load_config,
};
use kube_gc_core::object::{Identity, ObjectFacts, PropagationPolicy, ResourceVersion, Uid};
use serde_json::json;
use tower::util::MapRequestLayer;

use super::{Bench, GROUP, next};

/// Compares both encodings for a built-in and a custom type: the policy takes effect, a failed
/// precondition prevents the deletion, and the request has the expected encoding.
pub async fn agree(bench: &Bench) {
    for (encoding, content_type) in
        [(Encoding::Json, "application/json"), (Encoding::Protobuf, "application/vnd.kubernetes.protobuf")]
    {
        let wrote = Arc::new(Mutex::new(Vec::new()));
        let api = api(bench, encoding, &wrote).await;
        let custom = format!("{GROUP}/v1");
        let types = [("v1", "ConfigMap"), (&*custom, "Widget")];
        for (api_version, kind) in types {
            // Reading a type tells the client in which encoding to write to it.
            let start = WatchStart { high_water: HighWater::default(), aggregated: false };
            let mut watch = api.watch(bench.resource(api_version, kind), start);
            while !matches!(next(&mut watch).await, Step::InitDone { .. }) {}
            conditions_hold(bench, &api, api_version, kind).await;
            policies_differ(bench, &api, api_version, kind).await;
        }
        let wrote = wrote.lock().unwrap();
        assert_eq!(*wrote, vec![content_type; DELETES * types.len()], "{encoding:?}");
    }
}

/// The number of DELETEs for each type.
const DELETES: usize = 6;

/// A client that records the content types of its DELETEs.
async fn api(bench: &Bench, encoding: Encoding, wrote: &Arc<Mutex<Vec<String>>>) -> Api {
    let config = load_config(Some(&bench.server.kubeconfig), None).await.unwrap();
    let wrote = Arc::clone(wrote);
    let noting = MapRequestLayer::new(move |request: Request<_>| {
        if request.method() == http::Method::DELETE {
            let content_type = request.headers()["content-type"].to_str().unwrap();
            wrote.lock().unwrap().push(content_type.to_owned());
        }
        request
    });
    let client = ClientBuilder::try_from(config).unwrap().with_layer(&noting).build();
    Api::from_clients(client, ApiSettings { encoding, ..ApiSettings::default() }, WriteGate::open())
}

async fn conditions_hold(bench: &Bench, api: &Api, api_version: &str, kind: &str) {
    let (object, facts) = bench.create(api_version, kind, json!({})).await;
    let background = PropagationPolicy::Background;
    let version = facts.resource_version.clone().unwrap();

    let uid = Uid::parse("11111111-2222-3333-4444-555555555555").unwrap();
    let other = Identity { uid, ..object.clone() };
    let refused = api.delete(&other, background, Some(&version)).await.unwrap_err();
    assert_eq!(refused.class, ErrorClass::Conflict, "{refused}");
    let earlier = ResourceVersion::parse("1").unwrap();
    let refused = api.delete(&object, background, Some(&earlier)).await.unwrap_err();
    assert_eq!(refused.class, ErrorClass::Conflict, "{refused}");
    assert_eq!(bench.found(&object).await, facts, "nothing has happened to it");

    assert_eq!(api.delete(&object, background, Some(&version)).await, Ok(Deleted::Removed));
    assert!(matches!(api.delete(&object, background, None).await, Ok(Deleted::AlreadyGone(_))));
}

async fn policies_differ(bench: &Bench, api: &Api, api_version: &str, kind: &str) {
    for policy in [PropagationPolicy::Foreground, PropagationPolicy::Orphan] {
        let (object, _) = bench.create(api_version, kind, json!({})).await;
        let Ok(Deleted::Pending(ObjectFacts { finalizers, .. })) = api.delete(&object, policy, None).await
        else {
            panic!("{object} should wait for its dependents");
        };
        let waits = (finalizers.foreground, finalizers.orphan);
        let foreground = policy == PropagationPolicy::Foreground;
        assert_eq!(waits, (foreground, !foreground), "{object} {policy}");
    }
}
