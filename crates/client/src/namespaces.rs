//! What finishing namespaces reads and writes (rules 11.1 to 11.10).

use std::time::SystemTime;

use k8s_openapi::api::coordination::v1::Lease;
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::{Answer, Call, JSON, METADATA_LIST};
use super::client::Api;
use super::error::{ApiError, ErrorClass};
use super::list::Pagination;
use super::order::DeleteOrder;
use super::patch::MERGE_PATCH;
use super::settings::{FIELD_MANAGER, Verb};
use kube_gc_core::namespaces::{Condition, FINALIZER, FieldOwner, LeaderRecord};
use kube_gc_core::object::{Identity, Namespace, ResourceType, ResourceVersion, Scope, Uid};
use kube_gc_decode::{Keyed, Metadata, Object, or_default, read_json};

/// A namespace as a live read has shown it.
#[derive(Clone, Debug)]
pub struct LiveNamespace {
    /// The whole object: a PUT sends back what it does not change.
    object: Value,
    pub uid: Uid,
}

impl LiveNamespace {
    pub fn version(&self) -> Option<ResourceVersion> {
        ResourceVersion::parse(self.text("/metadata/resourceVersion")?)
    }

    /// Whether it is being deleted and was not created again: both signs are required.
    pub fn is_terminating(&self) -> bool {
        self.text("/metadata/deletionTimestamp").is_some()
            && self.text("/status/phase") == Some("Terminating")
    }

    /// The order to delete an object that it contains (rule 11.1).
    pub fn order(&self, object: Identity) -> Option<DeleteOrder> {
        let is_inside = object.namespace.as_ref().map(Namespace::as_str) == self.text("/metadata/name");
        (is_inside && self.is_terminating()).then(|| DeleteOrder::of_content(object))
    }

    /// Whether `spec.finalizers` still has the finalizer for the content.
    pub fn is_held(&self) -> bool {
        self.list("/spec/finalizers").any(|finalizer| finalizer == FINALIZER)
    }

    pub fn conditions(&self) -> Vec<Condition> {
        let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        let conditions = self.list("/status/conditions").map(|condition| Condition {
            kind: text(condition, "type"),
            is_true: text(condition, "status") == "True",
            reason: text(condition, "reason"),
            message: text(condition, "message"),
            since: text(condition, "lastTransitionTime"),
        });
        conditions.collect()
    }

    /// Who owns conditions, by `managedFields`.
    pub fn condition_owners(&self) -> Vec<FieldOwner> {
        let owners = self.list("/metadata/managedFields").filter_map(|entry| {
            let fields = entry["fieldsV1"]["f:status"]["f:conditions"].as_object()?;
            let kind = |key: &String| {
                let key: Value = serde_json::from_str(key.strip_prefix("k:")?).ok()?;
                Some(key["type"].as_str()?.to_owned())
            };
            Some(FieldOwner {
                manager: entry["manager"].as_str().unwrap_or_default().to_owned(),
                at: entry["time"].as_str().and_then(time),
                conditions: fields.keys().filter_map(kind).collect(),
            })
        });
        owners.collect()
    }

    fn text(&self, pointer: &str) -> Option<&str> {
        self.object.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
    }

    fn list(&self, pointer: &str) -> impl Iterator<Item = &Value> {
        self.object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
    }
}

fn time(text: &str) -> Option<SystemTime> {
    humantime::parse_rfc3339_weak(text).ok()
}

impl Api {
    /// Reads a namespace; `None` if there is none of this name.
    ///
    /// # Errors
    ///
    /// The answer is neither the namespace nor proof of its absence.
    pub async fn live_namespace(&self, namespace: &Identity) -> Result<Option<LiveNamespace>, ApiError> {
        let answer = self.call(Call::object(Verb::Get, namespace)?.accepting(JSON)).await;
        ApiError::unless_absent(answer)?.map(|answer| live(namespace, &answer)).transpose()
    }

