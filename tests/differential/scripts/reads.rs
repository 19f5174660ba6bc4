//! Bookmarks.

use serde_json::json;

use super::{place, send};
use crate::request::{Request, Step};
use crate::types::SECRETS;

/// Watches that last long enough for a bookmark, which arrives if anything happens to the type
/// after they have begun. (Nothing else changes Secrets.)
pub(super) fn bookmarks() -> Vec<Step> {
    let (path, name) = place(&SECRETS);
    let create = |name: &str| send("POST", path.clone(), SECRETS.object(json!({ "name": name })));
    let bookmarks = || Request { bookmarks: true, ..Request::new("GET", path.clone()) };
    let watch = bookmarks()
        .with("watch", "1")
        .with("timeoutSeconds", "6")
        .with("resourceVersion", "<1/metadata/resourceVersion>");
    let willing = watch.clone().with("allowWatchBookmarks", "true");
    let partial = willing.clone().accept("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    let streamed = bookmarks()
        .with("watch", "1")
        .with("timeoutSeconds", "6")
        .with("fieldSelector", "metadata.name=before")
        .with("sendInitialEvents", "true")
        .with("allowWatchBookmarks", "true");
    let to_the_end = |opened: usize| Step::Close { opened, until: "nobody".to_owned() };
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
