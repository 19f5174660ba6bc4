//! Requests against a server, and what it answers.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::embedded::call::Call;
use crate::embedded::server::{Answer, Body, Server};
use crate::embedded::settings::{Release, Settings};

/// A request with this path and query.
pub(super) fn call(method: &str, path: &str, body: Option<Value>) -> Call {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    Call {
        method: method.parse().unwrap(),
        path: path.to_owned(),
        query: pairs
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        accept: "application/json".to_owned(),
        content_type: "application/json".to_owned(),
        user_agent: "test".to_owned(),
        body: body.map(|body| body.to_string().into()).unwrap_or_default(),
    }
}
