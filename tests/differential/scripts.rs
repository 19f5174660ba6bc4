//! Sequences that are written by hand: what random ones would hardly come upon, and
//! what takes its time.

use serde_json::{Value, json};

use super::generate::NO_UID;
use super::request::{Body, Kind, Request, Step};
use super::types::{CONFIG_MAPS, GROUP, NODES, PODS, REPLICATION_CONTROLLERS, SECRETS, Type, WIDGETS};

const MERGE: &str = "application/merge-patch+json";
const JSON: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A sequence with a name.
pub struct Script {
    /// What it is about.
    pub name: &'static str,
    /// Its steps.
    pub steps: Vec<Step>,
}

/// All of them.
pub fn all() -> Vec<Script> {
    vec![
        script("policies", watched(&CONFIG_MAPS, policies(&CONFIG_MAPS))),
        script("policies-custom", watched(&WIDGETS, policies(&WIDGETS))),
        script(
            "policies-default-orphan",
            watched(&REPLICATION_CONTROLLERS, policies(&REPLICATION_CONTROLLERS)),
        ),
        script("policies-nodes", watched(&NODES, policies(&NODES))),
        script("versions", watched(&CONFIG_MAPS, versions(&CONFIG_MAPS))),
        script("versions-pods", watched(&PODS, versions(&PODS))),
        script("grace", watched(&PODS, grace())),
        script("patches", patches(&CONFIG_MAPS)),
        script("patches-custom", patches(&WIDGETS)),
        script("json-patches", json_patches()),
        script("references", references()),
        script("namespace", namespace()),
        script("selectors", selectors()),
        script("definition", definition()),
        script("definition-held", definition_held()),
        script("bookmarks", bookmarks()),
    ]
}

fn script(name: &'static str, steps: Vec<Step>) -> Script {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "<run>"}});
    let mut all = vec![send("POST", "/api/v1/namespaces", namespace)];
    all.extend(steps);
    Script { name, steps: all }
}

fn send(method: &'static str, path: impl Into<String>, body: Value) -> Step {
    Step::Send(Request::new(Kind::Odd, method, path).json(body))
}

fn ask(method: &'static str, path: impl Into<String>) -> Step {
    Step::Send(Request::new(Kind::Odd, method, path))
}

fn patch(path: &str, content_type: &'static str, body: Value) -> Step {
    Step::Send(Request::new(Kind::Odd, "PATCH", path).typed(content_type, Body::Json(body)))
}

/// Metadata that watches of a run select.
fn new(name: &str, finalizers: &Value) -> Value {
    json!({"name": name, "labels": {"run": "<run>"}, "finalizers": finalizers})
}

/// Where the objects of a type are, and what such an object is called.
fn place(of: &Type) -> (String, &'static str) {
    if of.namespaced { (of.collection(Some("<run>")), "one") } else { (of.collection(None), "<run>") }
}

/// The steps with a watch of all that they do. (References in them count from the
/// step that creates the namespace.)
fn watched(of: &Type, steps: Vec<Step>) -> Vec<Step> {
    let (path, _) = place(of);
    let labels = json!({"run": "<run>"});
    let marker = |name: &str| send("POST", path.clone(), of.object(json!({"name": name, "labels": labels})));
    let request = Request::new(Kind::Odd, "GET", path.clone())
        .with("watch", "1")
        .with("labelSelector", "run=<run>")
        .with("resourceVersion", "<1/metadata/resourceVersion>");
    let mut all = vec![marker("<run>first"), Step::Open(request)];
    all.extend(steps);
    all.push(marker("<run>last"));
    all.push(Step::Close { opened: 2, until: "<run>last".to_owned(), existing: None });
    all
}

