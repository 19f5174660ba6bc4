//! Requests the discovery documents.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt as _;
use serde_json::Value;

use super::document::{self, Group, Served, Version};
use crate::call::{Call, JSON};
use crate::client::Api;
use crate::error::{ApiError, ErrorClass};
use crate::path;
use kube_gc_core::graph::DeletesProve;
use kube_gc_core::object::{GroupResource, ResourceType, Scope};
use kube_gc_core::text::bounded;
use kube_gc_insight::{Outside, Unseen};

/// Aggregated discovery, from 1.26 on. Older servers answer with plain documents.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
     application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// How many group versions are requested concurrently.
const AT_ONCE: usize = 16;

/// A part of the API that could not be discovered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupFailure {
    /// The group; `*` if the list of groups could not be read.
    pub group: Box<str>,
    /// The version; `None` for all versions of the group.
    pub version: Option<Box<str>>,
    pub error: String,
}

/// A group, and the end of others, whose objects are never written or deleted, so none is an owner, blocks
/// an owner, or is stuck. metrics-server and the adapters compute them for each read.
const METRICS: &str = "metrics.k8s.io";

impl GroupFailure {
    /// Whether the part may have objects that an answer or an orphan deletion depends on (rule 5.15).
    pub fn may_have_objects(&self) -> bool {
        !self.group.strip_suffix(METRICS).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }

    /// What these failures hide.
    pub fn outside<'a>(failures: impl IntoIterator<Item = &'a Self>) -> Outside {
        let mut outside = Outside::default();
        for failure in failures {
            outside.silent_objects.extend(failure.may_have_objects().then(|| failure.unseen()));
            outside.silent_apis.push(failure.unseen());
        }
        outside
    }

    /// What could not be discovered, for people.
    pub fn part(&self) -> String {
        match (&*self.group, self.version.as_deref()) {
            ("", Some(version)) => version.to_owned(),
            ("", None) => "the core group".to_owned(),
            ("*", _) => "the list of API groups".to_owned(),
            (group, Some(version)) => format!("{group}/{version}"),
            (group, None) => group.to_owned(),
        }
    }

    /// The same for the answer to a question: what it is about, and why it could not be looked at.
    pub fn unseen(&self) -> Unseen {
        Unseen { what: self.part(), why: bounded(&self.error) }
    }
}

/// Requests all documents. Returns all groups, including those of which only earlier documents are
/// known, and what could not be read.
///
/// # Errors
///
/// Nothing could be read.
pub(super) async fn groups(
    api: &Api,
    previous: &[Group],
) -> Result<(Vec<Group>, Vec<GroupFailure>), ApiError> {
    let (core, named) = tokio::join!(root(api, "/api"), root(api, "/apis"));
    let mut failures = Vec::new();
    let mut first_error = None;
    let mut groups = Vec::new();
    let mut kept = Vec::new();
    for (answer, label, is_core) in [(core, "", true), (named, "*", false)] {
        match answer {
            Ok(found) => groups.extend(found),
            Err(error) => {
                kept.extend(previous.iter().filter(|group| group.name.is_empty() == is_core).cloned());
                failures.push(failure(label, None, &error));
                first_error.get_or_insert(error);
            }
        }
    }
    let mut unread: Vec<(&str, &mut Version)> = Vec::new();
    for Group { name, versions } in &mut groups {
        let name: &str = name;
        let versions = versions.iter_mut().filter(|version| !version.current);
        unread.extend(versions.map(|version| (name, version)));
    }
    let asked =
        unread.iter().map(|(group, version)| resources(api.clone(), version_path(group, &version.name)));
    // In order: the result must not depend on which answer comes first.
    let asked = futures::stream::iter(asked.collect::<Vec<_>>()).buffered(AT_ONCE);
    let answers: Vec<_> = asked.collect().await;
    for ((group, version), answer) in unread.into_iter().zip(answers) {
        match answer {
            Ok(resources) => (version.resources, version.current) = (resources, true),
            Err(error) => {
                failures.push(failure(group, Some(&version.name), &error));
                first_error.get_or_insert(error);
                if let Some(known) = find(previous, group, &version.name) {
                    version.resources = Arc::clone(&known.resources);
                }
            }
        }
    }
    if !groups.iter().any(is_known) {
        let why = "the discovery documents name no resources";
        let error = || ApiError {
            code: Some(200),
            ..ApiError::new(ErrorClass::Unusable, "DISCOVER", "the server", why)
        };
        return Err(first_error.unwrap_or_else(error));
    }
    groups.extend(kept);
    Ok((groups, failures))
}

