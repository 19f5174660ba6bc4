//! The limit: a client that knows all objects in advance, and has as many requests in flight as
//! the others have workers.

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use serde_json::json;

use crate::http::{Call, Client};
use crate::objects::{Family, Mode, Object};

/// How many requests are in flight at a time.
pub const WORKERS: usize = 20;

/// The DELETE of a dependent, with the preconditions that a careful collector sends.
pub fn deletion(object: &Object) -> Call {
    let body = json!({
        "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": Mode::Background.policy(),
        "preconditions": {"uid": object.uid, "resourceVersion": object.version},
    });
    Call::with(Method::DELETE, object.path(), &body)
}

/// The PATCH that removes the reference to its owner from a dependent.
fn release(object: &Object, owner: &Object) -> Call {
    let body = json!({"metadata": {
        "uid": object.uid, "resourceVersion": object.version,
        "ownerReferences": [{"$patch": "delete", "uid": owner.uid}],
    }});
    let call = Call::with(Method::PATCH, object.path(), &body);
    Call { content_type: "application/strategic-merge-patch+json", ..call }
}

/// The PATCH that removes the finalizer of a waiting owner.
fn farewell(owner: &Object) -> Call {
    let body = json!({"metadata": {"uid": owner.uid, "finalizers": null}});
    let call = Call::with(Method::PATCH, owner.path(), &body);
    Call { content_type: "application/merge-patch+json", ..call }
}

/// All requests that follow the deletion of owners, prepared in advance.
#[derive(Debug)]
pub struct Cascade {
    dependents: Vec<Call>,
    farewells: Vec<Call>,
}

impl Cascade {
    /// The requests for owners that will be deleted with this policy.
    pub fn prepare(families: &[Family], mode: Mode) -> Self {
        let dependents = |family: &Family| -> Vec<Call> {
            let dependents = family.dependents.iter();
            match mode {
                Mode::Background | Mode::Foreground => dependents.map(deletion).collect(),
                Mode::Orphan => dependents.map(|object| release(object, &family.owner)).collect(),
            }
        };
        let farewells = match mode {
            Mode::Background => Vec::new(),
            Mode::Foreground | Mode::Orphan => {
                families.iter().map(|family| farewell(&family.owner)).collect()
            }
        };
        Self { dependents: families.iter().flat_map(dependents).collect(), farewells }
    }

    /// Sends the requests, after the owners were deleted.
    pub async fn run(self, client: &Client) -> Result<()> {
        for calls in [self.dependents, self.farewells] {
            stream::iter(calls)
                .map(async |call| client.send(call).await?.success())
                .buffer_unordered(WORKERS)
                .try_for_each(async |_| Ok(()))
                .await?;
        }
        Ok(())
    }
}
