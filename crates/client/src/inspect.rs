//! Reads of single objects for people, with what the graph does not keep.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::Deserialize;
use serde_json::Value;

use super::call::Answer;
use super::client::Api;
use super::error::{ApiError, ErrorClass, unusable};
use super::namespaces::LiveNamespace;
use super::path;
use super::read::read_object;
use kube_gc_core::object::{Identity, Namespace, ResourceType, Uid};
use kube_gc_core::text::{bounded, word};
use kube_gc_decode::json_fault;
use kube_gc_insight::{AbsenceEvidence, Details, FinalizerSetter, Live, LiveObject, NamespaceCondition};

/// The most finalizers of an object that are read.
const MOST_FINALIZERS: usize = 64;
/// The manager that the API server writes down for a client that does not name itself.
const UNNAMED_MANAGER: &str = "unknown";
/// The most conditions of a namespace that are read.
const MOST_CONDITIONS: usize = 16;

impl Api {
    /// What a live read of exactly this identity shows. Failures are part of the answer.
    pub async fn read_live(&self, identity: &Identity) -> Live {
        match self.read_named(&identity.resource, identity.namespace.as_ref(), &identity.name).await {
            Ok(Some(object)) if object.facts.uid == identity.uid => Live::Found(Box::new(object)),
            Ok(Some(object)) => Live::Absent(AbsenceEvidence::OtherUid(object.facts.uid)),
            Ok(None) => Live::Absent(AbsenceEvidence::NotFound),
            Err(error) => Live::Failed(bounded(&error)),
        }
    }