/// Preconditions on versions, with policies that strip finalizers.
fn versions(of: &Type) -> Vec<Step> {
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
                // The namespace, the marker and the watch come before.
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

/// Every policy after every other, with each finalizer there before.
fn policies(of: &Type) -> Vec<Step> {
    let (path, name) = place(of);
    let one = format!("{path}/{name}");
    let options = [
        None,
        Some(json!({"propagationPolicy": "Background"})),
        Some(json!({"propagationPolicy": "Foreground"})),
        Some(json!({"propagationPolicy": "Orphan"})),
        Some(json!({"orphanDependents": true})),
        Some(json!({"orphanDependents": false})),
        Some(json!({"gracePeriodSeconds": 0})),
    ];
    let delete = |options: &Option<Value>| match options {
        None => ask("DELETE", one.clone()),
        Some(options) => send("DELETE", one.clone(), options.clone()),
    };
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

/// Pods that take their time.
fn grace() -> Vec<Step> {
    let (path, name) = place(&PODS);
    let one = format!("{path}/{name}");
    let mut steps = Vec::new();
    let graces = [json!({}), json!({"gracePeriodSeconds": 0}), json!({"gracePeriodSeconds": 5})];
    let graces = graces.into_iter().chain([
        json!({"gracePeriodSeconds": 60, "propagationPolicy": "Orphan"}),
        json!({"gracePeriodSeconds": 0, "propagationPolicy": "Foreground"}),
        json!({"gracePeriodSeconds": 20, "propagationPolicy": "Background"}),
    ]);
    let graces: Vec<Value> = graces.collect();
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
                steps.push(send("DELETE", one.clone(), first.clone()));
                steps.push(send("DELETE", one.clone(), second.clone()));
                steps.push(patch(&one, MERGE, json!({"metadata": {"finalizers": null}})));
                steps.push(ask("GET", one.clone()));
                steps.push(send(
                    "DELETE",
                    one.clone(),
                    json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"}),
                ));
                steps.push(ask("GET", one.clone()));
            }
        }
    }
    steps
}

/// Each field of the metadata, changed by each kind of patch.
fn patches(of: &Type) -> Vec<Step> {
    let (path, name) = place(of);
    let one = format!("{path}/{name}");
    let mut steps = vec![send("POST", path, of.object(json!({"name": name, "finalizers": ["a.b/c"]})))];
    let fields = [
        ("name", json!("another")),
        ("namespace", json!("another")),
        ("uid", json!(NO_UID)),
        ("resourceVersion", json!("1")),
        ("resourceVersion", json!("0")),
        ("resourceVersion", json!("abc")),
        ("creationTimestamp", json!("2020-01-01T00:00:00Z")),
        ("deletionTimestamp", json!("2020-01-01T00:00:00Z")),
        ("deletionGracePeriodSeconds", json!(7)),
        ("generation", json!(77)),
        ("generateName", json!("x-")),
        ("labels", json!({"a": "b"})),
        ("annotations", json!({"a": "b"})),
        ("finalizers", json!(["a.b/c", "a.b/d"])),
        ("finalizers", json!(["a.b/c", "a.b/c"])),
        ("ownerReferences", json!([])),
        ("ownerReferences", json!("text")),
        ("labels", json!({"a": null})),
    ];
    for terminating in [false, true] {
        if terminating {
            steps.push(ask("DELETE", one.clone()));
        }
        for content_type in [MERGE, STRATEGIC] {
            for (field, value) in &fields {
                for value in [value, &Value::Null] {
                    let mut metadata = json!({});
                    metadata[*field] = value.clone();
                    steps.push(patch(&one, content_type, json!({ "metadata": metadata })));
                }
            }
            for whole in
                [json!({}), json!(null), json!([1]), json!({"metadata": null}), json!({"metadata": []})]
            {
                steps.push(patch(&one, content_type, whole));
            }
        }
        for (field, value) in &fields {
            let path = format!("/metadata/{field}");
            steps.push(patch(&one, JSON, json!([{"op": "add", "path": path, "value": value}])));
            steps.push(patch(&one, JSON, json!([{"op": "remove", "path": path}])));
        }
        steps.push(ask("GET", one.clone()));
    }
    steps.push(patch(&one, MERGE, json!({"metadata": {"finalizers": null, "labels": {"last": "1"}}})));
    steps.push(ask("GET", one.clone()));
    steps.push(patch(&one, MERGE, json!({"metadata": {"labels": {"last": "2"}}})));
    steps
}

