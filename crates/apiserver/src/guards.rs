//! Guards, for tests and simulations: the parts that a real server leaves to webhooks and roles.
//!
//! By default, this server has neither admission nor authorization. To test how a client handles a
//! rejection, set one of these guards:
//!
//! - [`ApiServer::admit_by`](super::ApiServer::admit_by): a function that may deny, change or delay each
//!   creation, update, patch and deletion that would otherwise succeed, also in a dry run. It
//!   stands in for webhooks and policies. The server reads no webhook configurations and
//!   sends no requests.
//! - [`ApiServer::restrict`](super::ApiServer::restrict): a bearer token identifies a user, whose access to objects is
//!   limited to the stored ClusterRoles that stored ClusterRoleBindings bind
//!   to the user. It stands in for RBAC, without groups, Roles, default roles and
//!   aggregated roles. Requests with another token or without one are not limited, nor are
//!   requests for discovery, health and metrics.
//!
//! Guards do not apply to the server's own writes.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Subject};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::call::{Call, ObjectPath, Target, Verb};
use crate::object::{Key, Object};
use crate::resources::ResourceName;
use crate::status::Status;
use crate::store::Store;

/// The guards that are set.
#[derive(Debug, Default)]
pub(crate) struct Guards {
    pub admission: Option<Admission>,
    /// The restricted users, by token.
    pub users: BTreeMap<Box<str>, Box<str>>,
    /// What the request in progress asks admission and must wait for.
    pub(crate) asked: Option<Asked>,
}

impl Guards {
    /// Rejects what the roles of the caller do not allow.
    pub(super) fn authorize(&self, store: &Store, call: &Call) -> Result<(), Status> {
        let Some(user) = self.users.get(&*call.token) else { return Ok(()) };
        let Target::Objects(path) = call.target() else { return Ok(()) };
        // Requests without a verb are rejected elsewhere.
        let Some(verb) = Verb::asked(call, path) else { return Ok(()) };
        check_roles(store, user, verb, path)
    }

    /// Asks the admission function about a write. Returns the state that it wants to be written, if
    /// it wants another. The error may mean that the request must wait: see
    /// [`asked`](Self::asked).
    pub(super) fn admit(&mut self, review: &Review<'_>) -> Result<Option<Value>, Status> {
        match self.admission.as_ref().map_or(Verdict::Allow, |admission| admission.0(review)) {
            Verdict::Allow => Ok(None),
            Verdict::Mutate(new) => Ok(Some(new)),
            Verdict::Deny(status) => Err(status),
            Verdict::Wait(later) => {
                self.asked = Some(Asked { object: review.object.clone(), later });
                Err(Status::unnamed("the request waits for admission"))
            }
        }
    }
}

/// The kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// POST.
    Create,
    /// PUT or PATCH, including one that removes the last finalizer.
    Update,
    /// DELETE of an object, or of each object of a collection.
    Delete,
}

/// A write to admit or deny.
#[derive(Clone, Debug)]
pub struct Review<'a> {
    /// The kind of the write.
    pub operation: Operation,
    /// The type, as named in the request.
    pub resource: ResourceName,
    /// `status` or `finalize`, if the request names one.
    pub subresource: Option<&'a str>,
    /// The stored object. Of a creation, the new object, which has its uid and its
    /// `creationTimestamp`.
    pub object: &'a Object,
    /// The state that a creation or an update would write.
    pub new: Option<&'a Value>,
}

impl Review<'_> {
    /// The denial of a ValidatingAdmissionPolicy.
    pub fn denied_by_policy(&self, policy: &str, binding: &str, message: &str) -> Verdict {
        let why = format!(
            "ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {message}"
        );
        let mut status = Status::forbidden(&self.resource, self.object.name(), &why);
        (status.code, status.reason) = (422, "Invalid");
        status.details.get_or_insert_default()["causes"] = json!([{"message": why}]);
        Verdict::Deny(status)
    }
}

/// The denial of a webhook.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Denial {
    /// The name of the webhook to report.
    pub webhook: String,
    /// The HTTP code; 400 by default.
    pub code: Option<u16>,
    /// The reason, such as `NotFound`; may be empty.
    pub reason: &'static str,
    /// The message.
    pub message: String,
    /// `details`, if any: whatever the webhook says.
    pub details: Option<Value>,
}

impl Denial {
    fn into_status(self) -> Status {
        let Self { webhook, code, reason, message, details } = self;
        // A client would not take a success code for a denial.
        let code = code.filter(|code| *code >= 400).unwrap_or(400);
        let why = match (message.as_str(), reason) {
            ("", "") => " without explanation".to_owned(),
            ("", why) | (why, _) => format!(": {why}"),
        };
        let message = format!("admission webhook \"{webhook}\" denied the request{why}");
        Status { details, ..Status::new(code, reason, message) }
    }
}

impl From<Denial> for Verdict {
    fn from(denial: Denial) -> Self {
        Self::Deny(denial.into_status())
    }
}

/// A decision that takes time.
pub type Later = Pin<Box<dyn Future<Output = Verdict> + Send>>;

/// A decision about a write.
pub enum Verdict {
    /// The write takes effect.
    Allow,
    /// It does not.
    Deny(Status),
    /// This state is written in place of [`Review::new`].
    Mutate(Value),
    /// The request waits. Meanwhile the server goes on, so the object may change or its namespace
    /// may end. A creation is not checked against its namespace again; an update or a deletion is
    /// decided again, with a new review if the object has changed.
    Wait(Later),
}

