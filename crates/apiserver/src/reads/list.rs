//! Get and list, and the tokens with which a list continues.

use std::ops::Bound;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Map;

use crate::call::Request;
use crate::object::{Key, Object};
use crate::reads::options::{Match, Options, RequestedVersion};
use crate::reads::show::{Form, reply_list, reply_object};
use crate::reads::{cached, expired, too_large};
use crate::resources::Resource;
use crate::server::{Reply, Server};
use crate::status::Status;

/// Answers with one object.
pub fn get(server: &Server, read: &Request<'_>) -> Result<Reply, Status> {
    let (resource, name) = (read.resource, read.path.name.unwrap_or_default());
    let asked = RequestedVersion::parse(read.call.query("resourceVersion"))?;
    let key = Key::new(read.path.namespace, name);
    let object = match asked {
        RequestedVersion::Newest => server.store.get(&resource.stored_as, &key).cloned(),
        asked => {
            let version = cached(server, resource, asked)?.version;
            let past = server.store.at(&resource.stored_as, version).map_err(|_| expired(None))?;
            past.get(&key).cloned()
        }
    };
    let object = object.ok_or_else(|| Status::not_found(&resource.name, name))?;
    reply_object(200, &object, read)
}

/// The source of a list.
struct Plan {
    /// The version of the state that is read.
    version: u64,
    /// The version that the list reports.
    shown: u64,
    limit: Option<usize>,
    token: Option<Token>,
}

impl Plan {
    fn new(server: &Server, resource: &Resource, options: &Options<'_>) -> Result<Self, Status> {
        let head = server.store.head();
        let exactly = |version, token| match version > head {
            true => Err(too_large(version, head)),
            false => Ok(Self { version, shown: version, limit: options.limit, token }),
        };
        if let Some(token) = options.token {
            let token = Token::read(token)?;
            if matches!(options.version, RequestedVersion::Version(_)) {
                let message = "specifying resource version is not allowed when using continue";
                return Err(Status::bad_request(message));
            }
            // -1 stands for the newest version. There are no other negative versions.
            return exactly(token.rv.try_into().unwrap_or(head), Some(token));
        }
        match (options.version, options.matching) {
            (RequestedVersion::Newest, _) => exactly(head, None),
            (RequestedVersion::Version(version), matching)
                if matching == Some(Match::Exact) || matching.is_none() && options.limit.is_some() =>
            {
                exactly(version, None)
            }
            (asked, _) => {
                let cached = cached(server, resource, asked)?;
                // A list at any version (0) ignores the limit.
                let limit = options.limit.filter(|_| asked != RequestedVersion::Any);
                Ok(Self { version: cached.version, shown: cached.shown, limit, token: None })
            }
        }
    }
}

/// Answers with the objects of a collection, or a page of them.
pub fn list(server: &Server, read: &Request<'_>) -> Result<Reply, Status> {
    listed(server, read).map(|(reply, _)| reply)
}

/// The answer to a list, with the selected objects.
pub fn listed(server: &Server, read: &Request<'_>) -> Result<(Reply, Vec<Object>), Status> {
    let form = Form::wanted(&read.call.accept)?;
    let namespace = read.path.namespace;
    let options = Options::parse(read.call, namespace, server.settings.release)?;
    let plan = Plan::new(server, read.resource, &options)?;
    let past =
        server.store.at(&read.resource.stored_as, plan.version).map_err(|_| expired(plan.token.clone()))?;
    let start = plan.token.as_ref().map(|token| token.key(namespace, read.resource.namespaced));
    let from = start.as_ref().map_or(Bound::Unbounded, Bound::Included);

    let mut objects: Vec<&Object> = Vec::new();
    let mut last = None;
    let mut rest = past.range(namespace, from).peekable();
    while plan.limit.is_none_or(|limit| objects.len() < limit) {
        let Some((key, object)) = rest.next() else { break };
        if options.selection.selects(key, object) {
            objects.push(object);
        }
        last = Some(key);
    }
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".to_owned(), plan.shown.to_string().into());
    if let Some(last) = last.filter(|_| rest.peek().is_some()) {
        metadata.insert("continue".to_owned(), Token::after(last, namespace, plan.shown).write().into());
        if options.selection.is_everything() {
            metadata.insert("remainingItemCount".to_owned(), rest.count().into());
        }
    }
    if read.resource.custom && form == Form::Full {
        // Lists of types that are not Go types contain an empty token.
        metadata.entry("continue").or_insert_with(|| "".into());
    }
    let reply = reply_list(&objects, metadata, form, read);
    Ok((reply, objects.into_iter().cloned().collect()))
}

/// The content of a continue token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Token {
    /// The version of the first page; -1 for the newest.
    pub(super) rv: i64,
    /// The path of the first object of the next page, relative to the path of the list.
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
        Self { rv: version.try_into().unwrap_or(i64::MAX), start }
    }

    /// The same position in the newest state.
    pub(super) fn inconsistent(self) -> Self {
        Self { rv: -1, ..self }
    }

    pub(super) fn write(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    pub(super) fn read(text: &str) -> Result<Self, Status> {
        let json = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok();
        let token = json.and_then(|json| serde_json::from_slice(&json).ok());
        token
            .filter(|token: &Self| token.rv != 0 && !token.start.is_empty())
            .ok_or_else(|| Status::bad_request("invalid continue token: continue key is not valid"))
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
