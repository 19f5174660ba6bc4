//! Admission in the cluster of a run: it denies, delays and changes writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube_gc_apiserver::ApiServer;
use kube_gc_apiserver::guards::{Admission, Denial, Operation, Review, Verdict};
use kube_gc_apiserver::status::Status;
use serde_json::json;
use tokio::sync::oneshot;

/// The writes of one verb to the objects of one type: in a namespace, or in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scope {
    /// Whether it is about deletions and not about changes.
    pub deletions: bool,
    /// The plural.
    pub plural: &'static str,
    /// The namespace; `None` for a cluster-scoped type.
    pub namespace: Option<String>,
}

/// What a denial looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A webhook answers with the 404 of the object.
    Absent,
    /// The same without the name of the webhook. Nothing tells it from the answer of the store.
    BareAbsent,
    /// A conflict.
    Conflict,
    /// An expired version.
    Gone,
    /// A webhook answers that another object has the name.
    OtherUid,
    /// The same without the name of the webhook.
    BareOtherUid,
    /// That of a ValidatingAdmissionPolicy.
    Policy,
}

impl Answer {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Absent,
        Self::BareAbsent,
        Self::Conflict,
        Self::Gone,
        Self::OtherUid,
        Self::BareOtherUid,
        Self::Policy,
    ];
}

/// An object that waits in admission.
#[derive(Debug)]
struct Birth {
    delay: Duration,
    is_denied: bool,
    uid: oneshot::Sender<String>,
}

/// What admission does. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Webhooks(Arc<Mutex<Shared>>);

#[derive(Debug, Default)]
struct Shared {
    denied: BTreeMap<Scope, Answer>,
    returning: BTreeSet<(String, String)>,
    births: BTreeMap<String, Birth>,
}

impl Webhooks {
    /// Begins to review the writes to a server.
    pub fn watch_over(&self, server: &ApiServer) {
        let webhooks = self.clone();
        server.admit_by(Some(Admission::new(move |review| webhooks.review(review))));
    }

    fn with<T>(&self, look: impl FnOnce(&mut Shared) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Denies these writes with this answer.
    pub fn deny(&self, scope: Scope, answer: Answer) {
        self.with(|shared| shared.denied.insert(scope, answer));
    }

    /// Allows these writes again.
    pub fn allow(&self, scope: &Scope) {
        self.with(|shared| shared.denied.remove(scope));
    }

    /// Owner references of this type and namespace that somebody removes come back.
    pub fn bring_back(&self, plural: &str, namespace: &str) {
        self.with(|shared| shared.returning.insert((plural.to_owned(), namespace.to_owned())));
    }

    /// They no longer do.
    pub fn let_go(&self, plural: &str, namespace: &str) {
        self.with(|shared| shared.returning.remove(&(plural.to_owned(), namespace.to_owned())));
    }

    /// An object with this name will wait for this time, and is denied or not. Returns its uid when
    /// it is known.
    pub fn announce(&self, name: &str, delay: Duration, is_denied: bool) -> oneshot::Receiver<String> {
        let (uid, known) = oneshot::channel();
        self.with(|shared| shared.births.insert(name.to_owned(), Birth { delay, is_denied, uid }));
        known
    }

    /// Allows everything. Objects in admission stay there until their time has come.
    pub fn heal(&self) {
        self.with(|shared| {
            shared.denied.clear();
            shared.returning.clear();
        });
    }

    fn review(&self, review: &Review<'_>) -> Verdict {
        self.with(|shared| match review.operation {
            Operation::Create => match shared.births.remove(review.object.name()) {
                Some(birth) => wait(review, birth),
                None => Verdict::Allow,
            },
            Operation::Delete | Operation::Update => {
                shared.denial(review).unwrap_or_else(|| shared.back(review))
            }
        })
    }
}

/// The delay of an object that is being born.
fn wait(review: &Review<'_>, birth: Birth) -> Verdict {
    let Birth { delay, is_denied, uid } = birth;
    let verdict = if is_denied { deny(review, Answer::Policy) } else { Verdict::Allow };
    // The scene may have given up.
    let _ = uid.send(review.object.uid().to_owned());
    Verdict::Wait(Box::pin(async move {
        tokio::time::sleep(delay).await;
        verdict
    }))
}

impl Shared {
    fn denial(&self, review: &Review<'_>) -> Option<Verdict> {
        let deletions = review.operation == Operation::Delete;
        let namespace = review.object.key().namespace;
        let is_meant = |scope: &Scope| {
            scope.deletions == deletions
                && *scope.plural == *review.resource.plural
                && scope.namespace.as_deref() == namespace.as_deref()
        };
        let (_, answer) = self.denied.iter().find(|(scope, _)| is_meant(scope))?;
        Some(deny(review, *answer))
    }

    /// Brings back the references that a change removes.
    fn back(&self, review: &Review<'_>) -> Verdict {
        let namespace = review.object.key().namespace.as_deref().unwrap_or_default().to_owned();
        let here = (review.resource.plural.to_string(), namespace);
        let (old, Some(new)) = (review.object.owner_references(), review.new) else { return Verdict::Allow };
        if old.is_empty() || !self.returning.contains(&here) {
            return Verdict::Allow;
        }
        let mut wanted = new.clone();
        wanted["metadata"]["ownerReferences"] = old.to_vec().into();
        Verdict::Mutate(wanted)
    }
}

/// The denial of a write with this answer.
fn deny(review: &Review<'_>, answer: Answer) -> Verdict {
    let name = review.object.name();
    let like = match answer {
        Answer::Absent | Answer::BareAbsent => Status::not_found(&review.resource, name),
        Answer::Conflict => Status::conflict(&review.resource, name, "no"),
        Answer::Gone => Status { code: 410, reason: "Expired", ..Status::not_found(&review.resource, name) },
        Answer::OtherUid | Answer::BareOtherUid => {
            let invalid =
                Status { code: 422, reason: "Invalid", ..Status::not_found(&review.resource, name) };
            invalid.because("FieldValueInvalid", "no", "metadata.uid")
        }
        Answer::Policy => return review.denied_by_policy("keep.example.com", "keep-here", "no"),
    };
    if matches!(answer, Answer::BareAbsent | Answer::BareOtherUid) {
        return Verdict::Deny(like);
    }
    let Status { code, reason, message, mut details, .. } = like;
    if let Some(details) = &mut details {
        details["uid"] = json!(review.object.uid());
    }
    let webhook = "keep.example.com".to_owned();
    Denial { webhook, code: Some(code), reason, message, details }.into()
}