/// The function that decides.
pub struct Admission(Box<dyn Fn(&Review<'_>) -> Verdict + Send + Sync>);

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").finish_non_exhaustive()
    }
}

impl Admission {
    /// Uses this function. The server stands still for it, so it must not call the server. The
    /// future of [`Verdict::Wait`] may.
    pub fn new(ask: impl Fn(&Review<'_>) -> Verdict + Send + Sync + 'static) -> Self {
        Self(Box::new(ask))
    }
}

/// The answer of admission: another state to write, or a denial.
type Answered = Result<Option<Value>, Status>;

/// A request that has begun: its number, and what admission has answered about it.
#[derive(Debug, Default)]
pub(crate) struct Begun {
    pub(crate) number: u64,
    /// The objects that admission was asked about, in the states that it was shown.
    answers: Vec<(Object, Answered)>,
}

impl Begun {
    /// A request with this number. The number 0 stands for the server itself.
    pub(crate) fn new(number: u64) -> Self {
        Self { number, ..Self::default() }
    }

    /// The first object that the request has waited for: the new one of a creation.
    pub(crate) fn awaited(&self) -> Option<&Object> {
        self.answers.first().map(|(object, _)| object)
    }

    /// What admission has answered about this state of this object.
    pub(crate) fn answer(&self, object: &Object) -> Option<Answered> {
        let of = |known: &Object| {
            known.uid() == object.uid() && known.resource_version() == object.resource_version()
        };
        self.answers.iter().find(|(known, _)| of(known)).map(|(_, answer)| answer.clone())
    }
}

/// A question to admission whose answer takes time.
pub(crate) struct Asked {
    pub(crate) object: Object,
    pub(crate) later: Later,
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").field("object", &self.object).finish_non_exhaustive()
    }
}

/// A request that waits for admission.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) begun: Begun,
    pub(crate) asked: Asked,
}

impl Waiting {
    /// Waits for the answer. Then the request can be
    /// [resumed](crate::server::Server::resume).
    pub async fn answered(self) -> Begun {
        let Self { mut begun, asked: Asked { object, mut later } } = self;
        let answer = loop {
            match later.await {
                Verdict::Wait(again) => later = again,
                Verdict::Allow => break Ok(None),
                Verdict::Mutate(new) => break Ok(Some(new)),
                Verdict::Deny(status) => break Err(status),
            }
        };
        begun.answers.push((object, answer));
        begun
    }
}

const GROUP: &str = "rbac.authorization.k8s.io";

/// Rejects what no role of the user allows, as stored now.
fn check_roles(store: &Store, user: &str, verb: Verb, path: ObjectPath<'_>) -> Result<(), Status> {
    let [bindings, roles] =
        ["clusterrolebindings", "clusterroles"].map(|plural| ResourceName::new(GROUP, plural));
    let mut rules = store
        .objects(&bindings)
        .filter_map(|(_, binding)| ClusterRoleBinding::deserialize(binding.value()).ok())
        .filter(|binding| binding.subjects.iter().flatten().any(|subject| is(subject, user)))
        .filter(|binding| binding.role_ref.kind == "ClusterRole")
        .filter_map(|binding| store.get(&roles, &Key::new(None, &binding.role_ref.name)))
        .filter_map(|role| ClusterRole::deserialize(role.value()).ok())
        .flat_map(|role| role.rules.unwrap_or_default());
    if rules.any(|rule| allows(&rule, verb, path)) { Ok(()) } else { Err(forbidden(user, verb, path)) }
}

/// Whether a subject of a binding is this user.
fn is(subject: &Subject, user: &str) -> bool {
    let Subject { kind, name, namespace, .. } = subject;
    match kind.as_str() {
        "User" => name == user,
        "ServiceAccount" => {
            let account = user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
            account == Some((namespace.as_deref().unwrap_or_default(), name))
        }
        _ => false,
    }
}

fn allows(rule: &PolicyRule, verb: Verb, path: ObjectPath<'_>) -> bool {
    let is_any = |word: &String, of: &str| word == "*" || word == of;
    let PolicyRule { verbs, api_groups, resources, resource_names, .. } = rule;
    let names = resource_names.as_deref().unwrap_or_default();
    verbs.iter().any(|one| is_any(one, verb.name()))
        && api_groups.iter().flatten().any(|group| is_any(group, path.group))
        && resources.iter().flatten().any(|resource| covers(resource, path))
        && (names.is_empty() || names.iter().any(|name| path.name == Some(name)))
}

/// Whether the resource of a rule matches a path: `*`, `pods`, `pods/status` or `*/status`.
fn covers(resource: &str, path: ObjectPath<'_>) -> bool {
    if resource == "*" {
        return true;
    }
    match (resource.split_once('/'), path.subresource) {
        (None, None) => resource == path.plural,
        (Some((of, subresource)), Some(asked)) => subresource == asked && (of == "*" || of == path.plural),
        _ => false,
    }
}

fn forbidden(user: &str, verb: Verb, path: ObjectPath<'_>) -> Status {
    let ObjectPath { group, plural, name, .. } = path;
    let resource = path.subresource.map_or_else(|| plural.to_owned(), |sub| format!("{plural}/{sub}"));
    // A namespace counts as being in itself.
    let namespace = path.namespace.or(if plural == "namespaces" { name } else { None });
    let place = namespace.map_or_else(
        || "at the cluster scope".to_owned(),
        |namespace| format!("in the namespace \"{namespace}\""),
    );
    let verb = verb.name();
    let why =
        format!("User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {place}");
    Status::forbidden(&ResourceName::new(group, plural), name.unwrap_or_default(), &why)
}
