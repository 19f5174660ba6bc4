//! Recording the requests to the API server.

use std::time::Duration;

use super::{Value, counter, histogram, names};
use crate::object::GroupResource;

/// A request was answered with this status `code`, or not at all (`"timeout"`,
/// `"error"`). Discovery has no resource: an empty [`GroupResource`].
pub fn request(verb: &'static str, resource: &GroupResource, code: &str, duration: Duration) {
    let labels = [Value::Static(verb), Value::Shown(resource), Value::Text(code)];
    counter(&names::REQUESTS, labels).increment(1);
    histogram(&names::REQUEST_DURATION, [Value::Static(verb)]).record(duration);
}
