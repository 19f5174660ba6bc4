//! Counts requests to the API server in metrics.

use std::time::Duration;

use crate::api::{RequestObserver, Verb};
use crate::telemetry::record;
use kube_gc_core::object::GroupResource;

/// Records each request.
#[derive(Clone, Copy, Debug)]
pub struct RequestMetrics;

impl RequestObserver for RequestMetrics {
    fn request(&self, verb: Verb, resource: &GroupResource, code: Option<u16>, duration: Duration) {
        match code {
            Some(code) => record::request(verb.name(), resource, &code.to_string(), duration),
            None => record::request(verb.name(), resource, "error", duration),
        }
    }
}