/// The liberties that Kubernetes takes with RFC 6902.
fn json_patches() -> Vec<Step> {
    let (path, name) = place(&CONFIG_MAPS);
    let one = format!("{path}/{name}");
    let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "n", "uid": uid});
    let owners = json!([owner("1"), owner("2"), owner("3"), owner("4")]);
    let object = CONFIG_MAPS.object(json!({"name": name, "labels": {"a": "1"}, "ownerReferences": owners}));
    let mut steps = vec![send("POST", path, object)];
    let at = |op: &str, path: &str| json!([{"op": op, "path": path, "value": owner("9")}]);
    let owners = "/metadata/ownerReferences";
    for operation in [
        at("add", &format!("{owners}/-")),
        at("add", &format!("{owners}/0")),
        at("add", &format!("{owners}/-1")),
        at("add", &format!("{owners}/-9")),
        at("add", &format!("{owners}/9")),
        // Not "replace" and "test" at a negative index: a real server panics.
        at("replace", &format!("{owners}/9")),
        at("remove", &format!("{owners}/-1")),
        at("remove", &format!("{owners}/9")),
        at("remove", &format!("{owners}/x")),
        json!([{"op": "test", "path": "/metadata/nothing", "value": null}]),
        json!([{"op": "test", "path": "/metadata/nothing/at/all", "value": null}]),
        json!([{"op": "test", "path": "/metadata/labels", "value": {"a": "1"}}]),
        json!([{"op": "test", "path": "/metadata/labels/a", "value": null}]),
        json!([{"op": "replace", "path": "/metadata/labels/b", "value": "2"}]),
        json!([{"op": "replace", "path": "/metadata/nothing/at/all", "value": "2"}]),
        json!([{"op": "remove", "path": "/metadata/nothing"}]),
        json!([{"op": "copy", "from": "/metadata/nothing", "path": "/metadata/labels/c"}]),
        json!([{"op": "move", "from": "/metadata/labels/a", "path": "/metadata/labels/d"}]),
        json!([{"op": "add", "path": "/metadata/labels/e~1f", "value": "3"}]),
        json!([{"op": "add", "path": "", "value": {}}]),
        json!([{"op": "add", "path": "/metadata/labels/a"}]),
        json!([{"path": "/metadata/labels/a"}]),
        json!([{"op": "gizmo", "path": "/metadata/labels/a"}]),
        json!([]),
        json!({}),
        json!("text"),
    ] {
        steps.push(patch(&one, JSON, operation));
    }
    steps.push(ask("GET", one));
    steps
}

