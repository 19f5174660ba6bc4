//! All ways to delete objects.

use serde_json::{Value, json};

use super::{MERGE, NO_UID, ask, new, patch, place, send};
use crate::request::{Request, Step};
use crate::types::{CONFIG_MAPS, PODS, Type};

/// Every policy after every other one, with each finalizer set before.
pub(super) fn policies(of: &Type) -> Vec<Step> {
    let (path, name) = place(of);
    let one = format!("{path}/{name}");
    let options = [
        json!({}),
        json!({"propagationPolicy": "Background"}),
        json!({"propagationPolicy": "Foreground"}),
        json!({"propagationPolicy": "Orphan"}),
        json!({"orphanDependents": true}),
        json!({"orphanDependents": false}),
        json!({"gracePeriodSeconds": 0}),
    ];
    let delete = |options: &Value| send("DELETE", one.clone(), options.clone());
    let mut steps = Vec::new();
    for finalizers in [json!([]), json!(["a.b/c"]), json!(["orphan"]), json!(["foregroundDeletion", "a.b/c"])]
    {
        for first in &options {
            for second in &options {
                steps.push(send("POST", path.clone(), of.object(new(name, &finalizers))));
                steps.push(delete(first));
                steps.push(delete(second));
                steps.push(ask("GET", one.clone()));
                steps.push(patch(&one, MERGE, json!({"metadata": {"finalizers": null}})));
                steps.push(ask("GET", one.clone()));
            }
        }
    }
    steps
}

/// Preconditions on versions, with policies that remove finalizers.
pub(super) fn versions(of: &Type) -> Vec<Step> {
    let (path, name) = place(of);
    let one = format!("{path}/{name}");
    let policies = ["Background", "Foreground", "Orphan"];
    let mut steps = Vec::new();
    for finalizers in [json!([]), json!(["orphan"]), json!(["foregroundDeletion", "a.b/c"])] {
        for before in policies {
            for policy in policies {
                let labels = json!({"run": "<run>"});
                let metadata = json!({"name": name, "labels": labels, "finalizers": finalizers});
                steps.push(send("POST", path.clone(), of.object(metadata)));
                steps.push(send("DELETE", one.clone(), json!({"propagationPolicy": before})));
                steps.push(ask("GET", one.clone()));
                // After the namespace, the marker and the watch.
                let seen = steps.len() + 2;
                let version = format!("<{seen}/metadata/resourceVersion>");
                let preconditions = json!({"resourceVersion": version});
                steps.push(send(
                    "DELETE",
                    one.clone(),
                    json!({"propagationPolicy": policy, "preconditions": preconditions}),
                ));
                steps.push(ask("GET", one.clone()));
                steps.push(patch(&one, MERGE, json!({"metadata": {"finalizers": null}})));
            }
        }
    }
    steps
}

/// Collections that are deleted page by page, behind objects that are held.
pub(super) fn pages(of: &Type) -> Vec<Step> {
    let (path, _) = place(of);
    let mut steps = Vec::new();
    let held = ["a", "b"].map(|name| (name, json!(["a.b/c"])));
    for (name, finalizers) in held.into_iter().chain(["c", "d", "e"].map(|name| (name, json!([])))) {
        steps.push(send("POST", path.clone(), of.object(new(name, &finalizers))));
    }
    let metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    for accept in [metadata, "application/json"] {
        let page = |limit: Option<&str>, next: Option<String>| {
            let request = Request { accept, ..Request::new("DELETE", path.clone()) };
            let request = limit.into_iter().fold(request, |request, limit| request.with("limit", limit));
            let request = next.into_iter().fold(request, |request, next| request.with("continue", next));
            Step::Send(request.json(json!({"propagationPolicy": "Background"})))
        };
        // After the namespace, the marker and the watch.
        let next = |step: usize| Some(format!("<{}/metadata/continue>", step + 3));
        let first = steps.len();
        steps.push(page(Some("2"), None));
        steps.push(ask("GET", path.clone()));
        let second = steps.len();
        steps.push(page(Some("2"), next(first)));
        steps.push(ask("GET", path.clone()));
        // A page that was deleted before, but for an object that was created again.
        steps.push(send("POST", path.clone(), of.object(new("c", &json!([])))));
        steps.push(page(Some("2"), next(first)));
        steps.push(page(Some("500"), next(second)));
        steps.push(ask("GET", path.clone()));
        steps.push(page(Some("1"), None));
        steps.push(page(Some("1"), Some("abc".to_owned())));
        steps.push(page(None, next(first)));
        for name in ["f", "g"] {
            steps.push(send("POST", path.clone(), of.object(new(name, &json!([])))));
        }
    }
    for name in ["a", "b"] {
        steps.push(patch(&format!("{path}/{name}"), MERGE, json!({"metadata": {"finalizers": null}})));
    }
    steps
}

