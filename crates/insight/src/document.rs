//! Answers as JSON documents.

use serde::Serialize;

/// The version of the JSON of answers.
const API_VERSION: &str = "kube-gc.io/v1";

/// An answer as the commands print it and as the debug pages show it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document<'a, A> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    answer: &'a A,
}

impl<'a, A> Document<'a, A> {
    /// An answer of this kind.
    #[must_use]
    pub const fn new(kind: &'static str, answer: &'a A) -> Self {
        Self { api_version: API_VERSION, kind, answer }
    }
}
