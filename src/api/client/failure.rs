//! Errors of requests that got no answer.

use std::time::Duration;

use crate::api::call::Call;
use crate::api::connection::CredentialsError;
use crate::api::error::{ApiError, ErrorClass};
use crate::api::error_chain::error_chain;
use crate::api::write_gate::GateClosed;

pub(super) fn too_slow(call: &Call<'_>, limit: Duration) -> ApiError {
    call.error(ErrorClass::Transient, format!("no answer within {limit:?}"), None)
}

/// The response has more bytes than may be read.
pub(super) fn too_long(call: &Call<'_>, longest: usize) -> ApiError {
    call.error(ErrorClass::TooLong, format!("the response is longer than {longest} bytes"), None)
}

/// The request was cancelled while it was in flight, so it may have taken effect.
pub(super) fn cancelled(call: &Call<'_>, why: &str) -> ApiError {
    call.error(ErrorClass::Transient, format!("cancelled while in flight: {why}"), None)
}

/// The write gate refused the request.
pub(super) fn gate_closed(call: &Call<'_>, closed: GateClosed) -> ApiError {
    call.error(class_of(closed), closed.to_string(), None)
}

/// The client's transport failed.
pub(super) fn transport(call: &Call<'_>, error: &kube::Error) -> ApiError {
    let class = match error {
        // Fetching credentials failed, not the request.
        kube::Error::Service(cause) if cause.is::<CredentialsError>() => ErrorClass::Denied,
        kube::Error::Service(cause) => match cause.downcast_ref::<GateClosed>() {
            Some(closed) => class_of(*closed),
            None => ErrorClass::Transient,
        },
        _ => ErrorClass::Transient,
    };
    call.error(class, error_chain(error), None)
}

const fn class_of(closed: GateClosed) -> ErrorClass {
    match closed {
        GateClosed::DryRun => ErrorClass::DryRun,
        GateClosed::Closed | GateClosed::Standby | GateClosed::Expired => ErrorClass::GateClosed,
    }
}
