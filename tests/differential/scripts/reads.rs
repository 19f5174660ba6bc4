//! Selectors, forms and bookmarks.

use serde_json::json;

use super::{MERGE, ask, patch, place, send};
use crate::request::{Body, Kind, Request, Step};
use crate::types::{CONFIG_MAPS, GADGETS, NODES, PODS, SECRETS, WIDGETS};

/// Valid and invalid selectors and options, in lists and watches.
pub(super) fn selectors() -> Vec<Step> {
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
        ("timeoutSeconds", "9223372036854775807"),
        ("watch", "maybe"),
    ] {
        let request = Request::new(Kind::Odd, "GET", path.clone()).with(name, value);
        steps.push(if name == "watch" {
            Step::Watch(request.with("timeoutSeconds", "1").with("fieldSelector", "metadata.name=a"), None)
        } else {
            Step::Send(request)
        });
    }
    // A negative timeout, and one that overflows.
    for timeout in ["-5", "9223372036854775807"] {
        let watch = Request::new(Kind::Odd, "GET", path.clone()).with("watch", "1");
        let watch = watch.with("fieldSelector", "metadata.name=nobody").with("timeoutSeconds", timeout);
        steps.push(Step::Watch(watch, None));
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

/// Metadata in both existing versions.
pub(super) fn forms() -> Vec<Step> {
    let mut steps = Vec::new();
    for of in [&CONFIG_MAPS, &WIDGETS] {
        let (path, name) = place(of);
        steps.push(send("POST", path.clone(), of.object(json!({ "name": name }))));
        for version in ["v1", "v1beta1"] {
            for kind in ["PartialObjectMetadata", "PartialObjectMetadataList"] {
                let accept = format!("application/json;as={kind};g=meta.k8s.io;v={version}");
                let get = |path: String| Request::new(Kind::Odd, "GET", path).accept(&accept);
                steps.push(Step::Send(get(format!("{path}/{name}"))));
                steps.push(Step::Send(get(path.clone())));
                steps.push(Step::Send(get(path.clone()).with("fieldSelector", "metadata.name=nobody")));
                // Not a watch of lists: a real server opens one that shows nothing.
                if kind != "PartialObjectMetadataList" {
                    let watch = get(path.clone()).with("watch", "1").with("timeoutSeconds", "1");
                    steps.push(Step::Watch(watch, None));
                }
                let metadata = json!({"metadata": {"annotations": {"in": version, "as": kind}}});
                let patch = Request::new(Kind::Odd, "PATCH", format!("{path}/{name}")).accept(&accept);
                steps.push(Step::Send(patch.typed(MERGE, Body::Json(metadata))));
            }
        }
    }
    steps
}

/// Paths that do not exist, below objects and elsewhere.
pub(super) fn paths() -> Vec<Step> {
    let mut steps = Vec::new();
    for of in [&CONFIG_MAPS, &WIDGETS, &PODS, &GADGETS, &NODES] {
        let (path, name) = place(of);
        steps.push(send("POST", path.clone(), of.object(json!({ "name": name }))));
        for name in [name, "nobody"] {
            // Further below a custom resource, some answers say that it does not exist.
            let deeper = if of.group.is_empty() { "zork/zork" } else { "zork" };
            for below in ["zork", deeper] {
                let one = format!("{path}/{name}/{below}");
                steps.push(ask("GET", one.clone()));
                steps.push(send("PUT", one.clone(), json!({})));
                steps.push(patch(&one, MERGE, json!({"status": {"a": 1}})));
                steps.push(ask("DELETE", one));
            }
        }
        for name in [name, "nobody"] {
            // A namespaced object in the cluster scope, and vice versa.
            let elsewhere = of.collection((!of.namespaced).then_some("<run>"));
            steps.push(ask("GET", format!("{elsewhere}/{name}")));
            steps.push(ask("DELETE", format!("{elsewhere}/{name}")));
        }
    }
    for below in ["status", "scale"] {
        let (path, name) = place(&WIDGETS);
        for name in [name, "nobody"] {
            let one = format!("{path}/{name}/{below}");
            steps.push(ask("GET", one.clone()));
            steps.push(patch(&one, MERGE, json!({"status": {"a": 1}})));
            steps.push(send("PUT", one, WIDGETS.object(json!({ "name": name }))));
        }
    }
    steps
}

/// Watches that last long enough for a bookmark, which arrives if anything happens to the type
/// after they have begun. (Nothing else changes Secrets.)
pub(super) fn bookmarks() -> Vec<Step> {
    let (path, name) = place(&SECRETS);
    let create = |name: &str| send("POST", path.clone(), SECRETS.object(json!({ "name": name })));
    let watch = Request::new(Kind::Bookmarks, "GET", path.clone())
        .with("watch", "1")
        .with("timeoutSeconds", "6")
        .with("resourceVersion", "<1/metadata/resourceVersion>");
    let willing = watch.clone().with("allowWatchBookmarks", "true");
    let partial = willing.clone().accept("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    let streamed = Request::new(Kind::Bookmarks, "GET", path.clone())
        .with("watch", "1")
        .with("timeoutSeconds", "6")
        .with("fieldSelector", "metadata.name=before")
        .with("sendInitialEvents", "true")
        .with("allowWatchBookmarks", "true");
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
        // Without a change.
        Step::Watch(willing, None),
        // A parameter that 1.20 does not know.
        Step::Watch(streamed, None),
    ]
}
