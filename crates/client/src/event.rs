//! Kubernetes Events about objects, and reports of wrong owner references by log lines, events and
//! counters.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::mem::discriminant;

use k8s_openapi::api::core::v1::Event;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::call::{Answer, Call, JSON};
use super::client::Api;
use super::error::{ApiError, ErrorClass};
use super::patch::MERGE_PATCH;
use super::path;
use super::settings::{EVENT_COMPONENT, FIELD_MANAGER, Verb};
use kube_gc_core::graph::Report;
use kube_gc_core::object::{Digest, Identity, Namespace, OwnerReference, ResourceType, Scope};
use kube_gc_core::text::{LISTED, excerpt};
use kube_gc_observe::telemetry::{InvalidReference, PrintedReference, Structured, owner_reference, record};

/// The namespace of events about cluster-scoped objects.
const FALLBACK_NAMESPACE: &str = "default";

/// The greatest length of the part of an event's name that comes from the object's name.
const LONGEST_NAME: usize = 200;

/// The API's limit for the text of an event (`note` in `events.k8s.io/v1`), in bytes.
const EVENT_MESSAGE_LIMIT: usize = 1024;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum EventType {
    Warning,
    Normal,
}

impl Api {
    /// Records an event, or logs why that failed. False if it may be recorded later, for example because
    /// another replica writes now.
    pub async fn has_told(&self, about: &Identity, kind: EventType, reason: &str, message: &str) -> bool {
        let Err(error) = self.tell(about, kind, reason, message).await else { return true };
        let object = Structured::object(about);
        let object = object.logged();
        match error.class {
            ErrorClass::DryRun => true,
            ErrorClass::GateClosed
            | ErrorClass::Transient
            | ErrorClass::Throttled { .. }
            | ErrorClass::Deferred { .. } => {
                tracing::debug!(object, event = reason, %error, "cannot create an event about this object; kube-gc retries");
                false
            }
            _ => {
                tracing::warn!(
                    object,
                    event = reason,
                    %error,
                    "cannot create an event about this object; check that kube-gc may create events"
                );
                true
            }
        }
    }

