//! Get and list.

use std::ops::Bound;

use serde_json::Map;

use super::accept::Form;
use super::options::{Match, Options, RequestedVersion};
use super::show::{reply_list, reply_object};
use super::token::Token;
use super::view::{Read, View, expired, too_large};
use crate::object::{Key, Object};
use crate::reply::Reply;
use crate::settings::Release;
use crate::status::Status;

/// One object.
pub(super) fn get(view: &View<'_>, read: &Read<'_>) -> Result<Reply, Status> {
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

/// The selected objects, or a page of them, with the answer.
pub(super) fn list<'a>(view: &View<'a>, read: &Read<'_>) -> Result<(Reply, Vec<&'a Object>), Status> {
    let form = Form::wanted(&read.call.accept, read.resource)?.of_list(&read.resource.list_kind)?;
    let namespace = read.path.namespace;
    let options = Options::parse(read.call, read.resource, namespace, view.settings.release)?;
    let plan = Plan::new(view, &options)?;
    let past =
        view.store.at(&read.resource.stored_as, plan.version).map_err(|_| expired(plan.token.clone()))?;
    let start = plan.token.as_ref().map(|token| token.key(namespace, read.resource.namespaced));
    let from = start.as_ref().map_or(Bound::Unbounded, Bound::Included);

    let mut objects: Vec<&'a Object> = Vec::new();
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
    Ok((reply_list(&objects, metadata, form, read, view.settings.release), objects))
}

fn in_the_future(view: &View<'_>, version: u64) -> Status {
    match view.settings.release {
        Release::V1_20 => Status::new(500, "", "etcdserver: mvcc: required revision is a future revision"),
        Release::V1_36 => too_large(version, view.store.head(), true),
    }
}
