//! Errors of requests, classified by what the caller must know.

use std::fmt;
use std::time::Duration;

use super::connection_error::CANNOT_CONNECT;
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::text::excerpt;
use kube_gc_decode::{Named, Status};

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// What it means to the caller.
    pub class: ErrorClass,
    /// The HTTP method or the verb.
    pub action: &'static str,
    /// The target: resource, namespace and name, or a path.
    pub target: String,
    /// The server's message, or the transport's. Never contains an object.
    pub message: String,
    /// The HTTP status code, if there was an answer.
    pub code: Option<u16>,
}

/// What a failed request means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The object's own 404 to a read: `Status.details` has its name, resource and group. The
    /// object is absent.
    Absent,
    /// The answer to a write says that the object is gone (its own 404) or that another object has
    /// its name (422 that names `metadata.uid`). Admission may say that of an object that is there,
    /// so it proves nothing: a GET decides.
    SaysGone,
    /// Another 404, or 405: the path is not served. This says nothing about the object.
    NotServed,
    /// The 404 of the namespace of a write.
    NamespaceGone,
    /// 409: a precondition does not hold, or the object exists already.
    Conflict,
    /// Another 4xx: the server refuses the request.
    Refused,
    /// An answer that cannot be used, such as an object without a uid. It proves nothing.
    Unusable,
    /// The answer exceeds the length limit. It proves nothing.
    TooLong,
    /// 401, 403, a denial by an admission webhook or policy with any code, or a write that was
    /// accepted and did not do its work.
    Denied,
    /// 429.
    Throttled {
        /// The wait that the server asks for.
        retry_after: Option<Duration>,
    },
    /// 410: the resource version or continue token has expired.
    Expired,
    /// "Too large resource version": this server has not seen the version yet, or never will,
    /// because its store was restored from a backup.
    TooLargeResourceVersion,
    /// 5xx, a timeout, or a connection error: retry.
    Transient,
    /// The write gate is closed; nothing was sent.
    GateClosed,
    /// Nothing was sent: watches broke, so the restore fence was raised. The store was not
    /// restored, but the decision must be made again.
    Fenced,
    /// This is a dry run; nothing was sent.
    DryRun,
    /// Nothing was sent, because the API server is unreachable, or requests of this type and verb hang
    /// for other objects. Or an object that was not found may still be in admission.
    Deferred {
        /// When to retry, unless woken earlier.
        retry_after: Duration,
        /// An object may still be in admission.
        unborn: bool,
    },
}

impl ApiError {
    /// An error without an answer.
    pub fn new(
        class: ErrorClass,
        action: &'static str,
        target: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self { class, action, target: target.into(), message: message.into(), code: None }
    }

    /// The answer to a read; `None` if it says that the object, or its namespace, is absent.
    pub(super) fn unless_absent<T>(answer: Result<T, Self>) -> Result<Option<T>, Self> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if matches!(error.class, ErrorClass::Absent | ErrorClass::NamespaceGone) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the server supports none of the requested encodings.
    pub(super) fn says_not_acceptable(&self) -> bool {
        matches!(self.code, Some(406 | 415))
    }

    /// Whether the server is overloaded. The 429 of a disruption budget is about one object, and that of
    /// a webhook is a denial.
    pub(super) fn says_too_busy(&self) -> bool {
        matches!(self.class, ErrorClass::Throttled { .. }) && !self.message.contains("disruption budget")
    }

    pub fn is_unanswered(&self) -> bool {
        self.class == ErrorClass::Transient && self.code.is_none()
    }

    /// Whether the request may have taken effect: it was sent, and its result is not known.
    pub fn may_have_taken_effect(&self) -> bool {
        match self.class {
            ErrorClass::Transient => match self.code {
                // The server did not process it.
                Some(503) => false,
                // Admission precedes the effect.
                Some(_) => !self.message.contains("failed calling webhook"),
                None => !self.message.starts_with(CANNOT_CONNECT),
            },
            class => matches!(class, ErrorClass::Unusable | ErrorClass::TooLong),
        }
    }

