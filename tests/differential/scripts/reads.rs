//! Selectors, forms and bookmarks.

use serde_json::json;

use super::{place, send};
use crate::request::{Kind, Request, Step};
use crate::types::{CONFIG_MAPS, PODS, SECRETS, WIDGETS};

/// Selectors, and options that are wrong, in lists and in watches.
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

/// Watches that last long enough for a bookmark: one comes if anything happens to
/// the type after they have begun. (Nobody else does anything to secrets.)
pub(super) fn bookmarks() -> Vec<Step> {
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