    /// Replaces the conditions. Bound to the uid and to the version that was read.
    ///
    /// # Errors
    ///
    /// [`Conflict`](ErrorClass::Conflict) if the namespace has changed; any other error of a write.
    pub async fn set_conditions(
        &self,
        namespace: &Identity,
        read: &LiveNamespace,
        conditions: &[Condition],
    ) -> Result<LiveNamespace, ApiError> {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|condition| {
                json!({
                    "type": condition.kind,
                    "status": if condition.is_true { "True" } else { "False" },
                    "lastTransitionTime": condition.since,
                    "reason": condition.reason,
                    "message": condition.message,
                })
            })
            .collect();
        let patch = json!({
            "metadata": { "uid": read.uid, "resourceVersion": read.object["metadata"]["resourceVersion"] },
            "status": { "conditions": conditions },
        });
        let call = Call::object(Verb::Patch, namespace)?
            .of("status")
            .with("fieldManager", FIELD_MANAGER)
            .accepting(JSON)
            .writing(MERGE_PATCH, patch.to_string().into_bytes());
        live(namespace, &self.call(call).await?)
    }

    /// Removes the finalizer for the content. Bound to the uid and to the version that was read. Returns the
    /// answer; `None` if the namespace is gone.
    ///
    /// # Errors
    ///
    /// [`Conflict`](ErrorClass::Conflict) if the namespace has changed; any other error of a write.
    pub async fn finalize_namespace(
        &self,
        namespace: &Identity,
        read: &LiveNamespace,
    ) -> Result<Option<LiveNamespace>, ApiError> {
        let mut object = read.object.clone();
        if let Some(finalizers) = object.pointer_mut("/spec/finalizers").and_then(Value::as_array_mut) {
            finalizers.retain(|finalizer| finalizer != FINALIZER);
        }
        let call = Call::object(Verb::Update, namespace)?
            .of("finalize")
            .with("fieldManager", FIELD_MANAGER)
            .accepting(JSON)
            .writing(JSON, object.to_string().into_bytes());
        match self.call(call).await {
            Ok(answer) => match live(namespace, &answer)? {
                live if live.is_held() => Err(answer.undone(&format!("has the finalizer {FINALIZER}"))),
                live => Ok(Some(live)),
            },
            // Gone is what was wanted.
            Err(error) if error.class == ErrorClass::SaysGone => {
                self.confirm_gone(namespace, error).await.map(|_| None)
            }
            Err(error) => Err(error),
        }
    }

    /// The Lease of kube-controller-manager; `None` if there is none.
    ///
    /// # Errors
    ///
    /// Whether there is one is not known.
    pub async fn controller_manager_lease(&self) -> Result<Option<LeaderRecord>, ApiError> {
        let leases = ResourceType::of("leases.coordination.k8s.io", "v1", "Lease", Scope::Namespaced);
        let name = "kube-controller-manager";
        let call = Call::named(Verb::Get, &leases, Some("kube-system"), name)?;
        let answer = self.call(call.accepting(JSON)).await;
        let Some(answer) = ApiError::unless_absent(answer)? else { return Ok(None) };
        let Lease { metadata, spec, .. } = answer.json()?;
        // The type takes anything for an empty Lease.
        let version =
            metadata.resource_version.ok_or_else(|| answer.unusable("the response is not a Lease"))?;
        let spec = spec.unwrap_or_default();
        Ok(Some(LeaderRecord {
            holder: spec.holder_identity.unwrap_or_default(),
            renewed: spec.renew_time.map(|time| time.0.into()),
            version,
        }))
    }

    /// Which of these rights on all objects the credentials lack: verb, group, and resource, perhaps with a
    /// subresource. A review is not stored, but it is sent as a write, so a standby and a dry run cannot ask.
    ///
    /// # Errors
    ///
    /// What is allowed is not known.
    pub async fn missing_rights(&self, rights: &[[&'static str; 3]]) -> Result<Vec<String>, ApiError> {
        let reviews = "selfsubjectaccessreviews.authorization.k8s.io";
        let reviews = ResourceType::of(reviews, "v1", "SelfSubjectAccessReview", Scope::Cluster);
        let mut missing = Vec::new();
        for [verb, group, plural] in rights {
            let (resource, subresource) = plural.split_once('/').unwrap_or((plural, ""));
            let review = json!({
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": { "resourceAttributes": {
                    "verb": verb, "group": group, "resource": resource, "subresource": subresource,
                } },
            });
            let call = Call::collection(Verb::Create, &reviews, None, JSON);
            let answer = self.call(call.writing(JSON, review.to_string().into_bytes())).await?;
            let allowed = answer.json::<Value>()?["status"]["allowed"].as_bool();
            if !allowed.ok_or_else(|| answer.unusable("the response is not a review"))? {
                missing.push(format!("{verb} {plural}"));
            }
        }
        Ok(missing)
    }
}

fn live(namespace: &Identity, answer: &Answer) -> Result<LiveNamespace, ApiError> {
    let object: Value = answer.json()?;
    let metadata = &object["metadata"];
    let is_it = object["kind"] == "Namespace" && metadata["name"] == *namespace.name;
    let uid = metadata["uid"].as_str().and_then(Uid::parse);
    match uid.filter(|_| is_it) {
        Some(uid) => Ok(LiveNamespace { object, uid }),
        None => Err(answer.unusable("the response is not this namespace, or has no uid")),
    }
}

