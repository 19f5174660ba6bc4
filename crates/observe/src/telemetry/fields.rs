//! What a line of the log and a page have besides text and numbers: objects, references, times.

use std::error::Error;
use std::fmt::{self, Debug, Display};
use std::time;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use kube_gc_core::object::{Identity, Key, Namespace, OwnerReference};
use kube_gc_core::text::{LISTED, bounded, listed, word};

/// A log field with members, such as an object: JSON has them as JSON, text as one text.
///
/// `tracing` itself knows text, numbers and booleans. A structured field travels as an error,
/// because that is the only kind of value that keeps its type. The formats recognize the type,
/// so text from the cluster cannot imitate a structured field.
#[derive(Debug)]
pub struct Structured {
    text: String,
    pub(super) json: Value,
    pub(super) place: Place,
}

/// Where JSON has the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Under the name of the field.
    OwnField,
    /// Its members are members of the line.
    TopLevel,
}

impl Structured {
    fn new(text: impl Display, json: &impl Serialize, place: Place) -> Self {
        // Only maps with other keys than strings cannot be values.
        Self { text: text.to_string(), json: serde_json::to_value(json).unwrap_or_default(), place }
    }

    /// A field that has the value in JSON.
    pub fn field(value: impl Display + Serialize) -> Self {
        Self::new(&value, &value, Place::OwnField)
    }

    /// A field of text. In JSON, the line has the members of the value instead.
    pub fn members(value: impl Display + Serialize) -> Self {
        Self::new(&value, &value, Place::TopLevel)
    }

    /// The object that a line is about: `resource`, `namespace`, `name` and `uid` in JSON.
    pub fn object(identity: &Identity) -> Self {
        Self::new(identity, &PrintedObject::from(identity), Place::TopLevel)
    }

    /// The same of an object whose name is not known.
    pub fn key(key: &Key) -> Self {
        Self::new(key, &PrintedObject::from(key), Place::TopLevel)
    }

    /// Another object that a line names.
    pub fn other_object(identity: &Identity) -> Self {
        Self::new(identity, &PrintedObject::from(identity), Place::OwnField)
    }

    /// The first of these texts under this name, which is an array in JSON, and the number of the
    /// others; `None` without any.
    pub fn list<T: Display>(name: &'static str, items: impl ExactSizeIterator<Item = T>) -> Option<Self> {
        let total = items.len();
        let items: Vec<_> = items.take(LISTED).map(|item| word(&item.to_string()).to_string()).collect();
        let more = total - items.len();
        let mut members = Map::from_iter([(name.to_owned(), json!(items))]);
        members.extend((more > 0).then(|| (format!("more_{name}"), more.into())));
        // Quoted, because it has spaces.
        let text = format!("{:?}", listed(", ", total, &items));
        (total > 0).then(|| Self::new(text, &members, Place::TopLevel))
    }

    /// As a value for `tracing`.
    pub fn logged(&self) -> &(dyn Error + 'static) {
        self
    }
}

impl Display for Structured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for Structured {}

/// An object, in the log and on the debug pages. The JSON fields are a public interface. Names and
/// uids of owners come from references, where they can have any length, so they are truncated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PrintedObject {
    /// Resource and group as kubectl writes them: `pods`, `deployments.apps`.
    pub resource: String,
    /// The namespace; `null` for cluster-scoped objects.
    pub namespace: Option<String>,
    /// The name; `null` if it is no longer known.
    pub name: Option<String>,
    /// The uid.
    pub uid: String,
}

impl From<&Identity> for PrintedObject {
    fn from(identity: &Identity) -> Self {
        Self { name: Some(word(&identity.name).to_string()), ..Self::from(&identity.key()) }
    }
}

impl From<&Key> for PrintedObject {
    fn from(key: &Key) -> Self {
        let Key { uid, resource, namespace } = key;
        Self {
            resource: resource.group_resource.to_string(),
            namespace: namespace.as_ref().map(Namespace::to_string),
            name: None,
            uid: uid.shown().to_string(),
        }
    }
}

/// A point in time, in RFC 3339 to the second, as in Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub time::SystemTime);

impl Timestamp {
    /// Now.
    pub fn now() -> Self {
        Self(time::SystemTime::now())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&humantime::format_rfc3339_seconds(self.0), f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A reference as its author wrote it, cut to what can be printed.
#[derive(Debug)]
pub struct PrintedReference<'a>(pub &'a OwnerReference);

impl Display for PrintedReference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OwnerReference { api_version, kind, name, uid, .. } = self.0;
        let (api_version, kind, name) = (word(api_version), word(kind), word(name));
        write!(f, "{api_version}/{kind}, name: {name}, uid: {}", uid.shown())
    }
}

/// An owner reference as a field of the log. Its author chooses the text, so it is cut and escaped.
pub fn owner_reference(reference: &OwnerReference) -> Structured {
    let OwnerReference { api_version, kind, name, uid, .. } = reference;
    let [api_version, kind, name] = [api_version, kind, name].map(|text| word(text).to_string());
    let json =
        json!({ "api_version": api_version, "kind": kind, "name": name, "uid": uid.shown().to_string() });
    Structured::new(format!("{:?}", bounded(PrintedReference(reference))), &json, Place::OwnField)
}
