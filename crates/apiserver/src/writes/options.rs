//! The options of writes.

use serde::Deserialize;

use crate::call::Call;
use crate::resources::ResourceName;
use crate::status::{FieldError, Status};
use crate::writes::body;

const OPTIONS: &str = "DeleteOptions";

/// Whether a write is a dry run.
pub(super) fn dry_run(call: &Call, options: &str) -> Result<bool, Status> {
    let given = call.query.iter().filter(|(key, _)| key == "dryRun").map(|(_, value)| value.clone());
    dry_run_among(&given.collect::<Vec<String>>(), options)
}

fn dry_run_among(given: &[String], options: &str) -> Result<bool, Status> {
    if given.iter().all(|one| *one == "All") {
        return Ok(!given.is_empty());
    }
    Err(invalid(options, &[FieldError::not_supported("dryRun", &given.join(", "))]))
}

fn invalid(options: &str, errors: &[FieldError]) -> Status {
    Status::invalid(&ResourceName::new("meta.k8s.io", options), "", errors)
}

/// The propagation policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    Background,
    Foreground,
    Orphan,
}

/// The options of a DELETE.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DeleteOptions {
    pub(super) grace: Option<i64>,
    pub(super) orphan_dependents: Option<bool>,
    pub(super) policy: Option<Policy>,
    /// The precondition on the uid.
    pub(super) uid: Option<String>,
    /// The precondition on the resource version.
    pub(super) resource_version: Option<String>,
    pub(super) dry_run: bool,
}

/// The options as a client writes them.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Given {
    kind: Option<String>,
    grace_period_seconds: Option<i64>,
    orphan_dependents: Option<bool>,
    propagation_policy: Option<String>,
    preconditions: Option<Preconditions>,
    dry_run: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

impl DeleteOptions {
    /// Parses the options from the body, or from the query if there is no body.
    pub(super) fn read(call: &Call) -> Result<Self, Status> {
        let given = if call.body.is_empty() {
            Self::of_query(call)?
        } else {
            body::check_content_type(call)?;
            serde_json::from_slice(&call.body).map_err(|error| Status::unnamed(error.to_string()))?
        };
        Self::checked(given)
    }

    fn of_query(call: &Call) -> Result<Given, Status> {
        let grace = call.query("gracePeriodSeconds").map(str::parse).transpose();
        let dry_run = call.query.iter().filter(|(key, _)| key == "dryRun").map(|(_, value)| value.clone());
        Ok(Given {
            grace_period_seconds: grace
                .map_err(|_| Status::bad_request("gracePeriodSeconds is no number"))?,
            orphan_dependents: call.query("orphanDependents").map(|_| call.flag("orphanDependents")),
            propagation_policy: call.query("propagationPolicy").map(str::to_owned),
            dry_run: Some(dry_run.collect()),
            ..Given::default()
        })
    }

    fn checked(given: Given) -> Result<Self, Status> {
        const FIELD: &str = "propagationPolicy";
        if let Some(kind) = given.kind.filter(|kind| kind != OPTIONS) {
            return Err(Status::unnamed(format!("no kind {kind:?} is registered for options")));
        }
        let mut errors = Vec::new();
        if given.propagation_policy.is_some() && given.orphan_dependents.is_some() {
            let fault = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid(FIELD, fault));
        }
        let policy = match given.propagation_policy.as_deref() {
            None => None,
            Some("Background") => Some(Policy::Background),
            Some("Foreground") => Some(Policy::Foreground),
            Some("Orphan") => Some(Policy::Orphan),
            Some(other) => {
                errors.push(FieldError::not_supported(FIELD, other));
                None
            }
        };
        if !errors.is_empty() {
            return Err(invalid(OPTIONS, &errors));
        }
        let Preconditions { uid, resource_version } = given.preconditions.unwrap_or_default();
        Ok(Self {
            grace: given.grace_period_seconds,
            orphan_dependents: given.orphan_dependents,
            policy,
            uid,
            resource_version,
            dry_run: dry_run_among(&given.dry_run.unwrap_or_default(), OPTIONS)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::writes::tests::call;

    fn read(query: &str, body: Value) -> Result<DeleteOptions, Status> {
        let path = format!("/api/v1/namespaces/t/configmaps/a?{query}");
        DeleteOptions::read(&call("DELETE", &path, if body.is_null() { None } else { Some(body) }))
    }

    #[test]
    fn options_come_from_the_body_or_the_query() {
        let all = DeleteOptions {
            grace: Some(7),
            policy: Some(Policy::Orphan),
            dry_run: true,
            ..DeleteOptions::default()
        };
        let body = json!({"kind": "DeleteOptions", "apiVersion": "foo/v1", "gracePeriodSeconds": 7,
                          "propagationPolicy": "Orphan", "dryRun": ["All"], "orphanDependents": null});
        assert_eq!(read("", body), Ok(all.clone()));
        assert_eq!(read("gracePeriodSeconds=7&propagationPolicy=Orphan&dryRun=All", Value::Null), Ok(all));
        assert_eq!(read("propagationPolicy=Orphan", json!({})), Ok(DeleteOptions::default()));
        let preconditions = json!({"preconditions": {"uid": "u", "resourceVersion": "7"}});
        let options = read("", preconditions).unwrap();
        assert_eq!((options.uid.as_deref(), options.resource_version.as_deref()), (Some("u"), Some("7")));
        assert_eq!(read("orphanDependents=false", Value::Null).unwrap().orphan_dependents, Some(false));
    }

    #[test]
    fn invalid_options_are_rejected() {
        for (query, body, code) in [
            ("", json!({"orphanDependents": true, "propagationPolicy": "Orphan"}), 422),
            ("propagationPolicy=Foo", Value::Null, 422),
            ("dryRun=Foo", Value::Null, 422),
            ("gracePeriodSeconds=x", Value::Null, 400),
            ("", json!({"gracePeriodSeconds": "x"}), 500),
            ("", json!({"kind": "Foo", "apiVersion": "v1"}), 500),
        ] {
            assert_eq!(read(query, body).unwrap_err().code, code);
        }
    }
}
