//! The HTTP server and its routes.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::bodies::{self, Body, whole};
use super::{Feeder, discovery};
use crate::common::cluster::{Number, Type, name, namespace, object};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf;stream=watch";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Serves until the runtime ends.
pub async fn serve(listener: TcpListener, feeder: Arc<Feeder>) {
    while let Ok((stream, _)) = listener.accept().await {
        // Without this, small events wait for each other. An API server sets it, too.
        let _ = stream.set_nodelay(true);
        let feeder = Arc::clone(&feeder);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let feeder = Arc::clone(&feeder);
                async move { Ok::<_, Infallible>(answer(&feeder, &request)) }
            });
            // Events are small: copying a few of them together is cheaper than a system call.
            let connection =
                http1::Builder::new().writev(false).serve_connection(TokioIo::new(stream), service);
            // A client that disconnects is no error.
            let _ = connection.await;
        });
    }
}

fn reply(code: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}

fn json_reply(code: StatusCode, value: &Value) -> Response<Body> {
    reply(code, "application/json", whole(value.to_string()))
}

fn failure(code: StatusCode, reason: &str, message: &str) -> Response<Body> {
    let value = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                       "reason": reason, "message": message, "code": code.as_u16()});
    json_reply(code, &value)
}

fn answer(feeder: &Arc<Feeder>, request: &Request<Incoming>) -> Response<Body> {
    let path = request.uri().path();
    match (request.method(), path) {
        (&Method::GET, "/version") => {
            let version =
                json!({"major": "1", "minor": "33", "gitVersion": "v1.33.0", "platform": "linux/amd64"});
            json_reply(StatusCode::OK, &version)
        }
        (&Method::GET, "/api" | "/apis") => {
            let document = discovery::groups(&feeder.cluster, path == "/api");
            reply(StatusCode::OK, AGGREGATED, whole(document.to_string()))
        }
        (&Method::GET, "/apis/apiregistration.k8s.io/v1/apiservices") => {
            json_reply(StatusCode::OK, &discovery::services(&feeder.cluster))
        }
        (&Method::GET, _) => match collection(feeder, path) {
            Some(resource) => read(feeder, resource, request.uri().query().unwrap_or_default()),
            None => one(feeder, path),
        },
        (method, _) => unexpected(feeder, method, path),
    }
}

/// Records the request, so that nothing is measured after a wrong answer.
fn unexpected(feeder: &Feeder, method: &Method, path: &str) -> Response<Body> {
    if let Ok(mut unexpected) = feeder.unexpected.lock() {
        unexpected.push(format!("{method} {path}"));
    }
    failure(StatusCode::NOT_IMPLEMENTED, "NotImplemented", "a feeder knows nothing of this")
}

/// The rest of a path behind the path of a type.
fn of_type(resource: Type, path: &str) -> Option<&str> {
    let called = resource.called();
    let rest = if called.group.is_empty() {
        path.strip_prefix("/api/")?
    } else {
        path.strip_prefix("/apis/")?.strip_prefix(&*called.group)?.strip_prefix('/')?
    };
    let rest = rest.strip_prefix(called.version)?.strip_prefix('/')?;
    let rest = match rest.strip_prefix("namespaces/") {
        // The path of a namespaced type begins with the namespace.
        Some(below) if called.namespaced => below.split_once('/')?.1,
        _ => rest,
    };
    rest.strip_prefix(&*called.plural)
}

fn collection(feeder: &Feeder, path: &str) -> Option<Type> {
    feeder.cluster.types().find(|&resource| of_type(resource, path) == Some(""))
}

fn read(feeder: &Arc<Feeder>, resource: Type, query: &str) -> Response<Body> {
    let parameter = |name: &str| {
        query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find_map(|(key, value)| (key == name).then_some(value))
    };
    let number = |name: &str| parameter(name).and_then(|value| value.parse::<u64>().ok());
    if parameter("watch").is_none() {
        let from = Number(number("continue").unwrap_or_default());
        let limit = number("limit").and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let body = bodies::list(feeder, resource, from, limit);
        return reply(StatusCode::OK, "application/json", body);
    }
    if parameter("sendInitialEvents").is_some() {
        return failure(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", "lists are not streamed");
    }
    let lasting = Duration::from_secs(number("timeoutSeconds").unwrap_or(300));
    match feeder.logs[resource.0].read_after(number("resourceVersion").unwrap_or_default()) {
        Some(reader) => reply(StatusCode::OK, PROTOBUF, bodies::watch(feeder, resource, reader, lasting)),
        None => failure(StatusCode::GONE, "Expired", "too old resource version"),
    }
}

/// One object. Those that come first in their type are found soonest.
fn one(feeder: &Feeder, path: &str) -> Response<Body> {
    let cluster = &feeder.cluster;
    let of_type = cluster.types().find(|&resource| {
        of_type(resource, path)
            .and_then(|rest| rest.strip_prefix('/'))
            .is_some_and(|name| !name.contains('/'))
    });
    let Some(resource) = of_type else { return unexpected(feeder, &Method::GET, path) };
    let mut numbers = cluster.list(resource, Number(0), feeder.end());
    let Some(number) = numbers.find(|&number| path_of(feeder, number) == path) else {
        return failure(StatusCode::NOT_FOUND, "NotFound", "there is no such object");
    };
    let mut body = String::new();
    object(&mut body, cluster, number, number.0 + 1);
    reply(StatusCode::OK, "application/json", whole(body))
}

fn path_of(feeder: &Feeder, number: Number) -> String {
    let cluster = &feeder.cluster;
    let called = cluster.resource(number).called();
    let mut path = if called.group.is_empty() {
        format!("/api/{}/", called.version)
    } else {
        format!("/apis/{}/{}/", called.group, called.version)
    };
    if called.namespaced {
        path.push_str("namespaces/");
        namespace(&mut path, cluster, number);
        path.push('/');
    }
    path.push_str(&called.plural);
    path.push('/');
    name(&mut path, cluster, number);
    path
}
