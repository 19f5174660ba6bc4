//! The runtime itself.

use std::collections::BTreeMap;

use tonic::Status;

use super::Answer;
use crate::messages::*;
use crate::server::settings::Settings;
use crate::server::world::World;

impl Answer for VersionRequest {
    fn answer(self, settings: &Settings, _: &mut World) -> Result<VersionResponse, Status> {
        Ok(VersionResponse {
            version: "0.1.0".to_owned(),
            runtime_name: "containerd".to_owned(),
            runtime_version: settings.runtime_version.clone(),
            runtime_api_version: "v1".to_owned(),
        })
    }
}

impl Answer for StatusRequest {
    fn answer(self, settings: &Settings, _: &mut World) -> Result<StatusResponse, Status> {
        let condition = |kind: &str| RuntimeCondition {
            r#type: kind.to_owned(),
            status: true,
            reason: String::new(),
            message: String::new(),
        };
        let status = RuntimeStatus { conditions: vec![condition("RuntimeReady"), condition("NetworkReady")] };
        let mut info = BTreeMap::new();
        if self.verbose {
            // A Rust string as JSON; names of images have nothing that differs.
            info.insert("config".to_owned(), format!("{{\"sandboxImage\":{:?}}}", settings.sandbox_image));
        }
        let runtime_handlers = match settings.handlers.is_empty() {
            true => Vec::new(),
            false => std::iter::once(String::new())
                .chain(settings.handlers.iter().cloned())
                .map(|name| RuntimeHandler { name })
                .collect(),
        };
        Ok(StatusResponse { status: Some(status), info, runtime_handlers })
    }
}
