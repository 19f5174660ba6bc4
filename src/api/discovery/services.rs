//! Which group versions aggregated APIs serve.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::api::call::{Call, discovery_resource};
use crate::api::client::Api;
use crate::api::media_type::JSON;
use crate::api::settings::Verb;
use kube_gc_decode::{Keyed, Text};

/// The group versions that have an `APIService`, and whether it delegates to another server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Services(HashMap<GroupVersion, bool>);

pub(super) type GroupVersion = (Box<str>, Box<str>);

/// The groups of the Kubernetes API server itself. Only the `APIService`s show whether an
/// aggregated API serves one of them.
const BUILT_IN: [&str; 24] = [
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "extensions",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

impl Services {
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn of(services: HashMap<GroupVersion, bool>) -> Self {
        Self(services)
    }

    /// True unless the API server is known to serve the version itself. If this is wrong, it
    /// costs one GET for each owner that seems absent.
    pub fn is_aggregated(&self, group: &str, version: &str) -> bool {
        let service = self.0.get(&(group.into(), version.into()));
        service.copied().unwrap_or_else(|| !BUILT_IN.contains(&group))
    }
}

/// Reads the `APIService`s. `None` if they cannot be read: then what was known before stays.
/// This is not an error, because the permission may be missing.
pub(super) async fn read(api: &Api) -> Option<Services> {
    const PATH: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
    let discovery = discovery_resource();
    match api.call(Call::get(Verb::Discover, PATH.into(), JSON, &discovery)).await {
        Ok(answer) => services(&answer.body).map(Services),
        Err(error) => {
            tracing::debug!(%error, "cannot read the APIServices; kube-gc keeps what it knows of aggregated APIs");
            None
        }
    }
}

pub(super) fn services(body: &[u8]) -> Option<HashMap<GroupVersion, bool>> {
    #[derive(Deserialize)]
    struct List<'a> {
        #[serde(borrow)]
        kind: Text<'a>,
        #[serde(borrow)]
        items: Vec<Keyed<Item<'a>>>,
    }
    #[derive(Deserialize)]
    struct Item<'a> {
        #[serde(borrow)]
        spec: Keyed<Spec<'a>>,
    }
    #[derive(Deserialize)]
    struct Spec<'a> {
        #[serde(borrow, default)]
        group: Text<'a>,
        #[serde(borrow, default)]
        version: Text<'a>,
        #[serde(default)]
        service: Option<IgnoredAny>,
    }
    let Keyed(list): Keyed<List<'_>> = serde_json::from_slice(body).ok()?;
    (&*list.kind == "APIServiceList").then(|| {
        list.items
            .into_iter()
            .map(|Keyed(Item { spec: Keyed(spec) })| {
                (((&*spec.group).into(), (&*spec.version).into()), spec.service.is_some())
            })
            .collect()
    })
}
