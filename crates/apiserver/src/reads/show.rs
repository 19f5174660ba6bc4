//! The requested form of an answer, and objects in that form.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::object::Object;
use crate::reads::Read;
use crate::reads::table::table;
use crate::resources::Resource;
use crate::server::{Body, Release, Reply};
use crate::status::Status;

/// The version of `meta.k8s.io` in the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meta {
    /// `v1`.
    V1,
    /// `v1beta1`, which differs only in its name.
    V1Beta1,
}

impl Meta {
    fn of(group: &str, version: &str) -> Option<Self> {
        match (group, version) {
            ("meta.k8s.io", "v1") => Some(Self::V1),
            ("meta.k8s.io", "v1beta1") => Some(Self::V1Beta1),
            _ => None,
        }
    }

    /// The `apiVersion` of objects in this version.
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The form of objects in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The objects themselves.
    Full,
    /// `PartialObjectMetadata`.
    Metadata(Meta),
    /// `PartialObjectMetadataList`: lists only.
    MetadataList(Meta),
    /// `Table`.
    Table(Meta),
}

impl Form {
    /// The best form that an `Accept` header allows for objects of a type.
    pub fn wanted(accept: &str, resource: &Resource) -> Result<Self, Status> {
        if accept.trim().is_empty() {
            return Ok(Self::Full);
        }
        let mut offers: Vec<Offer<'_>> = accept.split(',').map(Offer::parse).collect();
        // The sort is stable, so the first of equal clauses wins.
        offers.sort_by(|one, other| other.quality.total_cmp(&one.quality));
        // Only the handlers of custom resources support this wildcard.
        let routed =
            resource.custom || offers.iter().any(|offer| matches!(offer.media, "application/json" | "*/*"));
        offers.retain(|offer| matches!(offer.media, "application/json" | "application/*" | "*/*"));
        if !routed {
            let mut status = Status::new(406, "NotAcceptable", "406: Not Acceptable");
            status.details = Some(serde_json::json!({}));
            return Err(status);
        }
        offers.iter().find_map(Offer::form).ok_or_else(|| {
            not_acceptable("only the following media types are accepted: application/json".to_owned())
        })
    }

    /// The form of a single object, or of the objects in a stream.
    pub fn of_one(self, resource: &Resource) -> Result<Self, Status> {
        match self {
            Self::MetadataList(_) if resource.custom => Err(Status::unnamed("content is not a list")),
            Self::MetadataList(_) => Err(not_acceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
                resource.kind
            ))),
            form => Ok(form),
        }
    }

    /// The form of a list.
    pub fn of_list(self, list_kind: &str) -> Result<Self, Status> {
        match self {
            Self::Metadata(_) => Err(not_acceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list ({list_kind})"
            ))),
            form => Ok(form),
        }
    }
}

fn not_acceptable(message: String) -> Status {
    Status::new(406, "NotAcceptable", message)
}

/// A clause of the header.
pub(crate) struct Offer<'a> {
    pub(crate) media: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    quality: f32,
}

impl<'a> Offer<'a> {
    pub(crate) fn parse(clause: &'a str) -> Self {
        let mut parts = clause.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let mut offer = Self { media, kind: "", group: "", version: "", quality: 1.0 };
        for (parameter, value) in parts.filter_map(|part| part.split_once('=')) {
            match parameter {
                "as" => offer.kind = value,
                "g" => offer.group = value,
                "v" => offer.version = value,
                "q" => offer.quality = value.parse().unwrap_or(1.0),
                _ => {}
            }
        }
        offer
    }

    fn form(&self) -> Option<Form> {
        if self.kind.is_empty() {
            return Some(Form::Full);
        }
        let version = Meta::of(self.group, self.version)?;
        match self.kind {
            "PartialObjectMetadata" => Some(Form::Metadata(version)),
            "PartialObjectMetadataList" => Some(Form::MetadataList(version)),
            "Table" => Some(Form::Table(version)),
            _ => None,
        }
    }
}

const JSON: &str = "application/json";
const PARTIAL_LIST: &str = "PartialObjectMetadataList";

/// `group/version`, or only the version in the core group.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The answer with one object: to a get, and to writes.
pub fn reply_object(code: u16, object: &Object, read: &Read<'_>) -> Result<Reply, Status> {
    let Read { resource, path, call, .. } = read;
    let body = match Form::wanted(&call.accept, resource)?.of_one(resource)? {
        Form::Table(meta) => shown_table(&[object], &metadata_of_one(object, None), meta, read),
        form => {
            let api_version = api_version(path.group, path.version);
            Body::Json(in_form(object, &api_version, form, true), JSON)
        }
    };
    Ok(Reply { code, body })
}

/// A list, in the order of a real server: a client may read the items as they come.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    kind: &'a str,
    api_version: &'a str,
    metadata: &'a Map<String, Value>,
    items: Option<Vec<Value>>,
}

/// The answer with a list.
pub(super) fn reply_list(
    objects: &[&Object],
    metadata: Map<String, Value>,
    form: Form,
    read: &Read<'_>,
    release: Release,
) -> Reply {
    let Read { resource, path, .. } = read;
    let item_version = api_version(path.group, path.version);
    let list = |kind: &str, api_version: &str, typed| {
        let items = objects.iter().map(|object| in_form(object, &item_version, form, typed)).collect();
        // An empty list is `null` in this form.
        let null = release == Release::V1_20 && kind == PARTIAL_LIST && objects.is_empty();
        let list = List { kind, api_version, metadata: &metadata, items: (!null).then_some(items) };
        // All keys are strings, so serialization cannot fail.
        Body::Written(serde_json::to_vec(&list).unwrap_or_default().into(), JSON)
    };
    let body = match form {
        Form::Table(meta) => shown_table(objects, &Value::Object(metadata), meta, read),
        Form::Metadata(meta) | Form::MetadataList(meta) => list(PARTIAL_LIST, meta.api_version(), true),
        // Items of built-in types have no `kind` and `apiVersion`.
        Form::Full => list(&resource.list_kind, &item_version, resource.custom),
    };
    Reply { code: 200, body }
}

/// The metadata of a table with one object: its version.
pub(super) fn metadata_of_one(object: &Object, version: Option<u64>) -> Value {
    json!({"resourceVersion": version.unwrap_or_else(|| object.resource_version()).to_string()})
}

fn shown_table(objects: &[&Object], metadata: &Value, meta: Meta, read: &Read<'_>) -> Body {
    let Read { resource, path, call, now } = read;
    Body::Json(table(resource, path.version, objects, metadata, meta, call, *now), JSON)
}

/// An object in the requested form, with or without `kind` and `apiVersion`.
pub(super) fn in_form(object: &Object, api_version: &str, form: Form, typed: bool) -> Value {
    if let Form::Metadata(meta) | Form::MetadataList(meta) = form {
        return json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": meta.api_version(),
            "metadata": object.metadata(),
        });
    }
    let mut value = object.to_value();
    if typed {
        value["apiVersion"] = api_version.into();
    } else if let Some(fields) = value.as_object_mut() {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    value
}
