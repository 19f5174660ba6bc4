//! The debug pages of a running collector as a source of answers, and how one is found.

mod connection;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::tree::TreeQuery;
use kube_gc_client::{Api, ErrorClass, LabelledPod, encode};
use kube_gc_core::object::{GroupResource, Identity, Namespace, Uid};
use kube_gc_core::text::bounded;
use kube_gc_insight::{Answer, NeighbourhoodPage, StuckReport, join};

use connection::{ANSWER_TIMEOUT, FIRST_TIMEOUT};
pub use connection::{CollectorError, Credentials, Endpoint};

/// The most objects of one page.
const PAGE: usize = 200;
/// The most dependents of a type of which a page can show several levels.
const MOST_OF_A_TYPE: usize = 200;

/// A collector that has answered.
#[derive(Clone, Debug)]
pub struct Collector {
    endpoint: Endpoint,
    /// Another replica works.
    pub(super) is_standby: bool,
    /// It writes nothing.
    pub(super) is_dry_run: bool,
    /// It, or the leader beside it, empties namespaces that are being deleted.
    pub(super) finishes_namespaces: bool,
}

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.endpoint.fmt(f)
    }
}

/// The object of a question to a collector, which knows objects by their uids.
#[derive(Clone, Debug)]
pub struct ObjectRef {
    pub uid: Uid,
    /// Unless it is named by its uid alone.
    pub resource: Option<GroupResource>,
}

impl From<&Identity> for ObjectRef {
    fn from(identity: &Identity) -> Self {
        Self { uid: identity.uid.clone(), resource: Some(identity.resource.group_resource.clone()) }
    }
}

/// As the parameters of a page.
impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = "uid=".to_owned();
        encode(&mut text, &self.uid.to_string());
        if let Some(resource) = &self.resource {
            text.push_str("&resource=");
            encode(&mut text, &resource.to_string());
        }
        f.write_str(&text)
    }
}

/// A decision of the collector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all(serialize = "camelCase"))]
pub struct Decision {
    /// When it was carried out.
    pub at: String,
    /// What was to be done.
    pub action: String,
    /// What came of it.
    pub outcome: String,
    /// The server's error.
    pub error: Option<String>,
}

/// What keeps the collector from finishing with an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all(serialize = "camelCase"))]
pub struct Stuck {
    /// The reason, as in the metrics.
    pub reason: String,
    /// Since when.
    pub since: String,
    /// Failed attempts in a row.
    pub attempts: Option<u32>,
    /// The time until the next attempt.
    pub next_retry_seconds: Option<f64>,
    /// The last error, or what it waits for.
    pub message: String,
    /// What a person can do.
    pub hint: String,
}

impl Collector {
    /// Asks a collector whether it is one.
    ///
    /// # Errors
    ///
    /// It cannot be reached, or is none.
    pub async fn at(endpoint: Endpoint) -> Result<Self, CollectorError> {
        let at = endpoint.to_string();
        let body = endpoint.get("/debug/summary", FIRST_TIMEOUT).await?.unwrap_or_default();
        let summary: Value = serde_json::from_slice(&body).unwrap_or_default();
        if summary.get("decisions_total").is_none() {
            let why = "it has no page /debug/summary".to_owned();
            return Err(CollectorError::NotKubeGc { at, why });
        }
        let [is_standby, is_dry_run] = [summary["role"] == "standby", summary["dry_run"] == true];
        let finishes_namespaces = summary["finishes_namespaces"] == true && !is_dry_run;
        Ok(Self { endpoint, is_standby, is_dry_run, finishes_namespaces })
    }

    /// What belongs to an object, up to about so many objects, from as many pages as it takes. `None` if the
    /// graph does not have the object.
    ///
    /// # Errors
    ///
    /// The collector does not answer.
    pub async fn neighbourhood(
        &self,
        object: &ObjectRef,
        query: &TreeQuery,
        limit: usize,
    ) -> Result<Option<NeighbourhoodPage>, CollectorError> {
        let TreeQuery { up, down, most, .. } = query;
        // Many dependents of a type are shown only for one level.
        let most = if *down > 1 { (*most).min(MOST_OF_A_TYPE) } else { *most };
        let question =
            format!("/debug/neighbourhood?{object}&up={up}&down={down}&max={most}&limit={}", limit.min(PAGE));
        let Some(mut whole) = self.page::<NeighbourhoodPage>(&question).await? else { return Ok(None) };
        while whole.shown.nodes.len() < limit
            && let Some(next) = whole.next.take()
        {
            let page = self.page(&format!("{question}&after={next}")).await?;
            let Some(NeighbourhoodPage { shown, incomplete, next }) = page else { break };
            join(&mut whole.shown, shown);
            whole.incomplete.extend(incomplete);
            whole.incomplete.sort();
            whole.incomplete.dedup();
            whole.next = next;
        }
        Ok(Some(whole))
    }

