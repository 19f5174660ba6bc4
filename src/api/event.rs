//! Kubernetes Events about objects.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::call::{Answer, Call};
use super::client::Api;
use super::error::{ApiError, ErrorClass, unusable};
use super::media_type::JSON;
use super::raw_metadata::MERGE_PATCH;
use super::settings::{EVENT_COMPONENT, FIELD_MANAGER, Verb};
use kube_gc_core::object::{GroupResource, Identity, Namespace};
use kube_gc_core::text::excerpt;
use kube_gc_decode::{Named, json_fault};

/// The namespace of events about cluster-scoped objects.
const FALLBACK_NAMESPACE: &str = "default";

/// The greatest length of the part of an event's name that comes from the object's name.
const LONGEST_NAME: usize = 200;

/// The API's limit for the text of an event (`note` in `events.k8s.io/v1`), in bytes.
pub const EVENT_MESSAGE_LIMIT: usize = 1024;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// Something needs attention.
    Warning,
    /// For information.
    Normal,
}

impl EventType {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "Warning",
            Self::Normal => "Normal",
        }
    }
}

impl Api {
    /// Records a warning about an object: a core/v1 Event of the component
    /// [`EVENT_COMPONENT`], in the object's namespace or, for cluster-scoped objects, in
    /// `default`. Repeating a warning increments the count of the existing event.
    ///
    /// # Errors
    ///
    /// The event could not be recorded. Nothing depends on it.
    pub async fn warn(&self, about: &Identity, reason: &str, message: &str) -> Result<(), ApiError> {
        self.tell(about, EventType::Warning, reason, message).await
    }

    /// Records an event of any type, as [`warn`](Self::warn) does.
    ///
    /// # Errors
    ///
    /// See [`warn`](Self::warn).
    pub async fn tell(
        &self,
        about: &Identity,
        kind: EventType,
        reason: &str,
        message: &str,
    ) -> Result<(), ApiError> {
        let namespace = about.namespace.as_ref().map_or(FALLBACK_NAMESPACE, Namespace::as_str);
        let name = event_name(about, reason, message);
        let now = humantime::format_rfc3339_seconds(self.settings().clock.now()).to_string();
        let event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": { "name": name, "namespace": namespace },
            "involvedObject": {
                "apiVersion": about.resource.api_version(),
                "kind": about.resource.kind,
                "namespace": about.namespace,
                "name": about.name,
                "uid": about.uid,
            },
            "type": kind.as_str(),
            "reason": reason,
            "message": excerpt(message, EVENT_MESSAGE_LIMIT).to_string(),
            "source": { "component": EVENT_COMPONENT },
            "reportingComponent": EVENT_COMPONENT,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        });
        let created = self
            .event_call(
                Verb::Create,
                Method::POST,
                "CREATE",
                namespace,
                &name,
                Some((JSON, event.to_string())),
            )
            .await;
        match created {
            Ok(_) => Ok(()),
            Err(error) if error.class == ErrorClass::Conflict => {
                self.count_event(namespace, &name, &now).await
            }
            Err(error) => Err(error),
        }
    }

    /// Increments the count of an event that exists. A first patch reads it, because its response is the
    /// whole event: whoever records events needs no right to get them.
    async fn count_event(&self, namespace: &str, name: &str, now: &str) -> Result<(), ApiError> {
        #[derive(Deserialize)]
        struct Event {
            #[serde(default)]
            count: i32,
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            resource_version: String,
        }
        let last = json!({ "lastTimestamp": now });
        let body = Some((MERGE_PATCH, last.to_string()));
        let found = self.event_call(Verb::Patch, Method::PATCH, "PATCH", namespace, name, body).await;
        let answer = match found {
            Ok(answer) => answer,
            // It expired just now. The next one creates it again.
            Err(error) if error.class == ErrorClass::SaysGone => return Ok(()),
            Err(error) => return Err(error),
        };
        let event: Event = serde_json::from_slice(&answer.body).map_err(|error| {
            unusable("PATCH", format!("events {namespace}/{name}"), json_fault(&error), answer.code)
        })?;
        let patch = json!({
            "metadata": { "resourceVersion": event.metadata.resource_version },
            "count": event.count.saturating_add(1),
            "lastTimestamp": now,
        });
        let body = Some((MERGE_PATCH, patch.to_string()));
        match self.event_call(Verb::Patch, Method::PATCH, "PATCH", namespace, name, body).await {
            // Another writer changed it at the same time, or it expired.
            Err(error) if matches!(error.class, ErrorClass::Conflict | ErrorClass::SaysGone) => Ok(()),
            result => result.map(|_| ()),
        }
    }

    async fn event_call(
        &self,
        verb: Verb,
        method: Method,
        action: &'static str,
        namespace: &str,
        name: &str,
        body: Option<(&'static str, String)>,
    ) -> Result<Answer, ApiError> {
        let events = GroupResource::new("", "events");
        let mut path = format!("/api/v1/namespaces/{namespace}/events");
        if verb != Verb::Create {
            path.push('/');
            path.push_str(name);
        }
        path.push_str("?fieldManager=");
        path.push_str(FIELD_MANAGER);
        let call = Call {
            verb,
            method,
            action,
            path,
            accept: JSON,
            body: body.map(|(content_type, body)| (content_type, body.into_bytes())),
            resource: &events,
            object: Some(Named { group_resource: &events, namespace: Some(namespace), name }),
            target: String::new(),
        };
        self.call(call).await
    }
}