    /// What is known of the effect of the write that ended with this error. The error may be
    /// that of a read before the write.
    pub fn effect(&self) -> Effect {
        let is_read = self.action == "GET";
        match self.class {
            ErrorClass::GateClosed
            | ErrorClass::Fenced
            | ErrorClass::DryRun
            | ErrorClass::Deferred { .. } => Effect::NotSent,
            _ if self.is_unanswered() && (is_read || !self.may_have_taken_effect()) => Effect::NotSent,
            ErrorClass::Unusable | ErrorClass::TooLong if !is_read => Effect::Unknown,
            // Only the code of a timeout leaves open whether the server continues with the
            // request.
            ErrorClass::Transient if !is_read && matches!(self.code, None | Some(504)) => Effect::Unknown,
            _ => Effect::None,
        }
    }
}

/// What is known of the effect of a write that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    NotSent,
    /// The write was sent, and its result is not known.
    Unknown,
    /// The server refused the write, or could not process it.
    None,
}

/// The longest target in a message. Only an invalid name in an owner reference or an invalid
/// group in discovery exceeds it.
const LONGEST_TARGET: usize = 1024;

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ", self.action, excerpt(&self.target, LONGEST_TARGET))?;
        if let Some(code) = self.code {
            write!(f, "{code} ")?;
            if let Some(reason) = http::StatusCode::from_u16(code).ok().and_then(|s| s.canonical_reason()) {
                write!(f, "{reason}: ")?;
            }
        }
        write!(f, "{}", excerpt(&self.message, 2 * LONGEST_MESSAGE))
    }
}

impl std::error::Error for ApiError {}

/// Stands for a body that is not quoted in an error message.
pub(super) const NO_TEXT: &[u8] = b"{}";

/// The longest message of a server. A proxy may answer with a whole page.
const LONGEST_MESSAGE: usize = 1024;

/// The longest `Retry-After` that is honoured. Kubernetes asks for at most 32 s, but an
/// aggregated API, a webhook or a proxy may ask for anything.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Classifies an HTTP error. `status` is the decoded `Status`, if the body is one.
pub(super) fn classify(
    code: u16,
    status: &Status,
    retry_after: Option<Duration>,
    object: Option<Named<'_>>,
) -> ErrorClass {
    // First of all: admission may deny with the code and the details of any other answer.
    if status.is_admission_denial() {
        return ErrorClass::Denied;
    }
    if status.says_too_large_resource_version() {
        return ErrorClass::TooLargeResourceVersion;
    }
    if status.says_expired() {
        return ErrorClass::Expired;
    }
    match code {
        401 | 403 => ErrorClass::Denied,
        404 if mutation::is(Mutation::Any404IsAbsence) => ErrorClass::Absent,
        404 => match object {
            Some(object) if status.is_about(object) => ErrorClass::Absent,
            Some(Named { namespace: Some(namespace), .. }) if status.is_about_namespace(namespace) => {
                ErrorClass::NamespaceGone
            }
            _ => ErrorClass::NotServed,
        },
        405 => ErrorClass::NotServed,
        408 => ErrorClass::Transient,
        409 => ErrorClass::Conflict,
        410 => ErrorClass::Expired,
        422 if status.causes_name("metadata.uid") => ErrorClass::SaysGone,
        429 => {
            let retry_after = retry_after.or(status.retry_after());
            ErrorClass::Throttled { retry_after: retry_after.map(|after| after.min(LONGEST_RETRY_AFTER)) }
        }
        400..=499 => ErrorClass::Refused,
        _ => ErrorClass::Transient,
    }
}