    /// What was deleted longer ago than this, by what holds it.
    ///
    /// # Errors
    ///
    /// The collector does not answer.
    pub async fn causes(
        &self,
        namespace: Option<&Namespace>,
        older: Duration,
    ) -> Result<Answer<StuckReport>, CollectorError> {
        let mut path = format!("/debug/stuck/causes?older={}", older.as_secs());
        if let Some(namespace) = namespace {
            path.push_str("&namespace=");
            encode(&mut path, namespace.as_str());
        }
        let page = self.page(&path).await?;
        page.ok_or_else(|| self.endpoint.other_version("it has no page /debug/stuck/causes"))
    }

    /// What a page answers; `None` if the graph does not have its object.
    ///
    /// # Errors
    ///
    /// The collector does not answer.
    pub async fn page<A: DeserializeOwned>(&self, path: &str) -> Result<Option<A>, CollectorError> {
        let Some(body) = self.endpoint.get(path, ANSWER_TIMEOUT).await? else { return Ok(None) };
        serde_json::from_slice(&body).map(Some).map_err(|error| self.endpoint.other_version(error))
    }
}

/// The label of a collector's pods.
const LABEL: &str = "app.kubernetes.io/name=kube-gc";
/// The namespace of a collector, unless it is installed elsewhere.
const NAMESPACE: &str = "kube-gc";
/// The most pods that are asked.
const MOST_ASKED: usize = 16;
/// How many pods are asked at the same time.
const AT_ONCE: usize = 4;

/// The collector of a namespace (`None` for `kube-gc`) that works, or else one that could take over.
///
/// It is looked for nowhere else: who may create pods in a namespace can label one as a collector, and in this
/// one can also run it as the collector's service account, so that no answer of it could be told apart.
///
/// # Errors
///
/// There is none, or none that answers.
pub async fn find(
    api: &Api,
    namespace: Option<&str>,
    credentials: &Credentials,
) -> Result<Collector, CollectorError> {
    let place = namespace.unwrap_or(NAMESPACE);
    let pods = in_order(api.pods_labelled(place, LABEL).await.map_err(|error| {
        let why = bounded(&error);
        let is_denied = error.class == ErrorClass::Denied;
        if is_denied { CollectorError::PodsForbidden(why) } else { CollectorError::NotFound { why } }
    })?);
    if pods.is_empty() {
        let why = format!("namespace {} has no running pod labelled {LABEL}", bounded(place));
        return Err(CollectorError::NotFound { why });
    }
    let endpoints = pods.iter().map(|pod| Endpoint::of_pod(api, pod, credentials));
    let endpoints: Result<Vec<Endpoint>, String> = endpoints.collect();
    let endpoints = endpoints.map_err(|why| CollectorError::NotFound { why })?;
    first_that_works(futures::stream::iter(endpoints.into_iter().map(Collector::at)).buffered(AT_ONCE)).await
}

/// The first collector that works, or else the first standby, or else the first error.
async fn first_that_works(
    answers: impl Stream<Item = Result<Collector, CollectorError>>,
) -> Result<Collector, CollectorError> {
    let mut answers = std::pin::pin!(answers);
    let (mut standby, mut failed) = (None, None);
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(collector) if collector.is_standby => standby = standby.or(Some(collector)),
            Ok(collector) => return Ok(collector),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    let none = || CollectorError::NotFound { why: "none of its pods has answered".to_owned() };
    standby.ok_or_else(|| failed.unwrap_or_else(none))
}

/// Those that can answer, first those that are ready.
fn in_order(mut pods: Vec<LabelledPod>) -> Vec<LabelledPod> {
    pods.retain(|pod| pod.runs);
    pods.sort_by(|a, b| (!a.ready, &a.name).cmp(&(!b.ready, &b.name)));
    pods.truncate(MOST_ASKED);
    pods
}