/// Strategic merges of owner references and finalizers.
fn references() -> Vec<Step> {
    let (path, name) = place(&CONFIG_MAPS);
    let one = format!("{path}/{name}");
    let owner =
        |name: &str, uid: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid});
    let gone = |uid: &str| json!({"$patch": "delete", "uid": uid});
    let lists = [
        json!({"ownerReferences": [gone("1")]}),
        json!({"ownerReferences": [gone("9")]}),
        json!({"ownerReferences": [gone("1"), gone("2"), gone("3")]}),
        json!({"ownerReferences": [gone("1"), owner("x", "9")]}),
        json!({"ownerReferences": [owner("x", "9"), owner("y", "8")]}),
        json!({"ownerReferences": [owner("x", "3"), owner("y", "9"), owner("z", "1")]}),
        json!({"ownerReferences": [{"uid": "2", "blockOwnerDeletion": true}]}),
        json!({"ownerReferences": [{"uid": "2", "name": null}]}),
        json!({"ownerReferences": [{"$patch": "delete"}]}),
        json!({"ownerReferences": [{"$patch": "gizmo", "uid": "1"}]}),
        json!({"ownerReferences": [{"$patch": "replace"}]}),
        json!({"ownerReferences": [{"$patch": "replace"}, owner("x", "9")]}),
        json!({"ownerReferences": ["text"]}),
        json!({"ownerReferences": {}}),
        json!({"ownerReferences": []}),
        json!({"ownerReferences": null}),
        json!({"$setElementOrder/ownerReferences": [{"uid": "3"}, {"uid": "1"}]}),
        json!({"$setElementOrder/ownerReferences": [{"uid": "9"}, {"uid": "1"}], "ownerReferences": [owner("x", "9")]}),
        json!({"$setElementOrder/ownerReferences": [{"uid": "1"}], "ownerReferences": [owner("x", "9")]}),
        json!({"$setElementOrder/ownerReferences": [{"uid": "2"}, {"uid": "3"}], "ownerReferences": [gone("1")]}),
        json!({"finalizers": ["a.b/e", "a.b/c"]}),
        json!({"$deleteFromPrimitiveList/finalizers": ["a.b/c"]}),
        json!({"$deleteFromPrimitiveList/finalizers": ["a.b/c"], "finalizers": ["a.b/f"]}),
        json!({"$setElementOrder/finalizers": ["a.b/d", "a.b/c"]}),
        json!({"$setElementOrder/finalizers": ["a.b/d", "a.b/f"], "finalizers": ["a.b/f"]}),
        json!({"labels": {"$patch": "replace", "n": "1"}}),
        json!({"labels": {"$patch": "delete"}}),
        json!({"$patch": "replace", "labels": {"n": "1"}}),
    ];
    let mut steps = Vec::new();
    let twins = json!([owner("a", "1"), owner("b", "2"), owner("c", "1"), owner("d", "3")]);
    for owners in [json!([]), json!([owner("a", "1"), owner("b", "2"), owner("d", "3")]), twins] {
        for metadata in &lists {
            let finalizers = if owners == json!([]) { json!([]) } else { json!(["a.b/c", "a.b/d", "a.b/c"]) };
            let mut object = json!({"name": name, "finalizers": finalizers, "ownerReferences": owners});
            if finalizers != json!([]) {
                object["labels"] = json!({"a": "1"});
            }
            steps.push(send("POST", path.clone(), CONFIG_MAPS.object(object)));
            steps.push(patch(&one, STRATEGIC, json!({ "metadata": metadata })));
            steps.push(patch(&one, MERGE, json!({"metadata": {"finalizers": null}})));
            steps.push(send("DELETE", one.clone(), json!({"propagationPolicy": "Background"})));
        }
    }
    steps
}

/// A namespace, from its creation to its end.
fn namespace() -> Vec<Step> {
    let of = "/api/v1/namespaces";
    let one = format!("{of}/<run>n");
    let finalize = |spec: Value| {
        send("PUT", format!("{one}/finalize"), json!({"metadata": {"name": "<run>n"}, "spec": spec}))
    };
    let object = |finalizers: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "<run>n", "finalizers": finalizers}});
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
            send(
                "POST",
                CONFIG_MAPS.collection(Some("<run>n")),
                CONFIG_MAPS.object(json!({"name": "before"})),
            ),
            send("DELETE", one.clone(), json!({"preconditions": {"uid": NO_UID}})),
            send("DELETE", one.clone(), options),
            send("DELETE", one.clone(), json!({"propagationPolicy": "Orphan"})),
            send("DELETE", one.clone(), json!({"preconditions": {"uid": NO_UID}})),
            send(
                "POST",
                CONFIG_MAPS.collection(Some("<run>n")),
                CONFIG_MAPS.object(json!({"name": "after"})),
            ),
            send(
                "POST",
                CONFIG_MAPS.collection(Some("<run>n")),
                json!({"metadata": {"generateName": "after-"}}),
            ),
            patch(
                &format!("{}/before", CONFIG_MAPS.collection(Some("<run>n"))),
                MERGE,
                json!({"metadata": {"labels": {"a": "b"}}}),
            ),
            ask("DELETE", format!("{}/before", CONFIG_MAPS.collection(Some("<run>n")))),
            patch(&one, MERGE, json!({"spec": {"finalizers": null}})),
            patch(&one, MERGE, json!({"metadata": {"finalizers": ["x.y/z"]}})),
            finalize(json!({"finalizers": ["x.y/z"]})),
            finalize(json!({})),
            ask("GET", one.clone()),
            send("DELETE", one.clone(), json!({"propagationPolicy": "Foreground"})),
            ask("DELETE", one.clone()),
            patch(&one, MERGE, json!({"metadata": {"finalizers": null}})),
            ask("GET", one.clone()),
        ]);
    }
    steps
}

