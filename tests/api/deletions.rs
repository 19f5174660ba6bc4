//! The preconditions and the policy of a DELETE take effect.

use kube_gc::internals::api::{Deleted, ErrorClass};
use kube_gc_core::object::{Identity, ObjectFacts, PropagationPolicy, ResourceVersion, Uid};
use serde_json::json;

use super::{Bench, GROUP};

/// For a built-in and a custom type.
pub async fn take_effect(bench: &Bench) {
    let custom = format!("{GROUP}/v1");
    for (api_version, kind) in [("v1", "ConfigMap"), (&*custom, "Widget")] {
        conditions_hold(bench, api_version, kind).await;
        policies_differ(bench, api_version, kind).await;
    }
}

async fn conditions_hold(bench: &Bench, api_version: &str, kind: &str) {
    let (object, facts) = bench.create(api_version, kind, json!({})).await;
    let background = PropagationPolicy::Background;
    let version = facts.resource_version.clone().unwrap();

    let uid = Uid::parse("11111111-2222-3333-4444-555555555555").unwrap();
    let other = Identity { uid, ..object.clone() };
    let refused = bench.api.delete(&other, background, Some(&version)).await.unwrap_err();
    assert_eq!(refused.class, ErrorClass::Conflict, "{refused}");
    let earlier = ResourceVersion::parse("1").unwrap();
    let refused = bench.api.delete(&object, background, Some(&earlier)).await.unwrap_err();
    assert_eq!(refused.class, ErrorClass::Conflict, "{refused}");
    assert_eq!(bench.found(&object).await, facts, "nothing has happened to it");

    assert_eq!(bench.api.delete(&object, background, Some(&version)).await, Ok(Deleted::Removed));
    assert!(matches!(bench.api.delete(&object, background, None).await, Ok(Deleted::AlreadyGone(_))));
}

async fn policies_differ(bench: &Bench, api_version: &str, kind: &str) {
    for policy in [PropagationPolicy::Foreground, PropagationPolicy::Orphan] {
        let (object, _) = bench.create(api_version, kind, json!({})).await;
        let Ok(Deleted::Pending(ObjectFacts { finalizers, .. })) =
            bench.api.delete(&object, policy, None).await
        else {
            panic!("{object} should wait for its dependents");
        };
        let waits = (finalizers.foreground, finalizers.orphan);
        let foreground = policy == PropagationPolicy::Foreground;
        assert_eq!(waits, (foreground, !foreground), "{object} {policy}");
    }
}
