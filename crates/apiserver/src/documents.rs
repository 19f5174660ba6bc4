//! Paths other than objects and discovery: version, health, OpenAPI, metrics.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::call::{Call, no_such_path};
use crate::resources::ResourceName;
use crate::server::{Release, Reply, Server};
use crate::status::Status;

/// Answers a path that is neither discovery nor objects.
pub(super) fn answer(server: &Server, call: &Call) -> Result<Reply, Status> {
    let release = server.settings.release;
    let mut parts = call.path.split('/').filter(|part| !part.is_empty());
    match (parts.next(), parts.next()) {
        (Some("version"), None) => Ok(Reply::json(200, &version(release))),
        (Some("openapi"), Some("v2")) => Ok(openapi_v2(&call.accept, git_version(release))),
        (Some("openapi"), Some("v3")) if release >= Release::V1_36 => {
            Ok(Reply::json(200, &json!({"paths": {}})))
        }
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

/// The content type of answers. Requests have an `@` in place of the second dot, which is no valid
/// media type.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const TITLE: &str = "Kubernetes";

/// An empty `/openapi/v2`. Some clients read it before they send a request, and leave the validation of types
/// that it does not describe to the server.
fn openapi_v2(accept: &str, version: &str) -> Reply {
    if !accept.contains("proto-openapi") {
        let info = json!({"title": TITLE, "version": version});
        return Reply::json(200, &json!({"swagger": "2.0", "info": info, "paths": {}}));
    }
    let info = [field(1, TITLE.as_bytes()), field(2, version.as_bytes())].concat();
    let paths = field(8, &[]);
    let document = [field(1, b"2.0"), field(2, &info), paths].concat();
    Reply { code: 200, content_type: PROTOBUF, body: document.into() }
}

/// A length-delimited field of a protobuf message. The number and the length must fit into one byte
/// each.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    const LENGTH_DELIMITED: u8 = 2;
    let length = u8::try_from(content.len()).unwrap_or(u8::MAX);
    debug_assert!(number < 16 && length < 128, "the number and the length fit into one byte");
    [&[number << 3 | LENGTH_DELIMITED, length][..], content].concat()
}

/// The number of answered requests, by verb and type.
#[derive(Clone, Debug, Default)]
pub struct Counts(BTreeMap<(String, ResourceName), u64>);

impl Counts {
    /// Counts a request. A watch counts when it begins; in kube-apiserver it counts when it ends.
    pub fn add(&mut self, verb: String, resource: &ResourceName) {
        *self.0.entry((verb, resource.clone())).or_default() += 1;
    }

    /// The page, including the number of open watches of each type.
    pub fn page(&self, watches: &BTreeMap<ResourceName, usize>) -> String {
        let mut page = String::from("# TYPE apiserver_request_total counter\n");
        for ((verb, ResourceName { group, plural }), count) in &self.0 {
            let _ = writeln!(
                page,
                "apiserver_request_total{{group=\"{group}\",resource=\"{plural}\",verb=\"{verb}\"}} {count}"
            );
        }
        page.push_str("# TYPE apiserver_longrunning_gauge gauge\n");
        for (ResourceName { group, plural }, count) in watches {
            let _ = writeln!(
                page,
                "apiserver_longrunning_gauge{{group=\"{group}\",resource=\"{plural}\",verb=\"WATCH\"}} {count}"
            );
        }
        page
    }
}