/// Objects in a page that is listed or deleted. Only their metadata is read.
const PAGE: u32 = 500;

/// One object in a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageItem {
    pub name: String,
    /// Its uid; some aggregated APIs give none.
    pub uid: Option<Uid>,
    /// Its version; some aggregated APIs give none.
    pub version: Option<ResourceVersion>,
    pub being_deleted: bool,
    pub finalizers: Vec<String>,
}

/// A page of the objects of a type in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The objects, whether or not they have a name and a uid.
    pub items: Vec<PageItem>,
    /// The token for the next page; empty at the end.
    pub next: String,
    /// How many objects the next pages have, at least.
    pub more: u64,
}

impl Api {
    /// Lists a page of a type in a namespace, live. Every object counts, whatever it looks like.
    ///
    /// # Errors
    ///
    /// The page cannot be read, so nothing is known.
    pub async fn content_page(
        &self,
        resource: &ResourceType,
        namespace: &str,
        next: &str,
    ) -> Result<Page, ApiError> {
        let answer = self.call(page_call(Verb::List, resource, namespace, next)).await?;
        page(&answer.body).map_err(|fault| answer.unusable(fault))
    }

    /// Deletes a page of the objects of a type in a namespace, and returns the page as it was before.
    /// A request that takes too long has deleted a part of the page.
    ///
    /// The token names objects as they were when the first page was read, and the server deletes them
    /// by name. So the caller has to look first whether this is still the same namespace.
    ///
    /// # Errors
    ///
    /// [`Expired`](crate::ErrorClass::Expired) if the token is too old; any other error of a write.
    pub async fn delete_content_page(
        &self,
        resource: &ResourceType,
        namespace: &str,
        next: &str,
    ) -> Result<Page, ApiError> {
        let options =
            json!({ "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background" });
        let call = page_call(Verb::DeleteCollection, resource, namespace, next);
        let answer = self.call(call.writing(JSON, options.to_string().into_bytes())).await?;
        // Some aggregated APIs answer with a `Status`, and delete everything at once.
        let deleted = page(&answer.body).unwrap_or_default();
        let mut pages = Pagination::default();
        pages
            .go_on(next, 1)
            .and_then(|()| pages.go_on(&deleted.next, 1))
            .map_err(|fault| answer.unusable(fault))?;
        Ok(deleted)
    }
}

fn page_call<'a>(verb: Verb, resource: &'a ResourceType, namespace: &str, next: &str) -> Call<'a> {
    let call = Call::collection(verb, resource, Some(namespace), METADATA_LIST);
    let call = call.with("limit", &PAGE.to_string());
    if next.is_empty() { call } else { call.with("continue", next) }
}

/// Reads a page. Anything but a list is an error, because an empty list is taken for proof.
fn page(body: &[u8]) -> Result<Page, String> {
    #[derive(Deserialize)]
    struct List<'a> {
        kind: String,
        metadata: Keyed<ListMetadata>,
        // Go writes an empty list as `null`; a list without it is none.
        #[serde(borrow, deserialize_with = "or_default")]
        items: Vec<Keyed<Object<Metadata<'a>>>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ListMetadata {
        #[serde(rename = "continue")]
        next: Option<String>,
        remaining_item_count: Option<i64>,
    }
    let Keyed(list): Keyed<List<'_>> = read_json(body)?;
    if !list.kind.ends_with("List") {
        return Err("the response is not a list".to_owned());
    }
    let item = |Keyed(Object { metadata }): Keyed<Object<Metadata<'_>>>| PageItem {
        name: metadata.name.to_string(),
        uid: Uid::parse(&metadata.uid),
        version: metadata.version(),
        being_deleted: metadata.deletion_timestamp.is_some(),
        finalizers: metadata.finalizers.iter().map(|finalizer| finalizer.to_string()).collect(),
    };
    let Keyed(ListMetadata { next, remaining_item_count }) = list.metadata;
    let next = next.unwrap_or_default();
    // A page that is not the last one is followed by at least one object.
    let least = u64::from(!next.is_empty());
    let more =
        remaining_item_count.and_then(|count| u64::try_from(count).ok()).unwrap_or_default().max(least);
    Ok(Page { items: list.items.into_iter().map(item).collect(), next, more })
}

#[cfg(test)]
mod tests;
