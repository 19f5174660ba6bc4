//! `Accept`: the requested form of an answer.

use crate::resources::Resource;
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
    #[must_use]
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
    ///
    /// # Errors
    ///
    /// 406 if the header allows none.
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
    ///
    /// # Errors
    ///
    /// If a list was requested: 406, or 500 for types that are not Go types.
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
    ///
    /// # Errors
    ///
    /// 406 if a single object was requested.
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
struct Offer<'a> {
    media: &'a str,
    kind: &'a str,
    group: &'a str,
    version: &'a str,
    quality: f32,
}

impl<'a> Offer<'a> {
    fn parse(clause: &'a str) -> Self {
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
