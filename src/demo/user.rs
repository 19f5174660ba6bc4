//! A user of the cluster.

use std::time::Instant;

use http::Method;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

use super::fixtures::ObjectRef;
use super::recorder::request;
use super::report::Request;
use crate::api::OWNER_REF_INVALID_NAMESPACE;
use kube_gc_core::object::PropagationPolicy;

/// A client that acts like kubectl.
#[derive(Clone)]
pub struct User(kube::Client);

/// An answer and its request.
#[derive(Debug)]
pub struct Answer {
    pub request: Request,
    pub body: Value,
}

impl User {
    pub const fn new(client: kube::Client) -> Self {
        Self(client)
    }

    /// Sends a request. Any answer is a success; a missing answer is an error.
    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{method} {path} failed: {error}");
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
        Ok(Answer {
            request: request(&method, path, text.as_bytes(), code, began),
            body: serde_json::from_slice(&body).unwrap_or_default(),
        })
    }

    /// Sends a request that must succeed.
    pub async fn send_ok(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer, String> {
        let answer = self.send(method, path, body).await?;
        let Request { method, code, .. } = &answer.request;
        if (200..300).contains(code) {
            return Ok(answer);
        }
        Err(format!("{method} {path} was answered with {code}: {}", answer.body["message"]))
    }

    pub async fn create(&self, object: ObjectRef, body: &Value) -> Result<Answer, String> {
        self.send_ok(Method::POST, &object.kind.path(object.namespace), Some(body)).await
    }

    pub async fn delete(&self, path: &str, policy: PropagationPolicy) -> Result<Answer, String> {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy});
        self.send_ok(Method::DELETE, path, Some(&options)).await
    }

    /// Removes the finalizers of an object.
    pub async fn remove_finalizers(&self, object: ObjectRef) -> Result<Answer, String> {
        let patch = json!({"metadata": {"finalizers": null}});
        self.send_ok(Method::PATCH, &object.path(), Some(&patch)).await
    }

    /// Reads an object; `None` if it does not exist.
    pub async fn get(&self, path: &str) -> Result<Option<Value>, String> {
        let answer = self.send(Method::GET, path, None).await?;
        match answer.request.code {
            200 => Ok(Some(answer.body)),
            404 => Ok(None),
            code => Err(format!("GET {path} was answered with {code}: {}", answer.body["message"])),
        }
    }

    /// The message of the collector's warning event about an object, if there is one.
    pub async fn warning(&self, about: ObjectRef) -> Result<Option<String>, String> {
        let path = format!("/api/v1/namespaces/{}/events", about.namespace);
        let events = self.send_ok(Method::GET, &path, None).await?.body;
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