/// Selectors, and options that are wrong, in lists and in watches.
fn selectors() -> Vec<Step> {
    let (path, _) = place(&CONFIG_MAPS);
    let mut steps = Vec::new();
    for (name, labels) in [("a", json!({"s": "1"})), ("b", json!({"s": "2", "x": ""})), ("c", json!({}))] {
        steps.push(send("POST", path.clone(), CONFIG_MAPS.object(json!({"name": name, "labels": labels}))));
    }
    let labels = [
        "s",
        "!s",
        "s=1",
        "s==1",
        "s!=1",
        "s in (1,2)",
        "s in (1, 2)",
        "s notin (1)",
        "s in ()",
        "s>1",
        "s<2",
        "s=1,x",
        "x=",
        "s=",
        "=",
        "s=1,",
        ",",
        "s in 1",
        "a b=c",
        "s gt 1",
        "s=a b",
        "!",
        "s>a",
        "a/b/c=1",
        "s in (1",
        "s=1 x=2",
    ];
    for selector in labels {
        steps.push(Step::Send(Request::new(Kind::Odd, "GET", path.clone()).with("labelSelector", selector)));
    }
    let fields = [
        "metadata.name=a",
        "metadata.name==a",
        "metadata.name!=a",
        "metadata.namespace=<run>",
        "metadata.namespace=x",
        "metadata.name=a,metadata.namespace=<run>",
        "metadata.name=",
        "=",
        "metadata.name",
        "metadata.uid=x",
        "spec.nodeName=x",
        "metadata.name=a,metadata.name=b",
    ];
    for selector in fields {
        for path in [&path, &WIDGETS.collection(Some("<run>")), &PODS.collection(Some("<run>"))] {
            steps.push(Step::Send(
                Request::new(Kind::Odd, "GET", path.clone()).with("fieldSelector", selector),
            ));
        }
    }
    for (name, value) in [
        ("limit", "-1"),
        ("limit", "abc"),
        ("continue", "abc"),
        ("continue", "!!!"),
        ("resourceVersion", "abc"),
        ("resourceVersionMatch", "Exact"),
        ("resourceVersionMatch", "Roughly"),
        ("timeoutSeconds", "abc"),
        ("watch", "maybe"),
    ] {
        let request = Request::new(Kind::Odd, "GET", path.clone()).with(name, value);
        steps.push(if name == "watch" {
            Step::Watch(request.with("timeoutSeconds", "1").with("fieldSelector", "metadata.name=a"), None)
        } else {
            Step::Send(request)
        });
    }
    for accept in [
        "",
        "*/*",
        "application/*",
        "text/html",
        "application/json;as=Gizmo;g=meta.k8s.io;v=v1",
        "text/html, application/json",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v7",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v7,application/json",
        "application/json;as=PartialObjectMetadata;v=v1",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io",
    ] {
        for path in [format!("{path}/a"), path.clone()] {
            steps.push(Step::Send(Request::new(Kind::Odd, "GET", path).accept(accept)));
        }
    }
    steps
}

/// A definition that comes and goes.
fn definition() -> Vec<Step> {
    let mut steps = definition_made("Cluster");
    let served = format!("/apis/<run>.{GROUP}/v1/gizmos");
    let one = format!("{DEFINITIONS}/gizmos.<run>.{GROUP}");
    steps.extend([
        send("POST", served.clone(), gizmo("a", &[])),
        ask("DELETE", one.clone()),
        Step::Until(Request::new(Kind::Odd, "GET", one), 404, None),
        Step::Until(Request::new(Kind::Odd, "GET", served.clone()), 404, None),
        send("POST", served, gizmo("b", &[])),
    ]);
    steps
}

