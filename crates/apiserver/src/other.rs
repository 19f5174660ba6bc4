//! Paths other than objects and discovery: version, health.

use serde_json::{Value, json};

use super::call::{Call, no_such_path};
use super::openapi;
use super::reply::Reply;
use super::settings::Release;
use super::state::Server;
use super::status::Status;

/// Answers a path that is neither discovery nor objects.
pub(super) fn answer(server: &Server, call: &Call) -> Result<Reply, Status> {
    let release = server.settings.release;
    let mut parts = call.path.split('/').filter(|part| !part.is_empty());
    match (parts.next(), parts.next()) {
        (Some("version"), None) => Ok(Reply::json(200, version(release))),
        (Some("openapi"), Some("v2")) => Ok(openapi::v2(&call.accept, git_version(release))),
        (Some("openapi"), Some("v3")) if release >= Release::V1_36 => Ok(Reply::json(200, openapi::v3())),
        (Some("healthz" | "livez" | "readyz"), _) => Ok(Reply::text(200, "ok")),
        (Some("api"), Some("v1")) => Err(no_such_path()),
        (Some("apis"), Some(group)) if server.catalog.is_built_in(group) => Err(no_such_path()),
        _ => Ok(Reply::unknown_path()),
    }
}

const fn git_version(release: Release) -> &'static str {
    match release {
        Release::V1_20 => "v1.20.2+embedded",
        Release::V1_36 => "v1.36.2+embedded",
    }
}

fn version(release: Release) -> Value {
    let minor = match release {
        Release::V1_20 => "20",
        Release::V1_36 => "36",
    };
    json!({
        "major": "1",
        "minor": minor,
        "gitVersion": git_version(release),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}
