//! Log fields with members, such as an object: JSON has them as JSON, text as one text.
//!
//! `tracing` itself knows text, numbers and booleans. A structured field travels as an error,
//! because that is the only kind of value that keeps its type. The formats recognize the type,
//! so text from the cluster cannot imitate a structured field.

use std::error::Error;
use std::fmt::{self, Debug, Display};

use serde::ser::{Serialize, SerializeMap as _, SerializeStruct as _, Serializer};

use kube_gc_core::object::{Identity, Key, Namespace};
use kube_gc_core::text::{LISTED, listed, word};

/// A log field with members. [`logged`](Self::logged) makes it a value for `tracing`.
#[derive(Debug)]
pub struct Structured {
    value: Box<dyn Value>,
    place: Place,
}

/// Where JSON has the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Under the name of the field.
    OwnField,
    /// Its members are members of the line.
    TopLevel,
}

/// What the formats need of a value.
trait Value: Debug + Display {
    fn json(&self) -> serde_json::Result<String>;
}

impl<T: Debug + Display + Serialize> Value for T {
    fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }
}

impl Structured {
    /// A field that has the value in JSON.
    pub fn field(value: impl Debug + Display + Serialize + 'static) -> Self {
        Self { value: Box::new(value), place: Place::OwnField }
    }

    /// A field of text. In JSON, the line has the members of the value instead.
    pub fn members(value: impl Debug + Display + Serialize + 'static) -> Self {
        Self { value: Box::new(value), place: Place::TopLevel }
    }

    /// The object that a line is about: `resource`, `namespace`, `name` and `uid` in JSON.
    #[must_use]
    pub fn object(identity: &Identity) -> Self {
        Self::members(Object(identity.clone()))
    }

    /// The same of an object whose name is not known.
    #[must_use]
    pub fn key(key: &Key) -> Self {
        Self::members(Unnamed(key.clone()))
    }

    /// Another object that a line names.
    #[must_use]
    pub fn other_object(identity: &Identity) -> Self {
        Self::field(Object(identity.clone()))
    }

    /// The first of these texts under this name, which is an array in JSON, and the number of the
    /// others; `None` without any.
    pub fn list<T: Display>(name: &'static str, items: impl ExactSizeIterator<Item = T>) -> Option<Self> {
        let total = items.len();
        let items: Vec<_> = items.take(LISTED).map(|item| word(&item.to_string()).to_string()).collect();
        (total > 0).then(|| Self::members(List { name, more: total - items.len(), items }))
    }

    /// As a value for `tracing`.
    #[must_use]
    pub fn logged(&self) -> &(dyn Error + 'static) {
        self
    }

    /// A value that `tracing` hands on, if it is one of these.
    pub(super) fn of<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e Self> {
        error.downcast_ref()
    }

    /// Adds the members of the value, or the value, to a line of JSON.
    pub(super) fn write_json(&self, field: &str, line: &mut String, comma: &mut bool) {
        let Ok(json) = self.value.json() else { return };
        let members = (self.place == Place::TopLevel)
            .then(|| json.strip_prefix('{').and_then(|json| json.strip_suffix('}')))
            .flatten();
        match members {
            Some("") => return,
            Some(members) => {
                if *comma {
                    line.push(',');
                }
                line.push_str(members);
            }
            None => super::json::member(line, comma, field, &json),
        }
        *comma = true;
    }
}

impl Display for Structured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.value, f)
    }
}

impl Error for Structured {}

/// Several texts.
#[derive(Debug)]
struct List {
    name: &'static str,
    items: Vec<String>,
    /// How many are left out.
    more: usize,
}

impl Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Quoted, because it has spaces.
        fmt::Debug::fmt(&listed(", ", self.items.len() + self.more, &self.items), f)
    }
}

impl Serialize for List {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(None)?;
        members.serialize_entry(self.name, &self.items)?;
        if self.more > 0 {
            members.serialize_entry(&format!("more_{}", self.name), &self.more)?;
        }
        members.end()
    }
}

/// An object, with the fields of the debug pages.
#[derive(Debug)]
struct Object(Identity);

impl Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, f)
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Identity { name, .. } = &self.0;
        object(serializer, &self.0.key(), Some(&word(name).to_string()))
    }
}

#[derive(Debug)]
struct Unnamed(Key);

impl Display for Unnamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, f)
    }
}

impl Serialize for Unnamed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        object(serializer, &self.0, None)
    }
}

fn object<S: Serializer>(serializer: S, key: &Key, name: Option<&str>) -> Result<S::Ok, S::Error> {
    let Key { uid, resource, namespace } = key;
    let mut fields = serializer.serialize_struct("Object", 4)?;
    fields.serialize_field("resource", &resource.group_resource.to_string())?;
    fields.serialize_field("namespace", &namespace.as_ref().map(Namespace::as_str))?;
    fields.serialize_field("name", &name)?;
    fields.serialize_field("uid", &uid.shown().to_string())?;
    fields.end()
}