    /// Reads an object by its name; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// The answer is neither the object nor proof of its absence.
    pub async fn read_named(
        &self,
        resource: &Arc<ResourceType>,
        namespace: Option<&Namespace>,
        name: &str,
    ) -> Result<Option<LiveObject>, ApiError> {
        let Some(identity) = named(resource, namespace, name) else { return Ok(None) };
        let answer = match self.get(&identity).await {
            Ok(answer) => answer,
            Err(error) if matches!(error.class, ErrorClass::Absent | ErrorClass::NamespaceGone) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let facts = read_object("GET", &identity, &answer)?.facts;
        Ok(Some(LiveObject { facts, details: details(&identity, &answer)? }))
    }

    /// The conditions of a namespace that are true; none if it is gone.
    ///
    /// # Errors
    ///
    /// The namespace cannot be read.
    pub async fn namespace_conditions(
        &self,
        namespace: &Identity,
    ) -> Result<Vec<NamespaceCondition>, ApiError> {
        let live = self.live_namespace(namespace).await?;
        let conditions =
            live.iter().flat_map(LiveNamespace::conditions).filter(|condition| condition.is_true);
        let shown = conditions.take(MOST_CONDITIONS).map(|condition| NamespaceCondition {
            kind: word(&condition.kind).to_string(),
            message: bounded(&condition.message),
        });
        Ok(shown.collect())
    }
}

/// An identity for a request, which does not contain the uid. `None` if no object can have it.
fn named(resource: &Arc<ResourceType>, namespace: Option<&Namespace>, name: &str) -> Option<Identity> {
    let uid = Uid::parse("unknown")?;
    Some(Identity { resource: Arc::clone(resource), namespace: namespace.cloned(), name: name.into(), uid })
}

pub(super) fn fault(identity: &Identity, answer: &Answer, error: &serde_json::Error) -> ApiError {
    let target = path::describe_object(identity);
    unusable("GET", target, json_fault(error), answer.code)
}

/// The elements of a list; none if there is no list.
pub(super) fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// What the graph does not keep.
fn details(identity: &Identity, answer: &Answer) -> Result<Details, ApiError> {
    #[derive(Deserialize)]
    struct Object {
        metadata: ObjectMeta,
    }
    let Object { metadata } =
        serde_json::from_slice(&answer.body).map_err(|error| fault(identity, answer, &error))?;
    let time = |time: Time| time.0.to_string();
    let mut finalizers = metadata.finalizers.unwrap_or_default();
    finalizers.truncate(MOST_FINALIZERS);
    let mut setters: Vec<FinalizerSetter> = Vec::new();
    let mut writes: BTreeMap<String, String> = BTreeMap::new();
    for entry in metadata.managed_fields.unwrap_or_default() {
        let Some(manager) = entry.manager.filter(|name| !name.is_empty() && name != UNNAMED_MANAGER) else {
            continue;
        };
        let (manager, at) = (word(&manager).to_string(), entry.time.map(time));
        if let Some(at) = &at {
            // Times of the server are in UTC, so the later one is also the greater text.
            let last = writes.entry(manager.clone()).or_default();
            *last = std::mem::take(last).max(at.clone());
        }
        let fields = entry.fields_v1.unwrap_or_default().0;
        let owned = fields["f:metadata"]["f:finalizers"].as_object().into_iter().flatten();
        let owned: Vec<String> =
            owned.filter_map(|(key, _)| serde_json::from_str(key.strip_prefix("v:")?).ok()).collect();
        for finalizer in &finalizers {
            if owned.contains(finalizer) && !setters.iter().any(|setter| setter.finalizer == *finalizer) {
                setters.push(FinalizerSetter {
                    finalizer: finalizer.clone(),
                    manager: manager.clone(),
                    time: at.clone(),
                    last_write: None,
                });
            }
        }
    }
    for setter in &mut setters {
        setter.last_write = writes.get(&setter.manager).cloned();
    }
    Ok(Details {
        created: metadata.creation_timestamp.map(time),
        deleted: metadata.deletion_timestamp.map(time),
        finalizers,
        setters,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Reply, Server, widget, widget_json};

    #[tokio::test]
    async fn who_set_a_finalizer_is_in_the_managed_fields() {
        let metadata = r#","creationTimestamp":"2026-01-01T00:00:00Z","deletionTimestamp":"2026-01-02T00:00:00Z",
            "finalizers":["example.com/a","other"],"managedFields":[
            {"manager":"backup","time":"2026-01-01T00:00:01Z","fieldsV1":{"f:metadata":{"f:finalizers":
            {".":{},"v:\"example.com/a\"":{}}}}},{"manager":"x","fieldsV1":{"f:spec":{}}},{},
            {"manager":"backup","subresource":"status","time":"2026-01-01T05:00:00Z","fieldsV1":{"f:status":{}}},
            {"manager":"backup","operation":"Apply","time":"2026-01-01T02:00:00Z","fieldsV1":{"f:data":{}}},
            {"manager":"x","time":"2026-01-01T06:00:00Z","fieldsV1":{"f:spec":{}}},
            {"manager":"unknown","fieldsV1":{"f:metadata":{"f:finalizers":{"v:\"other\"":{}}}}}]"#;
        let server = Server::replying([Reply::ok(widget_json(metadata))]);
        let Live::Found(live) = server.api().read_live(&widget()).await else { panic!("not found") };
        let LiveObject { details, .. } = *live;
        assert_eq!(details.finalizers, ["example.com/a", "other"]);
        assert_eq!(details.deleted.as_deref(), Some("2026-01-02T00:00:00Z"));
        let [setter] = &details.setters[..] else { panic!("{details:?}") };
        assert_eq!((&*setter.finalizer, &*setter.manager), ("example.com/a", "backup"));
        assert_eq!(setter.time.as_deref(), Some("2026-01-01T00:00:01Z"));
        assert_eq!(setter.last_write.as_deref(), Some("2026-01-01T05:00:00Z"));
    }

    #[tokio::test]
    async fn absence_needs_the_objects_own_404() {
        let read = async |reply| Server::replying([reply]).api().read_live(&widget()).await;
        assert_eq!(read(Reply::not_found()).await, Live::Absent(AbsenceEvidence::NotFound));
        let other = Reply::ok(widget_json("").replace(r#""uid":"u""#, r#""uid":"v""#));
        let evidence = AbsenceEvidence::OtherUid(Uid::parse("v").unwrap());
        assert_eq!(read(other).await, Live::Absent(evidence));
        for reply in [Reply::code(404, "404 page not found"), Reply::status(403, "no", "{}"), Reply::ok("{}")]
        {
            assert!(matches!(read(reply).await, Live::Failed(_)));
        }
    }
}
