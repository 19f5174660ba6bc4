//! Continue tokens: where the next page of a list starts, and at which version.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::object::Key;
use crate::status::Status;

const FORMAT: &str = "meta.k8s.io/v1";

/// The content of a continue token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Token {
    #[serde(default)]
    v: String,
    /// The version of the first page; -1 for the newest.
    #[serde(default)]
    pub(super) rv: i64,
    /// The path of the first object of the next page, relative to the path of the list.
    #[serde(default)]
    start: String,
}

impl Token {
    /// The token of a list that continues after an object.
    pub(super) fn after(key: &Key, namespace: Option<&str>, version: u64) -> Self {
        // The smallest greater path.
        let start = match &key.namespace {
            Some(own) if namespace.is_none() => format!("{own}/{}\0", key.name),
            _ => format!("{}\0", key.name),
        };
        Self { v: FORMAT.to_owned(), rv: version.try_into().unwrap_or(i64::MAX), start }
    }

    /// The same position in the newest state.
    pub(super) fn inconsistent(self) -> Self {
        Self { rv: -1, ..self }
    }

    pub(super) fn write(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    pub(super) fn read(text: &str) -> Result<Self, Status> {
        Self::try_read(text).map_err(|why| {
            let message = format!("invalid continue token: continue key is not valid: {why}");
            Status::new(400, "BadRequest", message)
        })
    }

    fn try_read(text: &str) -> Result<Self, String> {
        let json = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|error| error.to_string())?;
        let token: Self = serde_json::from_slice(&json).map_err(|error| error.to_string())?;
        if token.v != FORMAT {
            return Err(format!("server does not recognize this encoded version \"{}\"", token.v));
        }
        if token.rv == 0 {
            return Err(format!("incorrect encoded start resourceVersion (version {FORMAT})"));
        }
        if token.start.is_empty() {
            return Err(format!("encoded start key empty (version {FORMAT})"));
        }
        if token.start.starts_with('/') || token.start.split('/').any(|part| part == "..") {
            return Err(token.start);
        }
        Ok(token)
    }

    /// The key to start at, in a list of a namespace or of all namespaces.
    pub(super) fn key(&self, namespace: Option<&str>, namespaced: bool) -> Key {
        match (namespace, namespaced) {
            (Some(_), _) | (None, false) => Key::new(namespace, &self.start),
            (None, true) => {
                let (namespace, name) = self.start.split_once('/').unwrap_or((&self.start, ""));
                Key::new(Some(namespace), name)
            }
        }
    }
}