/// A definition whose objects hold it.
fn definition_held() -> Vec<Step> {
    let mut steps = definition_made("Namespaced");
    let served = format!("/apis/<run>.{GROUP}/v1/namespaces/<run>/gizmos");
    let one = format!("{DEFINITIONS}/gizmos.<run>.{GROUP}");
    let condition = |index: usize, reason: &str| {
        let place: &'static str =
            ["/status/conditions/0/reason", "/status/conditions/1/reason", "/status/conditions/2/reason"]
                [index];
        Some((place, json!(reason)))
    };
    let marked = Some(("/metadata/deletionGracePeriodSeconds", json!(0)));
    let watch = Request::new(Kind::Odd, "GET", served.clone()).with("watch", "1");
    let first = steps.len() + 1;
    steps.extend([
        send("POST", served.clone(), gizmo("a", &[])),
        send("POST", served.clone(), gizmo("b", &["a.b/c"])),
        Step::Open(watch.with("resourceVersion", format!("<{}/metadata/resourceVersion>", first + 1))),
        send("DELETE", one.clone(), json!({"propagationPolicy": "Foreground"})),
        Step::Until(
            Request::new(Kind::Odd, "GET", one.clone()),
            200,
            condition(2, "InstanceDeletionInProgress"),
        ),
        Step::Until(Request::new(Kind::Odd, "GET", format!("{served}/a")), 404, None),
        Step::Until(Request::new(Kind::Odd, "GET", format!("{served}/b")), 200, marked),
        ask("GET", served.clone()),
        send("POST", served.clone(), gizmo("c", &[])),
        patch(&format!("{served}/b"), MERGE, json!({"metadata": {"finalizers": null}})),
        Step::Until(Request::new(Kind::Odd, "GET", one), 404, None),
        Step::Until(Request::new(Kind::Odd, "GET", served), 404, None),
        // It ends by itself.
        Step::Close { opened: first + 2, until: "nobody".to_owned(), existing: None },
    ]);
    steps
}

fn gizmo(name: &str, finalizers: &[&str]) -> Value {
    json!({
        "apiVersion": format!("<run>.{GROUP}/v1"), "kind": "Gizmo",
        "metadata": {"name": name, "finalizers": finalizers},
    })
}

fn definition_made(scope: &str) -> Vec<Step> {
    let group = format!("<run>.{GROUP}");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gizmos.{group}")},
        "spec": {
            "group": group, "scope": scope,
            "names": {"plural": "gizmos", "singular": "gizmo", "kind": "Gizmo", "listKind": "GizmoList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }}],
        },
    });
    let one = format!("{DEFINITIONS}/gizmos.{group}");
    let established = Some(("/status/conditions/1/status", json!("True")));
    let listed = Some(("/kind", json!("GizmoList")));
    vec![
        send("POST", DEFINITIONS, definition),
        Step::Until(Request::new(Kind::Odd, "GET", one), 200, established),
        Step::Until(Request::new(Kind::Odd, "GET", format!("/apis/{group}/v1/gizmos")), 200, listed),
    ]
}

/// Watches that last long enough for a bookmark: one comes if anything happens to
/// the type after they have begun. (Nobody else does anything to secrets.)
fn bookmarks() -> Vec<Step> {
    let (path, name) = place(&SECRETS);
    let create = |name: &str| send("POST", path.clone(), SECRETS.object(json!({ "name": name })));
    let watch = Request::new(Kind::Bookmarks, "GET", path.clone())
        .with("watch", "1")
        .with("timeoutSeconds", "6")
        .with("resourceVersion", "<1/metadata/resourceVersion>");
    let willing = watch.clone().with("allowWatchBookmarks", "true");
    let partial = willing.clone().accept("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    let to_the_end = |opened: usize| Step::Close { opened, until: "nobody".to_owned(), existing: None };
    vec![
        create(name),
        create("before"),
        Step::Open(watch),
        Step::Open(willing.clone()),
        Step::Open(partial),
        create("after"),
        to_the_end(3),
        to_the_end(4),
        to_the_end(5),
        // Nothing happens.
        Step::Watch(willing, None),
    ]
}
