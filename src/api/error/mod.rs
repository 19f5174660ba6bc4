//! Errors of requests, classified by what the caller must know.

mod classify;

use std::fmt;
use std::time::Duration;

pub(super) use classify::{NO_TEXT, classify, message, says_too_busy};

use classify::LONGEST_MESSAGE;

use super::error_chain::CANNOT_CONNECT;
use kube_gc_core::text::excerpt;

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

impl ErrorClass {
    /// A short name.
    #[cfg(test)]
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::SaysGone => "says_gone",
            Self::NotServed => "not_served",
            Self::NamespaceGone => "namespace_gone",
            Self::Conflict => "conflict",
            Self::Refused => "refused",
            Self::Unusable => "unusable",
            Self::TooLong => "too_long",
            Self::Denied => "denied",
            Self::Throttled { .. } => "throttled",
            Self::Expired => "expired",
            Self::TooLargeResourceVersion => "too_large_resource_version",
            Self::Transient => "transient",
            Self::GateClosed => "gate_closed",
            Self::Fenced => "fenced",
            Self::DryRun => "dry_run",
            Self::Deferred { .. } => "deferred",
        }
    }
}

impl ApiError {
    /// Whether the server supports none of the requested encodings.
    pub(super) fn says_not_acceptable(&self) -> bool {
        matches!(self.code, Some(406 | 415))
    }

    /// Whether a request may have been refused because of the encoding of its body, by the
    /// server or by something between here and the server.
    pub(super) fn may_be_about_the_encoding(&self) -> bool {
        self.class != ErrorClass::Denied && (self.says_not_acceptable() || self.code == Some(400))
    }

    /// Whether the request got no answer.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        self.class == ErrorClass::Transient && self.code.is_none()
    }

    /// Whether the request may have taken effect: it was sent, and its result is not known.
    #[must_use]
    pub fn may_have_taken_effect(&self) -> bool {
        match self.class {
            ErrorClass::Transient => match self.code {
                // The server did not process it.
                Some(503) => false,
                // Admission precedes the effect.
                Some(_) => !self.message.contains("failed calling webhook"),
                None => !self.message.starts_with(CANNOT_CONNECT),
            },
            ErrorClass::Unusable | ErrorClass::TooLong => true,
            ErrorClass::Absent
            | ErrorClass::SaysGone
            | ErrorClass::NotServed
            | ErrorClass::NamespaceGone
            | ErrorClass::Conflict
            | ErrorClass::Refused
            | ErrorClass::Denied
            | ErrorClass::Throttled { .. }
            | ErrorClass::Expired
            | ErrorClass::TooLargeResourceVersion
            | ErrorClass::GateClosed
            | ErrorClass::Fenced
            | ErrorClass::DryRun
            | ErrorClass::Deferred { .. } => false,
        }
    }
}

impl ApiError {
    /// What is known of the effect of the write that ended with this error. The error may be
    /// that of a read before the write.
    #[must_use]
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
    /// The write was not sent.
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

/// An answer that proves nothing.
pub(super) fn unusable(action: &'static str, target: String, message: String, code: u16) -> ApiError {
    ApiError { class: ErrorClass::Unusable, action, target, message, code: Some(code) }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn an_error_reads_like_a_sentence() {
        let error = ApiError {
            class: ErrorClass::Denied,
            action: "DELETE",
            target: "configmaps ns/name".into(),
            message: "no".into(),
            code: Some(403),
        };
        assert_eq!(error.to_string(), "DELETE configmaps ns/name: 403 Forbidden: no");
    }
}
