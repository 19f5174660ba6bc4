//! An owner reference, as written.

use std::fmt;

use kube_gc_apiserver::object::Object;
use serde_json::Value;

/// One entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    /// `blockOwnerDeletion`; unset is false.
    pub blocking: bool,
}

impl Reference {
    /// Parses a reference.
    pub fn of(value: &Value) -> Self {
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        Self {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
            blocking: value["blockOwnerDeletion"] == true,
        }
    }

    /// All references of an object.
    pub fn all(object: &Object) -> Vec<Self> {
        object.owner_references().iter().map(Self::of).collect()
    }

    /// Whether both name the same owner in the same way.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.uid, &self.name, &self.kind, &self.api_version)
            == (&other.uid, &other.name, &other.kind, &other.api_version)
    }

    /// Group and version.
    pub fn group_version(&self) -> (&str, &str) {
        self.api_version.split_once('/').unwrap_or(("", &self.api_version))
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} (uid {})", self.api_version, self.kind, self.name, self.uid)
    }
}
