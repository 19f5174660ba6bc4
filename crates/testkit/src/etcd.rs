//! Direct access to etcd.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::collector::exchange;
use super::control_plane::ControlPlane;
use super::object::Obj;

/// Compacts the history, so that no watch can start from an earlier version, unless the API server
/// has it in its cache.
pub async fn compact(plane: &ControlPlane) -> Result<()> {
    let revision = revision(plane).await?.to_string();
    post(plane, "/v3/kv/compaction", &json!({ "revision": revision, "physical": true })).await?;
    Ok(())
}

/// The revision of the store.
pub async fn revision(plane: &ControlPlane) -> Result<u64> {
    let now = post(plane, "/v3/kv/range", &json!({ "key": base64(b"/")? })).await?;
    let revision = now["header"]["revision"].as_str().context("no revision")?;
    Ok(revision.parse()?)
}

/// Writes keys that no API server reads until the revision is greater than this one.
pub async fn raise(plane: &ControlPlane, above: u64) -> Result<()> {
    let key = base64(b"/junk")?;
    while revision(plane).await? <= above {
        for _ in 0..100 {
            post(plane, "/v3/kv/put", &json!({ "key": key, "value": key })).await?;
        }
    }
    post(plane, "/v3/kv/deleterange", &json!({ "key": key })).await?;
    Ok(())
}

/// Copies a custom resource in the store, with another name and uid, which may be one that the API
/// server would not assign.
pub async fn copy_with_uid(plane: &ControlPlane, object: &Obj, name: &str, uid: &str) -> Result<()> {
    let mut stored = get(plane, &key(object, &object.name)).await?;
    stored["metadata"]["name"] = json!(name);
    stored["metadata"]["uid"] = json!(uid);
    put(plane, &key(object, name), &stored).await
}

/// The key of a custom resource.
fn key(object: &Obj, name: &str) -> String {
    let namespace = object.namespace.as_ref().map(|namespace| format!("/{namespace}")).unwrap_or_default();
    format!("/registry/{}/{}{namespace}/{name}", object.resource.group, object.resource.plural)
}

async fn get(plane: &ControlPlane, key: &str) -> Result<Value> {
    let answer = post(plane, "/v3/kv/range", &json!({ "key": base64(key.as_bytes())? })).await?;
    let value = serde_json::from_value::<ByteString>(answer["kvs"][0]["value"].clone())
        .with_context(|| format!("{key} is not in etcd: {answer}"))?;
    serde_json::from_slice(&value.0).with_context(|| format!("{key} is not stored as JSON"))
}

async fn put(plane: &ControlPlane, key: &str, value: &Value) -> Result<()> {
    let body = json!({ "key": base64(key.as_bytes())?, "value": base64(&serde_json::to_vec(value)?)? });
    post(plane, "/v3/kv/put", &body).await?;
    Ok(())
}

fn base64(bytes: &[u8]) -> Result<Value> {
    Ok(serde_json::to_value(ByteString(bytes.to_vec()))?)
}

/// A request to etcd's JSON gateway.
async fn post(plane: &ControlPlane, path: &str, body: &Value) -> Result<Value> {
    let address = plane.etcd().trim_start_matches("http://");
    let answer = exchange(address, "POST", path, &body.to_string()).await?;
    ensure!(answer.status == 200, "{path}: {} {}", answer.status, answer.body);
    answer.json()
}
