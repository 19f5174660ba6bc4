//! The objects that are collected: ConfigMaps, created many at a time.

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use serde_json::{Value, json};

use crate::http::{Call, Client};

/// How many objects are created at a time.
const MAKERS: usize = 32;

/// How an owner is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The owner is deleted, and then its dependents.
    Background,
    /// The dependents are deleted before the owner.
    Foreground,
    /// The dependents stay.
    Orphan,
}

impl Mode {
    /// The value of `propagationPolicy`.
    pub const fn policy(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// What a client must know of an object to delete exactly that object.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its version.
    pub version: String,
}

impl Object {
    /// Its URL.
    pub fn path(&self) -> String {
        format!("{}/{}", config_maps(&self.namespace), self.name)
    }

    /// The DELETE of an owner.
    pub fn deletion(&self, mode: Mode) -> Call {
        let body = json!({
            "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": mode.policy(),
            "preconditions": {"uid": self.uid},
        });
        Call::with(Method::DELETE, self.path(), &body)
    }

    fn read(object: &Value) -> Result<Self> {
        let text = |field: &str| {
            let text = object["metadata"][field].as_str();
            text.map(str::to_owned).with_context(|| format!("no metadata.{field}: {object}"))
        };
        Ok(Self {
            namespace: text("namespace")?,
            name: text("name")?,
            uid: text("uid")?,
            version: text("resourceVersion")?,
        })
    }
}

/// The path of a namespace's ConfigMaps.
pub fn config_maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// An owner and its dependents.
#[derive(Clone, Debug)]
pub struct Family {
    /// The owner.
    pub owner: Object,
    /// Its dependents, which block it.
    pub dependents: Vec<Object>,
}

/// Creates a namespace.
pub async fn make_namespace(client: &Client, name: &str) -> Result<()> {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    client.send(Call::with(Method::POST, "/api/v1/namespaces", &body)).await?.success()?;
    Ok(())
}

/// Creates an owner with dependents.
pub async fn make_family(client: &Client, namespace: &str, name: &str, size: usize) -> Result<Family> {
    let owner = make(client, namespace, config_map(name, None)).await?;
    let reference = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner.name, "uid": owner.uid,
        "blockOwnerDeletion": true,
    }]);
    let bodies = (0..size).map(|number| config_map(&format!("{name}-{number:06}"), Some(&reference)));
    let dependents = make_all(client, bodies.map(|body| (namespace.to_owned(), body))).await?;
    Ok(Family { owner, dependents })
}

/// Creates objects, many at a time.
pub async fn make_all(
    client: &Client,
    objects: impl Iterator<Item = (String, Value)>,
) -> Result<Vec<Object>> {
    stream::iter(objects)
        .map(async |(namespace, body)| make(client, &namespace, body).await)
        .buffer_unordered(MAKERS)
        .try_collect()
        .await
}

/// The body of an object.
pub fn config_map(name: &str, owners: Option<&Value>) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": "value"},
    });
    if let Some(owners) = owners {
        object["metadata"]["ownerReferences"] = owners.clone();
    }
    object
}

async fn make(client: &Client, namespace: &str, body: Value) -> Result<Object> {
    let call = Call::with(Method::POST, config_maps(namespace), &body);
    Object::read(&client.send(call).await?.json()?)
}

/// Deletes all objects of a namespace.
pub async fn clear(client: &Client, namespace: &str) -> Result<()> {
    let call = Call { method: Method::DELETE, ..Call::get(config_maps(namespace)) };
    client.send(call).await?.success()?;
    ensure!(remaining(client, namespace).await? == 0, "{namespace} cannot be cleared");
    Ok(())
}

/// The number of objects in a namespace: one list with a limit of one, which includes the number
/// of remaining items.
pub async fn remaining(client: &Client, namespace: &str) -> Result<u64> {
    let list = client.send(Call::get(format!("{}?limit=1", config_maps(namespace)))).await?.json()?;
    let page = list["items"].as_array().context("not a list")?.len();
    let beyond = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
    Ok(u64::try_from(page)? + beyond)
}