/// The parts of which nothing was ever read.
pub(super) fn never_read(groups: &[Group], failures: &[GroupFailure]) -> Vec<GroupFailure> {
    // A list of groups that fails leaves the groups that were known before.
    let is_known = |list: &str| groups.iter().any(|group| group.name.is_empty() == list.is_empty());
    let lists = failures.iter().filter(|failed| failed.version.is_none() && !is_known(&failed.group));
    let mut parts: Vec<_> = lists.cloned().collect();
    for group in groups {
        for version in group.versions.iter().filter(|version| version.is_unread()) {
            let is_it = |failed: &&GroupFailure| {
                failed.group == group.name && failed.version.as_ref() == Some(&version.name)
            };
            let list = if group.name.is_empty() { "" } else { "*" };
            let is_list = |failed: &&GroupFailure| *failed.group == *list && failed.version.is_none();
            let failed = failures.iter().find(is_it).or_else(|| failures.iter().find(is_list));
            let (group, version) = (group.name.clone(), Some(version.name.clone()));
            parts.extend(failed.map(|failed| GroupFailure { group, version, ..failed.clone() }));
        }
    }
    parts
}

/// Whether a current document of the group was read.
fn is_known(group: &Group) -> bool {
    group.versions.iter().any(|version| version.current && !version.resources.is_empty())
}

fn find<'a>(groups: &'a [Group], group: &str, version: &str) -> Option<&'a Version> {
    let group = groups.iter().find(|known| *known.name == *group)?;
    group.versions.iter().find(|known| *known.name == *version)
}

async fn root(api: &Api, path: &str) -> Result<Vec<Group>, ApiError> {
    let answer = api.call(Call::discover(path, AGGREGATED)).await?;
    document::root(&answer.body).map_err(|fault| answer.unusable(fault))
}

fn version_path(group: &str, version: &str) -> String {
    let mut path = String::from(if group.is_empty() { "/api/" } else { "/apis/" });
    if !group.is_empty() {
        path::encode(&mut path, group);
        path.push('/');
    }
    path::encode(&mut path, version);
    path
}

async fn resources(api: Api, path: String) -> Result<Arc<[Served]>, ApiError> {
    let answer = api.call(Call::discover(path, JSON)).await?;
    document::resources(&answer.body).map_err(|fault| answer.unusable(fault))
}

fn failure(group: &str, version: Option<&str>, error: &ApiError) -> GroupFailure {
    GroupFailure { group: group.into(), version: version.map(Into::into), error: error.to_string() }
}

/// The group versions that have an `APIService`, and whether it delegates to another server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Services(HashMap<(Box<str>, Box<str>), bool>);

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
    pub fn read(body: &[u8]) -> Option<Self> {
        let list: Value = serde_json::from_slice(body).ok()?;
        let services = list["items"].as_array().filter(|_| list["kind"] == "APIServiceList")?;
        let service = |service: &Value| {
            let spec = &service["spec"];
            let text = |field: &str| Box::from(spec[field].as_str().unwrap_or_default());
            ((text("group"), text("version")), !spec["service"].is_null())
        };
        Some(Self(services.iter().map(service).collect()))
    }

    /// Nothing unless the API server is known to serve the version itself. If this is wrong, it
    /// costs one GET for each owner that seems absent.
    pub fn deletes_prove(&self, group: &str, version: &str) -> DeletesProve {
        let service = self.0.get(&(group.into(), version.into()));
        let is_aggregated = service.copied().unwrap_or_else(|| !BUILT_IN.contains(&group));
        if is_aggregated { DeletesProve::Nothing } else { DeletesProve::Absence }
    }
}

/// Reads the `APIService`s. `None` if they cannot be read: then what was known before stays.
/// This is not an error, because the permission may be missing.
pub(super) async fn services(api: &Api) -> Option<Services> {
    const PATH: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
    match api.call(Call::discover(PATH, JSON)).await {
        Ok(answer) => Services::read(&answer.body),
        Err(error) => {
            tracing::debug!(%error, "cannot read the APIServices; kube-gc keeps what it knows of aggregated APIs");
            None
        }
    }
}

/// The object that defines a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Definition {
    Crd(GroupResource),
    /// The APIService of a group version. Every version of a named group has one.
    ApiService {
        group: Box<str>,
        version: Box<str>,
    },
}

impl Api {
    /// Whether a definition exists, by a live read.
    ///
    /// # Errors
    ///
    /// The answer is neither the object nor its own 404.
    pub async fn is_defined(&self, definition: &Definition) -> Result<bool, ApiError> {
        let (resource, kind, name) = match definition {
            Definition::Crd(of) => {
                ("customresourcedefinitions.apiextensions.k8s.io", "CustomResourceDefinition", of.to_string())
            }
            Definition::ApiService { group, version } => {
                ("apiservices.apiregistration.k8s.io", "APIService", format!("{version}.{group}"))
            }
        };
        let resource = ResourceType::of(resource, "v1", kind, Scope::Cluster);
        Ok(ApiError::unless_absent(self.get_named(&resource, None, &name).await)?.is_some())
    }
}
