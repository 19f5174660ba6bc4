//! Somebody who uses the cluster.

use std::time::Instant;

use http::Method;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

use super::recorder::request;
use super::story::Request;
use super::things::Thing;
use crate::worker::OWNER_REF_INVALID_NAMESPACE;
use kube_gc_core::object::PropagationPolicy;

/// A client that does as kubectl does.
#[derive(Clone)]
pub struct User(kube::Client);

/// An answer, and the request that it answers.
#[derive(Debug)]
pub struct Answered {
    pub request: Request,
    pub body: Value,
}

impl User {
    pub const fn new(client: kube::Client) -> Self {
        Self(client)
    }

    /// Sends a request. What a server that is not there answers is an error in words.
    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answered, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{method} {path} has failed: {error}");
        let content_type =
            if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let text = body.map(Value::to_string).unwrap_or_default();
        let call = http::Request::builder()
            .method(method.clone())
            .uri(path)
            .header(http::header::ACCEPT, "application/json")
            .header(http::header::CONTENT_TYPE, content_type)
            .header(http::header::USER_AGENT, "kube-gc-demo")
            .body(Body::from(text.clone().into_bytes()))
            .map_err(|error| failed(&error))?;
        let began = Instant::now();
        let response = self.0.send(call).await.map_err(|error| failed(&error))?;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.map_err(|error| failed(&error))?.to_bytes();
        let path = path.split('?').next().unwrap_or_default();
        Ok(Answered {
            request: request(&method, path, text.as_bytes(), code, began),
            body: serde_json::from_slice(&body).unwrap_or_default(),
        })
    }

    /// A request that must succeed.
    pub async fn must(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answered, String> {
        let answered = self.send(method, path, body).await?;
        let Request { method, code, .. } = &answered.request;
        if (200..300).contains(code) {
            return Ok(answered);
        }
        Err(format!("{method} {path} was answered with {code}: {}", answered.body["message"]))
    }

    pub async fn create(&self, thing: Thing, body: &Value) -> Result<Answered, String> {
        self.must(Method::POST, &thing.kind.path(thing.namespace), Some(body)).await
    }

    pub async fn delete(&self, path: &str, policy: PropagationPolicy) -> Result<Answered, String> {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy});
        self.must(Method::DELETE, path, Some(&options)).await
    }

    /// Leaves an object without finalizers of others.
    pub async fn release(&self, thing: Thing) -> Result<Answered, String> {
        let patch = json!({"metadata": {"finalizers": null}});
        self.must(Method::PATCH, &thing.path(), Some(&patch)).await
    }

    /// The object; `None` if it is gone.
    pub async fn get(&self, path: &str) -> Result<Option<Value>, String> {
        let answered = self.send(Method::GET, path, None).await?;
        match answered.request.code {
            200 => Ok(Some(answered.body)),
            404 => Ok(None),
            code => Err(format!("GET {path} was answered with {code}: {}", answered.body["message"])),
        }
    }

    /// What the collector's warning about an object says, if there is one.
    pub async fn warning(&self, about: Thing) -> Result<Option<String>, String> {
        let path = format!("/api/v1/namespaces/{}/events", about.namespace);
        let events = self.must(Method::GET, &path, None).await?.body;
        let of = |event: &&Value| {
            event["reason"] == OWNER_REF_INVALID_NAMESPACE
                && event["type"] == "Warning"
                && event["involvedObject"]["name"] == about.name
                && event["involvedObject"]["kind"] == about.kind.name()
        };
        let event = events["items"].as_array().and_then(|events| events.iter().find(of));
        Ok(event.map(|event| event["message"].as_str().unwrap_or_default().to_owned()))
    }
}