    /// Records a core/v1 Event of the component `EVENT_COMPONENT` about an object, in its namespace
    /// or, for cluster-scoped objects, in `default`. Repeating it increments the count of the
    /// existing event.
    ///
    /// # Errors
    ///
    /// The event could not be recorded. Nothing depends on it.
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
            "type": kind,
            "reason": reason,
            "message": excerpt(message, EVENT_MESSAGE_LIMIT).to_string(),
            "source": { "component": EVENT_COMPONENT },
            "reportingComponent": EVENT_COMPONENT,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        });
        match self.event_call(Verb::Create, namespace, &name, &event).await {
            Err(error) if error.class == ErrorClass::Conflict => {
                self.count_event(namespace, &name, &now).await
            }
            result => result.map(|_| ()),
        }
    }

    /// Increments the count of an event that exists. A first patch reads it, because its response is the
    /// whole event: whoever records events needs no right to get them.
    async fn count_event(&self, namespace: &str, name: &str, now: &str) -> Result<(), ApiError> {
        let seen = json!({ "lastTimestamp": now });
        let answer = match self.event_call(Verb::Patch, namespace, name, &seen).await {
            Ok(answer) => answer,
            // It expired just now. The next one creates it again.
            Err(error) if error.class == ErrorClass::SaysGone => return Ok(()),
            Err(error) => return Err(error),
        };
        let event: Event = answer.json()?;
        let counted = json!({
            "metadata": { "resourceVersion": event.metadata.resource_version },
            "count": event.count.unwrap_or_default().saturating_add(1),
            "lastTimestamp": now,
        });
        match self.event_call(Verb::Patch, namespace, name, &counted).await {
            // Another writer changed it at the same time, or it expired.
            Err(error) if matches!(error.class, ErrorClass::Conflict | ErrorClass::SaysGone) => Ok(()),
            result => result.map(|_| ()),
        }
    }

    async fn event_call(
        &self,
        verb: Verb,
        namespace: &str,
        name: &str,
        body: &Value,
    ) -> Result<Answer, ApiError> {
        let events = ResourceType::of("events", "v1", "Event", Scope::Namespaced);
        let mut call = Call::named(verb, &events, Some(namespace), name)?;
        let mut content_type = MERGE_PATCH;
        if verb == Verb::Create {
            content_type = JSON;
            call.path = path::collection(&events, Some(namespace));
        }
        let call = call.with("fieldManager", FIELD_MANAGER).accepting(JSON);
        self.call(call.writing(content_type, body.to_string().into_bytes())).await
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

/// Reports that wait to be recorded. More at once is a flood of the same mistake: the rest is
/// counted, and the decision lines still name each of them.
const WAITING: usize = 1024;
/// How many objects are remembered, so that each mistake is reported once.
const REMEMBERED: usize = 4096;
/// How many owners of one dependent are reported. The others are only counted: one report is enough
/// for its author.
const OF_ONE_DEPENDENT: usize = LISTED;
/// The reason of the event on a dependent whose reference crosses namespaces.
pub const OWNER_REF_INVALID_NAMESPACE: &str = "OwnerRefInvalidNamespace";

/// A handle to the task that records events. It never waits, so that the graph is not held up.
#[derive(Debug, Clone)]
pub struct EventRecorder {
    reports: mpsc::Sender<Report>,
}

impl EventRecorder {
    /// A recorder, and the task that must be run for it.
    pub fn new(api: Api, ending: CancellationToken) -> (Self, impl Future<Output = ()> + Send) {
        let (reports, inbox) = mpsc::channel(WAITING);
        (Self { reports }, run(api, inbox, ending))
    }

    /// A recorder without a task.
    #[cfg(any(test, feature = "test-util"))]
    pub fn silent() -> Self {
        Self { reports: mpsc::channel(1).0 }
    }

    /// Reports something. A reference waits as people see it, since its texts may be megabytes.
    pub fn report(&self, report: Report) {
        let report = match report {
            Report::NamespaceMismatch { dependent, reference } => {
                Report::NamespaceMismatch { dependent, reference: reference.shortened() }
            }
            Report::InvalidScope { dependent, reference } => {
                Report::InvalidScope { dependent, reference: reference.shortened() }
            }
            Report::UidCollision { .. } => report,
        };
        if self.reports.try_send(report).is_err() {
            record::report_dropped();
        }
    }
}

async fn run(api: Api, mut inbox: mpsc::Receiver<Report>, ending: CancellationToken) {
    let mut told = RecentReports::default();
    loop {
        let report = tokio::select! {
            biased;
            () = ending.cancelled() => return,
            report = inbox.recv() => match report {
                Some(report) => report,
                None => return,
            },
        };
        let key = RecentReports::key(&report);
        if !told.first(key) {
            continue;
        }
        match &report {
            Report::NamespaceMismatch { dependent, reference } => {
                // The next decision on the dependent reports it again.
                if !namespace_mismatch(&api, dependent, reference).await {
                    told.forget(key);
                }
            }
            Report::UidCollision { first, second } => {
                record::uid_collision();
                tracing::warn!(
                    object = Structured::object(first).logged(),
                    other = Structured::other_object(second).logged(),
                    "two objects have the same uid; kube-gc handles each separately"
                );
            }
            Report::InvalidScope { dependent, reference } => {
                record::invalid_reference(InvalidReference::InvalidScope);
                tracing::warn!(
                    object = Structured::object(dependent).logged(),
                    owner = owner_reference(reference).logged(),
                    "a cluster-scoped object names an owner of a namespaced kind, so it is never collected; \
                     correct its ownerReferences"
                );
            }
        }
    }
}

/// False if a retry may help.
async fn namespace_mismatch(api: &Api, dependent: &Identity, reference: &OwnerReference) -> bool {
    let place = match &dependent.namespace {
        Some(namespace) => format!("namespace \"{namespace}\""),
        None => "the cluster scope".to_owned(),
    };
    let message = mismatch_message(reference, &place);
    tracing::warn!(
        object = Structured::object(dependent).logged(),
        owner = owner_reference(reference).logged(),
        "the owner is in another namespace, so the owner reference is invalid; correct the ownerReferences"
    );
    record::invalid_reference(InvalidReference::NamespaceMismatch);
    api.has_told(dependent, EventType::Warning, OWNER_REF_INVALID_NAMESPACE, &message).await
}

/// The message of the event, as kube-controller-manager writes it. If it is too long for an event,
/// the reference is cut and not the end of the sentence.
fn mismatch_message(reference: &OwnerReference, place: &str) -> String {
    let reference = PrintedReference(reference).to_string();
    let message =
        |reference: &dyn std::fmt::Display| format!("ownerRef [{reference}] does not exist in {place}");
    let room = EVENT_MESSAGE_LIMIT.saturating_sub(message(&"").len());
    message(&excerpt(&reference, room))
}

/// What was reported lately about each object, in the order of their first reports.
#[derive(Debug, Default)]
struct RecentReports(VecDeque<(Digest, Vec<Digest>)>);

impl RecentReports {
    /// An object, and what is reported about it. One pair can be reported for more than one reason.
    fn key(report: &Report) -> (Digest, Digest) {
        let (about, other) = match report {
            Report::NamespaceMismatch { dependent, reference }
            | Report::InvalidScope { dependent, reference } => (dependent, &reference.uid),
            Report::UidCollision { first, second } => (first, &second.uid),
        };
        (Digest::of(&about.uid), Digest::of(&(discriminant(report), &about.uid, other)))
    }

    fn about(&mut self, about: Digest) -> Option<&mut Vec<Digest>> {
        self.0.iter_mut().find(|(object, _)| *object == about).map(|(_, reports)| reports)
    }

    fn first(&mut self, (about, report): (Digest, Digest)) -> bool {
        match self.about(about) {
            Some(reports) if reports.contains(&report) => false,
            Some(reports) if reports.len() >= OF_ONE_DEPENDENT => {
                record::report_dropped();
                false
            }
            Some(reports) => {
                reports.push(report);
                true
            }
            None => {
                self.0.push_back((about, vec![report]));
                if self.0.len() > REMEMBERED {
                    self.0.pop_front();
                }
                true
            }
        }
    }

    /// It could not be recorded after all.
    fn forget(&mut self, (about, report): (Digest, Digest)) {
        if let Some(reports) = self.about(about) {
            reports.retain(|told| *told != report);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::testing::{Reply, Server, order, widget};
    use kube_gc_core::object::Uid;

    #[tokio::test]
    async fn a_warning_is_an_event_of_the_control_planes_component() {
        let server = Server::replying([Reply::code(201, "{}")]);
        server
            .api()
            .tell(&widget(), EventType::Warning, "OwnerRefInvalidNamespace", "no such owner")
            .await
            .unwrap();
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
    async fn cluster_scoped_objects_warn_in_default() {
        let mut about = widget();
        about.namespace = None;
        about.name = "System:Node".into();
        let server = Server::replying([Reply::code(201, "{}")]);
        server.api().tell(&about, EventType::Warning, "r", "m").await.unwrap();
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
        server.api().tell(&widget(), EventType::Warning, "r", "m").await.unwrap();
        let requests = server.seen();
        let methods: Vec<&str> = requests.iter().map(|request| request.method.as_str()).collect();
        assert_eq!(methods, ["POST", "PATCH", "PATCH"], "no right to get events is needed");
        assert_eq!(requests[2].json()["count"], 3);
        assert_eq!(requests[2].json()["metadata"]["resourceVersion"], "4");
    }

    #[test]
    fn few_warnings_are_sent_about_a_dependent_with_thousands_of_wrong_references() {
        let mut told = RecentReports::default();
        let key = |number: usize| {
            let second = Identity { uid: Uid::parse(&format!("owner-{number}")).unwrap(), ..widget() };
            RecentReports::key(&Report::UidCollision { first: widget(), second })
        };
        let first = (0..8000).filter(|number| told.first(key(*number))).count();
        assert_eq!((first, told.0.len()), (LISTED, 1));
        told.forget(key(0));
        assert!(told.first(key(5000)), "there is room for another one");
        assert!(!told.first(key(6000)));
    }

    fn reference_with(text: &str, uid: Uid) -> OwnerReference {
        OwnerReference {
            api_version: text.into(),
            kind: text.into(),
            name: text.into(),
            uid,
            controller: false,
            block_owner_deletion: false,
        }
    }

    /// Fails if an event is lost because its message is longer than the API allows, or if a tenant
    /// decides how the message ends.
    #[tokio::test(start_paused = true)]
    async fn texts_of_a_megabyte_fit_into_an_event() {
        let server = Server::answering(|_| Reply::code(201, "{}"));
        let (event_recorder, told) = EventRecorder::new(server.api(), CancellationToken::new());
        let telling = tokio::spawn(told);
        for text in ["x".repeat(1 << 20), "ä".repeat(1 << 19)] {
            let reference = reference_with(&text, Uid::parse(&text).unwrap());
            event_recorder.report(Report::NamespaceMismatch { dependent: widget(), reference });
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let events = server.seen();
        assert_eq!(events.len(), 2);
        for event in events {
            let message = event.json()["message"].as_str().unwrap().to_owned();
            assert!(message.len() <= 1024, "{} bytes", message.len());
            assert!(message.starts_with("ownerRef [") && message.contains("…, name: "), "{message}");
            assert!(message.ends_with("…] does not exist in namespace \"ns\""), "{message}");
        }
        telling.abort();
    }

    /// For example, on a standby that becomes the leader, or during an outage.
    #[tokio::test(start_paused = true)]
    async fn a_warning_that_could_not_be_written_is_sent_once_later() {
        let away = Arc::new(AtomicBool::new(false));
        let is_away = Arc::clone(&away);
        let server = Server::answering(move |_| {
            let (code, body) = if is_away.load(Ordering::Relaxed) { (503, "no") } else { (201, "{}") };
            Reply::code(code, body)
        });
        let api = server.api();
        let (event_recorder, told) = EventRecorder::new(api.clone(), CancellationToken::new());
        let telling = tokio::spawn(told);
        let tell = async || {
            let before = server.seen().len();
            let reference = reference_with("elsewhere", widget().uid);
            event_recorder.report(Report::NamespaceMismatch { dependent: widget(), reference });
            // The clock stands still until the recorder has seen the report.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let seen = server.seen().split_off(before);
            seen.iter().filter(|seen| seen.path.contains("/events")).count()
        };
        api.gate().pause();
        assert_eq!(tell().await, 0);
        api.gate().resume();
        away.store(true, Ordering::Relaxed);
        while !api.is_unreachable() {
            api.delete(&order(&widget()), None).await.unwrap_err();
        }
        assert_eq!(tell().await, 0);
        away.store(false, Ordering::Relaxed);
        assert_eq!((tell().await, tell().await), (1, 0));
        telling.abort();
    }
}
