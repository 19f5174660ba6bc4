//! Finds a collector in the cluster.

use futures::{Stream, StreamExt as _};

use super::client::Collector;
use super::connection::CollectorError;
use super::endpoint::{Credentials, Endpoint};
use crate::api::{Api, ApiError, ErrorClass, LabelledPod};
use kube_gc_core::text::bounded;

/// The label of a collector's pods.
const LABEL: &str = "app.kubernetes.io/name=kube-gc";
/// The namespace of a collector, unless it is installed elsewhere.
const NAMESPACE: &str = "kube-gc";
/// The most pods that are asked.
const MOST_ASKED: usize = 16;
/// How many pods are asked at the same time.
const AT_ONCE: usize = 4;

/// Where a collector is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchScope {
    /// In this namespace; `None` for `kube-gc`.
    Namespace(Option<String>),
    /// In all namespaces, that called `kube-gc` first. Who may create pods in any namespace can be
    /// found there, so no token is sent.
    Everywhere,
}

/// The collector that works, or else one that could take over.
///
/// # Errors
///
/// There is none, or none that answers.
pub async fn find(
    api: &Api,
    place: &SearchScope,
    credentials: &Credentials,
) -> Result<Collector, CollectorError> {
    let (pods, place) = pods(api, place).await?;
    if pods.is_empty() {
        return Err(CollectorError::NotFound { why: format!("{place} has no running pod labelled {LABEL}") });
    }
    let mut endpoints = Vec::new();
    for pod in &pods {
        let endpoint = Endpoint::of_pod(api, pod, credentials);
        endpoints.push(endpoint.map_err(|error| CollectorError::NotFound { why: error.to_string() })?);
    }
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
            Ok(collector) if collector.is_standby() => standby = standby.or(Some(collector)),
            Ok(collector) => return Ok(collector),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    let none = || CollectorError::NotFound { why: "none of its pods has answered".to_owned() };
    standby.ok_or_else(|| failed.unwrap_or_else(none))
}

/// The pods to ask, in order, and where they were looked for.
async fn pods(api: &Api, place: &SearchScope) -> Result<(Vec<LabelledPod>, String), CollectorError> {
    let denied = |error: &ApiError| error.class == ErrorClass::Denied;
    let namespace = match place {
        SearchScope::Namespace(named) => named.as_deref().unwrap_or(NAMESPACE),
        SearchScope::Everywhere => match api.pods_labelled(None, LABEL).await {
            Ok(pods) => return Ok((in_order(pods), "no namespace".to_owned())),
            Err(error) if denied(&error) => NAMESPACE,
            Err(error) => return Err(CollectorError::NotFound { why: bounded(error) }),
        },
    };
    let listed = api.pods_labelled(Some(namespace), LABEL).await.map_err(|error| {
        let why = bounded(&error);
        if denied(&error) { CollectorError::PodsForbidden(why) } else { CollectorError::NotFound { why } }
    })?;
    Ok((in_order(listed), format!("namespace {}", bounded(namespace))))
}

/// Those that can answer: first those in the usual namespace, then those that are ready.
fn in_order(mut pods: Vec<LabelledPod>) -> Vec<LabelledPod> {
    fn place(pod: &LabelledPod) -> impl Ord + '_ {
        (pod.namespace != NAMESPACE, !pod.ready, &pod.namespace, &pod.name)
    }
    pods.retain(|pod| pod.runs);
    pods.sort_by(|a, b| place(a).cmp(&place(b)));
    pods.truncate(MOST_ASKED);
    pods
}

#[cfg(test)]
mod tests {
    use super::super::tests::collector_in_role;
    use super::*;

    #[tokio::test]
    async fn the_leader_is_asked_before_a_standby() {
        let first = async |roles: &[&str]| {
            let mut answers = Vec::new();
            for role in roles {
                answers.push(collector_in_role(role).await);
            }
            let found = first_that_works(futures::stream::iter(answers)).await;
            found.map(|collector| collector.is_standby())
        };
        assert_eq!(first(&["standby", "leader"]).await, Ok(false));
        assert_eq!(first(&["standby", "alone"]).await, Ok(false));
        assert_eq!(first(&["nothing", "standby", "standby"]).await, Ok(true));
        assert!(matches!(first(&["nothing"]).await, Err(CollectorError::NotKubeGc { .. })));
        assert!(matches!(first(&[]).await, Err(CollectorError::NotFound { .. })));
    }

    #[test]
    fn pods_in_the_usual_namespace_that_are_ready_come_first() {
        let pod = |namespace: &str, name: &str, runs, ready| LabelledPod {
            namespace: namespace.into(),
            name: name.into(),
            runs,
            ready,
            debug_port: None,
        };
        let mut pods = vec![
            pod("a", "evil", true, true),
            pod(NAMESPACE, "a", true, false),
            pod(NAMESPACE, "b", true, true),
            pod(NAMESPACE, "gone", false, true),
        ];
        let names = |pods: Vec<LabelledPod>| -> Vec<String> {
            in_order(pods).into_iter().map(|pod| pod.name).collect()
        };
        assert_eq!(names(pods.clone()), ["b", "a", "evil"]);
        pods.extend((0..100).map(|number| pod("a", &format!("x{number}"), true, true)));
        let asked = names(pods);
        assert_eq!((asked.len(), asked[0].as_str()), (MOST_ASKED, "b"));
    }
}