/// The message to show: the server's, or the start of a body that is neither a `Status` nor
/// other JSON, which might be an object.
pub(super) fn message(status: &Status, body: &[u8]) -> String {
    let text = if status.message.is_empty() {
        match body.iter().find(|byte| !byte.is_ascii_whitespace()) {
            None => "the response is empty".into(),
            Some(b'{' | b'[') => "the response is not a Status".into(),
            Some(_) => String::from_utf8_lossy(&body[..body.len().min(4 * LONGEST_MESSAGE)]),
        }
    } else {
        status.message.as_str().into()
    };
    excerpt(text.trim(), LONGEST_MESSAGE).to_string().replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::ErrorClass::Throttled;
    use super::*;
    use kube_gc_core::object::GroupResource;
    use kube_gc_decode::Encoding;

    #[test]
    fn an_error_is_never_longer_than_a_log_line() {
        let error = ApiError {
            class: ErrorClass::Refused,
            action: "GET",
            target: "ö".repeat(1_000_000),
            message: "x".repeat(1_000_000),
            code: Some(403),
        };
        assert!(error.to_string().len() < kube_gc_core::text::LONGEST);
    }

    #[test]
    fn the_effect_of_a_failed_write_is_reported_as_far_as_it_is_known() {
        use ErrorClass::{Conflict, Deferred, Denied, Fenced, GateClosed, Refused, Transient, Unusable};
        let deferred = Deferred { retry_after: Duration::ZERO, unborn: false };
        for (action, class, message, code, effect) in [
            ("DELETE", Transient, "no answer within 30s", None, Effect::Unknown),
            ("PATCH", Transient, "cancelled while in flight: lost", None, Effect::Unknown),
            ("DELETE", Transient, "the server goes on without us", Some(504), Effect::Unknown),
            ("DELETE", Unusable, "no uid", Some(200), Effect::Unknown),
            ("DELETE", Transient, "cannot connect: refused", None, Effect::NotSent),
            ("GET", Transient, "no answer within 30s", None, Effect::NotSent),
            ("DELETE", deferred, "held", None, Effect::NotSent),
            ("DELETE", Fenced, "watches broke", None, Effect::NotSent),
            ("DELETE", GateClosed, "standby", None, Effect::NotSent),
            ("DELETE", Transient, "etcd", Some(500), Effect::None),
            ("GET", Transient, "etcd", Some(504), Effect::None),
            ("DELETE", Transient, "shutting down", Some(503), Effect::None),
            ("DELETE", Denied, "no", Some(403), Effect::None),
            ("DELETE", Refused, "no", Some(400), Effect::None),
            ("DELETE", Conflict, "no", Some(409), Effect::None),
        ] {
            let error = ApiError { class, action, target: "pods a/b".into(), message: message.into(), code };
            assert_eq!(error.effect(), effect, "{error}");
            assert!(effect != Effect::Unknown || error.may_have_taken_effect(), "{error}");
        }
    }

    fn status(json: &str) -> Status {
        Status::read(Encoding::Json, json.as_bytes())
    }

    fn sort(code: u16, json: &str) -> ErrorClass {
        let widgets = GroupResource::parse("widgets.example.com");
        let object = Named { group_resource: &widgets, namespace: Some("ns"), name: "w" };
        classify(code, &status(json), None, Some(object))
    }

    #[test]
    fn only_the_objects_own_404_means_absent() {
        let own = r#"{"details":{"name":"w","group":"example.com","kind":"widgets"}}"#;
        assert_eq!(sort(404, own), ErrorClass::Absent);
        for other in [
            r#"{"details":{"name":"v","group":"example.com","kind":"widgets"}}"#,
            r#"{"details":{"name":"w","group":"example.org","kind":"widgets"}}"#,
            r#"{"details":{"name":"w","group":"example.com","kind":"gadgets"}}"#,
            r#"{"details":{}}"#,
            r#"{"message":"the server could not find the requested resource"}"#,
            "404 page not found",
        ] {
            assert_eq!(sort(404, other), ErrorClass::NotServed, "{other}");
        }
        assert_eq!(sort(404, r#"{"details":{"name":"ns","kind":"namespaces"}}"#), ErrorClass::NamespaceGone);
    }

    #[test]
    fn a_uid_in_the_causes_is_another_object_and_other_422_are_refusals() {
        let uid = r#"{"details":{"causes":[{"reason":"FieldValueInvalid","field":"metadata.uid"}]}}"#;
        let other = r#"{"details":{"causes":[{"reason":"FieldValueInvalid","field":"spec.x"}]}}"#;
        assert_eq!(sort(422, uid), ErrorClass::SaysGone);
        assert_eq!(sort(422, other), ErrorClass::Refused);
    }

    /// Rule 1.27. Admission chooses the code, the reason and the details.
    #[test]
    fn admission_may_deny_with_any_code() {
        for message in [
            r#"admission webhook \"x.y\" denied the request: no"#,
            r#"admission webhook \"x.y\" denied the request without explanation"#,
            r#"admission webhook \"x.y\" denied the request: widgets \"w\" is forbidden: no"#,
            r#"widgets.example.com \"w\" is forbidden: admission webhook \"x.y\" denied the request: no"#,
            r#"Internal error occurred: admission webhook \"x.y\" denied the request: no"#,
            r#"configmaps \"b\" is forbidden: ValidatingAdmissionPolicy 'keep.example.com' with binding 'keep-here' denied request: it is kept"#,
            r#"configmaps \"b\" is forbidden: ValidatingAdmissionPolicy 'keep.example.com' denied request: no params"#,
            r#"policy 'broken.example.com' with binding 'broken-here' denied request: expression '[JSONPatch{op: 'remove', path: '/data/' + object.data['nope']}]' resulted in error: no such key: data"#,
        ] {
            for details in [
                r#""details":{"name":"w","group":"example.com","kind":"widgets"}"#,
                r#""details":{"name":"ns","kind":"namespaces"}"#,
                r#""details":{"causes":[{"field":"metadata.uid"},{"reason":"ResourceVersionTooLarge"}]}"#,
                r#""reason":"Expired","details":{"retryAfterSeconds":7}"#,
            ] {
                let body = format!(r#"{{"message":"{message}",{details}}}"#);
                for code in [400, 401, 403, 404, 405, 409, 410, 415, 422, 429, 500, 503, 504] {
                    assert_eq!(sort(code, &body), ErrorClass::Denied, "{code} {body}");
                }
            }
        }
        assert_eq!(sort(403, "{}"), ErrorClass::Denied);
        assert_eq!(sort(401, "{}"), ErrorClass::Denied);
        let quoted =
            r#"{"message":"Widget \"w\" is invalid: x: \"admission webhook \\\"x\\\" denied the request\""}"#;
        assert_eq!(sort(422, quoted), ErrorClass::Refused);
    }

    #[test]
    fn some_errors_are_recognized_by_words_or_causes_rather_than_by_the_code() {
        for (code, body, class) in [
            (504, r#"{"details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}"#, "TooLarge"),
            (504, r#"{"message":"Too large resource version: 9, current: 5"}"#, "TooLarge"),
            (504, "{}", "Transient"),
            (410, "{}", "Expired"),
            (500, r#"{"reason":"Expired"}"#, "Expired"),
            (0, r#"{"message":"too old resource version: 1 (5)"}"#, "Expired"),
        ] {
            assert!(format!("{:?}", sort(code, body)).starts_with(class), "{code} {body}");
        }
    }

    #[test]
    fn a_retry_after_counts_for_at_most_a_minute() {
        let body = r#"{"details":{"retryAfterSeconds":7}}"#;
        let after = |seconds| Throttled { retry_after: Some(Duration::from_secs(seconds)) };
        assert_eq!(sort(429, body), after(7));
        assert_eq!(classify(429, &status(body), Some(Duration::from_secs(2)), None), after(2));
        let header = Some(Duration::from_secs(u64::MAX));
        assert_eq!(classify(429, &Status::default(), header, None), after(60));
        for seconds in ["61", "18446744073709551615"] {
            assert_eq!(sort(429, &format!(r#"{{"details":{{"retryAfterSeconds":{seconds}}}}}"#)), after(60));
        }
        // An invalid time is ignored, but the rest of the answer is used.
        let own = Throttled { retry_after: None };
        for seconds in ["-1", "0", "1e300", "18446744073709551616", "0.5"] {
            let body = format!(r#"{{"message":"later","details":{{"retryAfterSeconds":{seconds}}}}}"#);
            assert_eq!((sort(429, &body), status(&body).message.as_str()), (own, "later"), "{seconds}");
        }
    }

    #[test]
    fn only_the_servers_own_429_says_that_it_is_too_busy() {
        for (code, body, is_busy) in [
            (429, "Too many requests, please try again later.\n", true),
            (429, r#"{"message":"storage is (re)initializing"}"#, true),
            (429, r#"{"message":"admission webhook \"x.y\" denied the request: later"}"#, false),
            (429, r#"{"message":"it would violate the pod's disruption budget."}"#, false),
            (503, "Too many requests", false),
        ] {
            let (class, message) = (sort(code, body), message(&status(body), body.as_bytes()));
            let error = ApiError { class, action: "GET", target: String::new(), message, code: Some(code) };
            assert_eq!(error.says_too_busy(), is_busy, "{body}");
        }
    }

    #[test]
    fn messages_are_the_servers_and_never_an_object() {
        let quote = |body: &str| message(&status(body), body.as_bytes());
        assert_eq!(quote(r#"{"message":"no\nway"}"#), "no way");
        assert_eq!(quote("404 page not found\n"), "404 page not found");
        assert!(!quote(r#"{"data":{"password":"secret"}}"#).contains("secret"));
        assert!(quote(&"ä".repeat(5000)).len() < 1100);
    }
}