/// Pods with a grace period.
pub(super) fn grace() -> Vec<Step> {
    let (path, name) = place(&PODS);
    let one = format!("{path}/{name}");
    let mut steps = Vec::new();
    let graces = [
        json!({}),
        json!({"gracePeriodSeconds": 0}),
        json!({"gracePeriodSeconds": 5}),
        json!({"gracePeriodSeconds": 60, "propagationPolicy": "Orphan"}),
        json!({"gracePeriodSeconds": 0, "propagationPolicy": "Foreground"}),
        json!({"gracePeriodSeconds": 20, "propagationPolicy": "Background"}),
    ];
    let delete = |options: Value| send("DELETE", one.clone(), options);
    for (bound, phase, finalizers) in [
        (true, "Running", json!([])),
        (true, "Running", json!(["a.b/c"])),
        (true, "Succeeded", json!([])),
        (false, "Pending", json!(["a.b/c"])),
    ] {
        for first in &graces {
            for second in &graces {
                let mut pod = PODS.object(new(name, &finalizers));
                if bound {
                    pod["spec"]["nodeName"] = "somewhere".into();
                }
                steps.push(send("POST", path.clone(), pod));
                steps.push(patch(&format!("{one}/status"), MERGE, json!({"status": {"phase": phase}})));
                steps.push(delete(first.clone()));
                steps.push(delete(second.clone()));
                steps.push(patch(&one, MERGE, json!({"metadata": {"finalizers": null}})));
                steps.push(ask("GET", one.clone()));
                steps.push(delete(json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"})));
                steps.push(ask("GET", one.clone()));
            }
        }
    }
    steps
}

/// A namespace, from its creation to its end.
pub(super) fn namespace() -> Vec<Step> {
    let of = "/api/v1/namespaces";
    let one = format!("{of}/<run>n");
    let finalize = |spec: Value| {
        send("PUT", format!("{one}/finalize"), json!({"metadata": {"name": "<run>n"}, "spec": spec}))
    };
    let object = |finalizers: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "<run>n", "finalizers": finalizers}});
    let inside = CONFIG_MAPS.collection(Some("<run>n"));
    let create = |metadata: Value| send("POST", inside.clone(), CONFIG_MAPS.object(metadata));
    let delete = |options: Value| send("DELETE", one.clone(), options);
    let mut steps = Vec::new();
    for (finalizers, options) in [
        (json!([]), json!({})),
        (json!([]), json!({"propagationPolicy": "Foreground"})),
        (json!(["a.b/c", "a.b/c"]), json!({"propagationPolicy": "Orphan"})),
        (json!(["orphan"]), json!({"propagationPolicy": "Background"})),
        (json!(["a.b/c"]), json!({"orphanDependents": false})),
    ] {
        steps.extend([
            send("POST", of, object(finalizers)),
            create(json!({"name": "before"})),
            delete(json!({"preconditions": {"uid": NO_UID}})),
            delete(options),
            delete(json!({"propagationPolicy": "Orphan"})),
            delete(json!({"preconditions": {"uid": NO_UID}})),
            create(json!({"name": "after"})),
            create(json!({"generateName": "after-"})),
            patch(&format!("{inside}/before"), MERGE, json!({"metadata": {"labels": {"a": "b"}}})),
            ask("DELETE", format!("{inside}/before")),
            patch(&one, MERGE, json!({"spec": {"finalizers": null}})),
            patch(&one, MERGE, json!({"metadata": {"finalizers": ["x.y/z"]}})),
            finalize(json!({"finalizers": ["x.y/z"]})),
            finalize(json!({})),
            ask("GET", one.clone()),
            delete(json!({"propagationPolicy": "Foreground"})),
            ask("DELETE", one.clone()),
            patch(&one, MERGE, json!({"metadata": {"finalizers": null}})),
            ask("GET", one.clone()),
        ]);
    }
    steps
}
