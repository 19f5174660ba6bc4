//! Get and list, and the tokens with which a list continues.

use std::ops::Bound;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Map;

use crate::object::{Key, Object};
use crate::reads::options::{Match, Options, RequestedVersion};
use crate::reads::show::{Form, reply_list, reply_object};
use crate::reads::{Read, View, expired, too_large};
use crate::server::{Release, Reply, Server};
use crate::status::Status;

/// Answers with one object.
pub fn get(server: &Server, read: &Read<'_>) -> Result<Reply, Status> {
    let view = View::new(server, read);
    let name = read.path.name.unwrap_or_default();
    let asked = RequestedVersion::parse(read.call.query("resourceVersion"), false)?;
    let key = Key::new(read.path.namespace, name);
    let object = match asked {
        RequestedVersion::Newest => view.store.get(&read.resource.stored_as, &key),
        asked => {
            let version = view.cached(asked)?.version;
            view.past(version)?.get(&key)
        }
    };
    let object = object.ok_or_else(|| Status::not_found(&read.resource.name, name))?;
    reply_object(200, object, read)
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
    fn new(view: &View<'_>, options: &Options<'_>) -> Result<Self, Status> {
        let exactly = |version, token| Self { version, shown: version, limit: options.limit, token };
        let head = view.store.head();
        if let Some(token) = options.token {
            let token = Token::read(token)?;
            if matches!(options.version, RequestedVersion::Version(_)) {
                let message = "specifying resource version is not allowed when using continue";
                return Err(Status::new(400, "BadRequest", message));
            }
            // -1 stands for the newest version. There are no other negative versions.
            let version = token.rv.try_into().unwrap_or(head);
            if version > head {
                return Err(in_the_future(view, version));
            }
            return Ok(exactly(version, Some(token)));
        }
        match (options.version, options.matching) {
            (RequestedVersion::Newest, _) => Ok(exactly(head, None)),
            (RequestedVersion::Version(version), matching)
                if matching == Some(Match::Exact) || matching.is_none() && options.limit.is_some() =>
            {
                if version > head {
                    Err(in_the_future(view, version))
                } else {
                    Ok(exactly(version, None))
                }
            }
            // Earlier pages came from etcd, not from the cache.
            (RequestedVersion::Version(version), Some(Match::NotOlderThan))
                if options.limit.is_some() && view.settings.release == Release::V1_20 =>
            {
                if version > head {
                    Err(too_large(version, head, false))
                } else {
                    Ok(exactly(head, None))
                }
            }
            (asked, _) => {
                let cached = view.cached(asked)?;
                // A list at any version (0) ignores the limit.
                let limit = options.limit.filter(|_| asked != RequestedVersion::Any);
                Ok(Self { version: cached.version, shown: cached.shown, limit, token: None })
            }
        }
    }
}

/// Answers with the objects of a collection, or a page of them.
pub fn list(server: &Server, read: &Read<'_>) -> Result<Reply, Status> {
    listed(server, read).map(|(reply, _)| reply)
}

/// The answer to a list, with the selected objects.
pub fn listed(server: &Server, read: &Read<'_>) -> Result<(Reply, Vec<Object>), Status> {
    let view = &View::new(server, read);
    let form = Form::wanted(&read.call.accept, read.resource)?.of_list(&read.resource.list_kind)?;
    let namespace = read.path.namespace;
    let options = Options::parse(read.call, read.resource, namespace, view.settings.release)?;
    let plan = Plan::new(view, &options)?;
    let past =
        view.store.at(&read.resource.stored_as, plan.version).map_err(|_| expired(plan.token.clone()))?;
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
        let counted = form == Form::Full || view.settings.release > Release::V1_20;
        if options.selection.is_everything() && counted {
            metadata.insert("remainingItemCount".to_owned(), rest.count().into());
        }
    }
    if read.resource.custom && form == Form::Full {
        // Lists of types that are not Go types contain an empty token.
        metadata.entry("continue").or_insert_with(|| "".into());
    }
    let reply = reply_list(&objects, metadata, form, read, view.settings.release);
    Ok((reply, objects.into_iter().cloned().collect()))
}

fn in_the_future(view: &View<'_>, version: u64) -> Status {
    match view.settings.release {
        Release::V1_20 => Status::new(500, "", "etcdserver: mvcc: required revision is a future revision"),
        Release::V1_36 => too_large(version, view.store.head(), true),
    }
}

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
