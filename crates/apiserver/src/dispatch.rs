//! Routes requests to the parts of the server, and schedules what follows from changes.

use std::sync::Arc;
use std::time::SystemTime;

use crate::call::{Call, ObjectPath, Request, Target, Verb, no_such_path};
use crate::guards::{Begun, Waiting};
use crate::reads;
use crate::resources::{Resource, aggregated, crds, discovery};
use crate::server::{Answer, Release, Reply, Server};
use crate::status::Status;
use crate::writes;
use crate::{controllers, documents};

/// Answers a request.
pub(super) fn answer(server: &mut Server, call: &Call, begun: Begun, now: SystemTime) -> Answer {
    let authorized = server.guards.authorize(&server.store, call);
    let answer = authorized.and_then(|()| route(server, call, &begun, now));
    if let Some(asked) = server.guards.asked.take() {
        return Answer::Waits(Box::new(Waiting { begun, asked }));
    }
    match answer {
        Ok(answer) => answer,
        Err(status) => Answer::Whole(status.into()),
    }
}

fn route(server: &mut Server, call: &Call, begun: &Begun, now: SystemTime) -> Result<Answer, Status> {
    let target = call.target();
    if let Target::Resources(group, version) | Target::Objects(ObjectPath { group, version, .. }) = target
        && let Some(delegated) = server.catalog.delegated(group, version)
    {
        return Ok(match server.backends.get(&delegated.service) {
            Some(backend) => Answer::Elsewhere(backend.server.clone()),
            None => Answer::Whole(Reply::unavailable()),
        });
    }
    let Target::Objects(path) = target else { return document(server, call, target).map(Answer::Whole) };
    let Some(resource) = server.catalog.served(path.group, path.version, path.plural).map(Arc::clone) else {
        return nothing_there(server, path.group).map(Answer::Whole);
    };
    if resource.custom && is_elsewhere(&resource, path) {
        return Ok(Answer::Whole(Reply::unknown_path()));
    }
    let verb = verb(&resource, path, call)?;
    if begun.number > 0 && begun.awaited().is_none() {
        server.counts.add(verb.counted_as(), &resource.name);
    }
    crds::check(server, &resource, path, verb)?;
    let request = Request { resource: &resource, path, call, begun, now };
    if !verb.changes() {
        return match verb {
            Verb::Watch => reads::Watch::begin(server, &request).map(Answer::Watch),
            Verb::List => reads::list(server, &request).map(Answer::Whole),
            _ => reads::get(server, &request).map(Answer::Whole),
        };
    }
    let before = server.store.head();
    let reply = match verb {
        Verb::Create => writes::create(server, &request),
        Verb::Update => writes::update(server, &request),
        Verb::Patch => writes::patch(server, &request),
        Verb::Delete => writes::delete(server, &request),
        _ => writes::delete_collection(server, &request),
    };
    // Also after an error, because a collection may have been deleted in part.
    if server.store.head() != before {
        controllers::schedule(server, &resource, path, before, now);
    }
    reply.map(Answer::Whole)
}

/// Whether the type cannot have an object at such a path: the path of a namespaced object lacks a
/// namespace, or that of a cluster-scoped one has it.
fn is_elsewhere(resource: &Resource, path: ObjectPath<'_>) -> bool {
    match path.namespace {
        None => resource.namespaced && path.name.is_some(),
        Some(_) => !resource.namespaced,
    }
}

/// The verb of a request, if the type supports it there.
fn verb(resource: &Resource, path: ObjectPath<'_>, call: &Call) -> Result<Verb, Status> {
    let everywhere = resource.namespaced && path.namespace.is_none();
    if is_elsewhere(resource, path) {
        return Err(no_such_path());
    }
    if let Some(subresource) = path.subresource
        && !resource.subresources.contains(&subresource)
    {
        // The same answer for all objects, whether they exist or not.
        return Err(match path.name {
            Some(name) if resource.custom => Status::not_found(&resource.name, name),
            _ => no_such_path(),
        });
    }
    let verb = Verb::asked(call, path).ok_or_else(not_allowed)?;
    let (named, subresource) = (path.name.is_some(), path.subresource.is_some());
    match verb {
        Verb::Create if named => return Err(not_allowed()),
        Verb::Update | Verb::Patch if !named => return Err(not_allowed()),
        Verb::Delete if subresource => return Err(not_allowed()),
        _ => {}
    }
    match path.subresource {
        None if everywhere && !resource.allows("list") => Err(no_such_path()),
        None if everywhere && verb.changes() => Err(not_allowed()),
        // Custom resources have all verbs, even where discovery lists fewer.
        None if !resource.custom && !resource.allows(verb.name()) => Err(not_allowed()),
        // The other subresources exist in discovery only.
        Some("status") | None => Ok(verb),
        Some("finalize") if verb == Verb::Update => Ok(verb),
        Some(_) => Err(not_allowed()),
    }
}

/// The 405 of a verb that a path does not support.
fn not_allowed() -> Status {
    let message = "the server does not allow this method on the requested resource";
    let mut status = Status::new(405, "MethodNotAllowed", message);
    status.details = Some(serde_json::json!({}));
    status
}

/// Discovery, and everything else that is not about objects.
fn document(server: &Server, call: &Call, target: Target<'_>) -> Result<Reply, Status> {
    let below_an_object = matches!(target, Target::Other(path) if path.starts_with("/api"));
    if !matches!(call.method.as_str(), "GET" | "HEAD") && !below_an_object {
        return Err(not_allowed());
    }
    let catalog = &server.catalog;
    let together = server.settings.release >= Release::V1_36 && aggregated::is_asked(&call.accept);
    let aggregated =
        |document| Reply { content_type: aggregated::CONTENT_TYPE, ..Reply::json(200, &document) };
    let document = match (target, together) {
        (Target::CoreVersions, false) => Some(discovery::core_versions()),
        (Target::CoreVersions, true) => return Ok(aggregated(aggregated::core(catalog))),
        (Target::Groups, false) => Some(discovery::groups(catalog)),
        (Target::Groups, true) => return Ok(aggregated(aggregated::groups(catalog))),
        (Target::Group(group), _) => match discovery::group(catalog, group) {
            Some(document) => Some(document),
            None => return Ok(Reply::unknown_path()),
        },
        (Target::Resources(group, version), _) => match discovery::resources(catalog, group, version) {
            Some(document) => Some(document),
            None => return nothing_there(server, group),
        },
        (Target::Other(_), _) => return documents::answer(server, call),
        (Target::Objects(_), _) => None,
    };
    document.map(|document| Reply::json(200, &document)).ok_or_else(no_such_path)
}

/// The answer where nothing is served: a Status within a built-in group, plain text elsewhere.
fn nothing_there(server: &Server, group: &str) -> Result<Reply, Status> {
    if server.catalog.is_built_in(group) { Err(no_such_path()) } else { Ok(Reply::unknown_path()) }
}

/// Sends a request of the server itself, or of a controller that it stands in for.
pub(super) fn by_itself(
    server: &mut Server,
    agent: &str,
    (method, path): (http::Method, &str),
    body: &serde_json::Value,
    now: SystemTime,
) {
    answer(server, &Call::own(agent, (method, path), body), Begun::default(), now);
}
