//! The series that exist from the start.

use super::{
    brake, decisions, graph, http, leadership, namespaces, process, queues, requests, resources, stuck,
};

/// Creates the series that alerts use, with the value zero: `rate` and `increase` miss the
/// first event of a series that starts with it.
pub fn zeros() {
    queues::zeros();
    graph::zeros();
    resources::zeros();
    requests::zeros();
    decisions::zeros();
    http::zeros();
    brake::zeros();
    leadership::zeros();
    namespaces::zeros();
    process::ready(false);
    stuck::zeros();
}
