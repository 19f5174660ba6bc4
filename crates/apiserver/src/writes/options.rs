//! The options of writes.

use serde_json::{Map, Value};

use crate::call::Call;
use crate::resources::ResourceName;
use crate::status::{FieldError, Status};

/// Whether a write is a dry run.
///
/// # Errors
///
/// 422 if the value is unknown.
pub(super) fn dry_run(call: &Call, options: &str) -> Result<bool, Status> {
    let given: Vec<&str> =
        call.query.iter().filter(|(key, _)| key == "dryRun").map(|(_, value)| &**value).collect();
    dry_run_among(&given, options)
}

fn dry_run_among(given: &[&str], options: &str) -> Result<bool, Status> {
    if given.iter().all(|one| *one == "All") {
        return Ok(!given.is_empty());
    }
    let given: Vec<String> = given.iter().map(|one| format!("{one:?}")).collect();
    let value = format!("[]string{{{}}}", given.join(", "));
    Err(invalid(options, &[FieldError::not_supported("dryRun", &value, &["All"])]))
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

const OPTIONS: &str = "DeleteOptions";

impl DeleteOptions {
    /// Parses the options from the body, or from the query if there is no body.
    ///
    /// # Errors
    ///
    /// The error that Kubernetes would answer.
    pub(super) fn read(call: &Call) -> Result<Self, Status> {
        if call.body.is_empty() {
            return Self::of_query(call);
        }
        super::body::check_content_type(call)?;
        let given: Map<String, Value> =
            serde_json::from_slice(&call.body).map_err(|error| Status::unnamed(error.to_string()))?;
        Self::of_body(&given)
    }

    fn of_body(given: &Map<String, Value>) -> Result<Self, Status> {
        let kind = given.get("kind").and_then(Value::as_str).unwrap_or(OPTIONS);
        if kind != OPTIONS {
            let version = given.get("apiVersion").and_then(Value::as_str).unwrap_or("v1");
            let scheme = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27";
            let message =
                format!("no kind {kind:?} is registered for version {version:?} in scheme {scheme:?}");
            return Err(Status::unnamed(message));
        }
        let preconditions = field(given, "preconditions", Value::as_object)?;
        let precondition = |name: &str| match preconditions {
            Some(preconditions) => Ok(field(preconditions, name, Value::as_str)?.map(str::to_owned)),
            None => Ok(None),
        };
        let dry_run = field(given, "dryRun", Value::as_array)?;
        let dry_run: Vec<&str> = dry_run.into_iter().flatten().filter_map(Value::as_str).collect();
        Self {
            grace: field(given, "gracePeriodSeconds", Value::as_i64)?,
            orphan_dependents: field(given, "orphanDependents", Value::as_bool)?,
            uid: precondition("uid")?,
            resource_version: precondition("resourceVersion")?,
            ..Self::default()
        }
        .checked(field(given, "propagationPolicy", Value::as_str)?, &dry_run)
    }

    fn of_query(call: &Call) -> Result<Self, Status> {
        let grace = call.query("gracePeriodSeconds").map(|text| {
            let error = || format!("strconv.ParseInt: parsing {text:?}: invalid syntax");
            text.parse().map_err(|_| Status::bad_request(error()))
        });
        let orphan_dependents = call.query("orphanDependents").map(|_| call.flag("orphanDependents"));
        let dry_run: Vec<&str> =
            call.query.iter().filter(|(key, _)| key == "dryRun").map(|(_, value)| &**value).collect();
        Self { grace: grace.transpose()?, orphan_dependents, ..Self::default() }
            .checked(call.query("propagationPolicy"), &dry_run)
    }

    fn checked(mut self, policy: Option<&str>, dry_run: &[&str]) -> Result<Self, Status> {
        const FIELD: &str = "propagationPolicy";
        let mut errors = Vec::new();
        if let (Some(policy), Some(_)) = (policy, self.orphan_dependents) {
            let fault = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid(FIELD, &format!("{policy:?}"), fault));
        }
        self.policy = match policy {
            None => None,
            Some("Background") => Some(Policy::Background),
            Some("Foreground") => Some(Policy::Foreground),
            Some("Orphan") => Some(Policy::Orphan),
            Some(other) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported(FIELD, &format!("{other:?}"), &supported));
                None
            }
        };
        if !errors.is_empty() {
            return Err(invalid(OPTIONS, &errors));
        }
        self.dry_run = dry_run_among(dry_run, OPTIONS)?;
        Ok(self)
    }
}

/// A field of the body; null counts as absent.
fn field<'a, T>(
    given: &'a Map<String, Value>,
    name: &str,
    read: impl Fn(&'a Value) -> Option<T>,
) -> Result<Option<T>, Status> {
    match given.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let wrong = || Status::unnamed(format!("v1.DeleteOptions.{name}: unexpected {value}"));
            read(value).map(Some).ok_or_else(wrong)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        for (query, body, code, message) in [
            (
                "",
                json!({"orphanDependents": true, "propagationPolicy": "Orphan"}),
                422,
                "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set",
            ),
            (
                "propagationPolicy=Foo",
                Value::Null,
                422,
                "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"Foo\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"",
            ),
            (
                "dryRun=Foo",
                Value::Null,
                422,
                "DeleteOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: []string{\"Foo\"}: supported values: \"All\"",
            ),
            ("gracePeriodSeconds=x", Value::Null, 400, "strconv.ParseInt: parsing \"x\": invalid syntax"),
            (
                "",
                json!({"gracePeriodSeconds": "x"}),
                500,
                "v1.DeleteOptions.gracePeriodSeconds: unexpected \"x\"",
            ),
            (
                "",
                json!({"kind": "Foo", "apiVersion": "v1"}),
                500,
                "no kind \"Foo\" is registered for version \"v1\" in scheme \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\"",
            ),
        ] {
            let status = read(query, body).unwrap_err();
            assert_eq!((status.code, &*status.message), (code, message));
        }
    }
}
