//! The options of writes.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::call::Call;
use crate::resources::ResourceName;
use crate::status::{FieldError, Status};
use crate::writes::body;

const OPTIONS: &str = "DeleteOptions";

/// Whether a write is a dry run.
pub(super) fn dry_run(call: &Call, options: &str) -> Result<bool, Status> {
    check_dry_run(&given_dry_run(call), options)
}

fn given_dry_run(call: &Call) -> Vec<String> {
    call.query.iter().filter(|(key, _)| key == "dryRun").map(|(_, value)| value.clone()).collect()
}

fn check_dry_run(given: &[String], options: &str) -> Result<bool, Status> {
    if given.iter().all(|one| *one == "All") {
        return Ok(!given.is_empty());
    }
    Err(invalid(options, FieldError::not_supported("dryRun", &given.join(", "))))
}

fn invalid(options: &str, error: FieldError) -> Status {
    Status::invalid(&ResourceName::new("meta.k8s.io", options), "", &[error])
}

/// The propagation policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Policy {
    Background,
    Foreground,
    Orphan,
}

/// The options of a DELETE.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DeleteOptions {
    kind: Option<String>,
    pub(super) grace_period_seconds: Option<i64>,
    pub(super) orphan_dependents: Option<bool>,
    pub(super) propagation_policy: Option<Policy>,
    pub(super) preconditions: Option<Preconditions>,
    #[serde(rename = "dryRun")]
    given_dry_run: Option<Vec<String>>,
    #[serde(skip)]
    pub(super) dry_run: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Preconditions {
    pub(super) uid: Option<String>,
    pub(super) resource_version: Option<String>,
}

impl DeleteOptions {
    /// Parses the options from the body, or from the query if there is no body.
    pub(super) fn read(call: &Call) -> Result<Self, Status> {
        let malformed =
            |error: serde_json::Error| invalid(OPTIONS, FieldError::invalid("", &error.to_string()));
        let mut options: Self = if call.body.is_empty() {
            serde_json::from_value(of_query(call)).map_err(malformed)?
        } else {
            body::check_content_type(call)?;
            serde_json::from_slice(&call.body).map_err(malformed)?
        };
        if let Some(kind) = options.kind.as_ref().filter(|kind| *kind != OPTIONS) {
            return Err(Status::bad_request(format!("no kind {kind:?} is registered for options")));
        }
        if options.propagation_policy.is_some() && options.orphan_dependents.is_some() {
            let fault = "orphanDependents and deletionPropagation cannot be both set";
            return Err(invalid(OPTIONS, FieldError::invalid("propagationPolicy", fault)));
        }
        options.dry_run = check_dry_run(options.given_dry_run.as_deref().unwrap_or_default(), OPTIONS)?;
        Ok(options)
    }
}

/// The options in a query, as those in a body.
fn of_query(call: &Call) -> Value {
    let mut options = Map::new();
    for (field, value) in &call.query {
        let value = match field.as_str() {
            "gracePeriodSeconds" => {
                value.parse::<i64>().map_or_else(|_| json!(value), |seconds| json!(seconds))
            }
            "orphanDependents" => json!(call.flag(field)),
            "propagationPolicy" => json!(value),
            "dryRun" => json!(given_dry_run(call)),
            _ => continue,
        };
        options.insert(field.clone(), value);
    }
    options.into()
}