/// The name of an event: always the same for the same message about the same object. Replaces
/// characters that an event's name must not have, such as the `:` of RBAC objects.
fn event_name(about: &Identity, reason: &str, message: &str) -> String {
    let mut hasher = DefaultHasher::new();
    (about.resource.group_resource.to_string(), about.uid.to_string(), reason, message).hash(&mut hasher);
    let mut name: String = about
        .name
        .chars()
        .map(|letter| letter.to_ascii_lowercase())
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
        .take(LONGEST_NAME)
        .collect();
    name.truncate(name.trim_end_matches('-').len());
    let name = name.trim_start_matches('-');
    let name = if name.is_empty() { "object" } else { name };
    format!("{name}.{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::scripted::{Reply, Server, widget};

    #[tokio::test]
    async fn a_warning_is_an_event_of_the_control_planes_component() {
        let server = Server::replying([Reply::code(201, "{}")]);
        server.api().warn(&widget(), "OwnerRefInvalidNamespace", "no such owner").await.unwrap();
        let request = &server.seen()[0];
        assert_eq!(request.line(), "POST /api/v1/namespaces/ns/events?fieldManager=kube-gc");
        let event = request.json();
        assert_eq!(event["source"]["component"], "garbage-collector-controller");
        assert_eq!(event["involvedObject"]["apiVersion"], "example.com/v1");
        assert_eq!(event["involvedObject"]["uid"], "u");
        assert_eq!(
            (&event["type"], &event["reason"]),
            (&json!("Warning"), &json!("OwnerRefInvalidNamespace"))
        );
    }

    #[tokio::test]
    async fn a_long_message_is_cut_to_the_limit_of_the_api() {
        let server = Server::replying([Reply::code(201, "{}")]);
        server.api().warn(&widget(), "r", &"m".repeat(1 << 20)).await.unwrap();
        let message = server.seen()[0].json()["message"].as_str().unwrap().to_owned();
        assert!(message.len() <= 1024 && message.ends_with("mm…"), "{} bytes", message.len());
    }

    #[tokio::test]
    async fn cluster_scoped_objects_warn_in_default() {
        let mut about = widget();
        about.namespace = None;
        about.name = "System:Node".into();
        let server = Server::replying([Reply::code(201, "{}")]);
        server.api().warn(&about, "r", "m").await.unwrap();
        let request = &server.seen()[0];
        assert!(request.path.starts_with("/api/v1/namespaces/default/events"));
        assert!(request.json()["metadata"]["name"].as_str().unwrap().starts_with("system-node."));
    }

    /// Rule 9.2.
    #[tokio::test]
    async fn a_repeated_warning_increases_the_count() {
        let exists = Reply::status(409, "already exists", "{}");
        let event = Reply::ok(r#"{"metadata":{"resourceVersion":"4"},"count":2}"#);
        let server = Server::replying([exists, event, Reply::ok("{}")]);
        server.api().warn(&widget(), "r", "m").await.unwrap();
        let requests = server.seen();
        let methods: Vec<&str> = requests.iter().map(|request| request.method.as_str()).collect();
        assert_eq!(methods, ["POST", "PATCH", "PATCH"], "no right to get events is needed");
        assert_eq!(requests[2].json()["count"], 3);
        assert_eq!(requests[2].json()["metadata"]["resourceVersion"], "4");
    }
}
