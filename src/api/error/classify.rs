//! The class of an HTTP error, from its code and its `Status`.

use std::time::Duration;

use super::ErrorClass;
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::text::excerpt;
use kube_gc_decode::{Named, Status};

/// Stands for a body that is not quoted in an error message.
pub(in crate::api) const NO_TEXT: &[u8] = b"{}";

/// The longest message of a server. A proxy may answer with a whole page.
pub(super) const LONGEST_MESSAGE: usize = 1024;

/// The longest `Retry-After` that is honoured. Kubernetes asks for at most 32 s, but an
/// aggregated API, a webhook or a proxy may ask for anything.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Classifies an HTTP error. `status` is the decoded `Status`, if the body is one.
pub(in crate::api) fn classify(
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

/// Whether a response says that the server is overloaded. A 429 of an admission webhook or a
/// disruption budget is about one object.
pub(in crate::api) fn says_too_busy(code: u16, status: &Status) -> bool {
    let is_about_the_object = status.is_admission_denial() || status.message.contains("disruption budget");
    code == 429 && !is_about_the_object
}

/// The message to show: the server's, or the start of a body that is neither a `Status` nor
/// other JSON, which might be an object.
pub(in crate::api) fn message(status: &Status, body: &[u8]) -> String {
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
                assert!(!says_too_busy(429, &status(&body)), "it is about the object");
            }
        }
        assert_eq!(sort(403, "{}"), ErrorClass::Denied);
        assert_eq!(sort(401, "{}"), ErrorClass::Denied);
        let quoted =
            r#"{"message":"Widget \"w\" is invalid: x: \"admission webhook \\\"x\\\" denied the request\""}"#;
        assert_eq!(sort(422, quoted), ErrorClass::Refused);
    }

    #[test]
    fn a_too_large_version_is_recognized_by_cause_or_message() {
        let cause = r#"{"details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}"#;
        assert_eq!(sort(504, cause), ErrorClass::TooLargeResourceVersion);
        let words = r#"{"message":"Too large resource version: 9, current: 5"}"#;
        assert_eq!(sort(504, words), ErrorClass::TooLargeResourceVersion);
        assert_eq!(sort(504, "{}"), ErrorClass::Transient);
    }

    #[test]
    fn expiry_is_recognized_by_code_reason_or_message() {
        assert_eq!(sort(410, "{}"), ErrorClass::Expired);
        assert_eq!(sort(500, r#"{"reason":"Expired"}"#), ErrorClass::Expired);
        assert_eq!(sort(0, r#"{"message":"too old resource version: 1 (5)"}"#), ErrorClass::Expired);
    }

    #[test]
    fn throttling_carries_the_time_to_wait() {
        let body = r#"{"details":{"retryAfterSeconds":7}}"#;
        let after = |seconds| ErrorClass::Throttled { retry_after: Some(Duration::from_secs(seconds)) };
        assert_eq!(sort(429, body), after(7));
        assert_eq!(classify(429, &status(body), Some(Duration::from_secs(2)), None), after(2));
    }

    #[test]
    fn a_retry_after_counts_for_at_most_a_minute() {
        let minute = ErrorClass::Throttled { retry_after: Some(Duration::from_secs(60)) };
        let header = Some(Duration::from_secs(u64::MAX));
        assert_eq!(classify(429, &Status::default(), header, None), minute);
        for seconds in ["61", "18446744073709551615"] {
            assert_eq!(sort(429, &format!(r#"{{"details":{{"retryAfterSeconds":{seconds}}}}}"#)), minute);
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
        let is_busy = |code, body| says_too_busy(code, &status(body));
        assert!(is_busy(429, "Too many requests, please try again later.\n"));
        assert!(is_busy(
            429,
            r#"{"message":"storage is (re)initializing","details":{"retryAfterSeconds":1}}"#
        ));
        for about_the_object in [
            r#"{"message":"admission webhook \"x.y\" denied the request: later"}"#,
            r#"{"message":"Cannot evict pod as it would violate the pod's disruption budget."}"#,
        ] {
            assert!(!is_busy(429, about_the_object), "{about_the_object}");
        }
        assert!(!is_busy(503, "Too many requests"));
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
