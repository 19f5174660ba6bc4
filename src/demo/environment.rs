//! The environment of the scenarios: the embedded server and the collector.

use std::error::Error as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::Options;
use super::recorder::Recorder;
use super::report::Endpoints;
use super::user::User;
use crate::api::{Api, WriteGate};
use crate::app::{Error, ErrorKind, Protections, ServedCollector, Threads, api_settings};
use crate::http::Introspection;
use crate::telemetry::{Exporter, record};
use kube_gc_apiserver::http::{Scheme, Serving};
use kube_gc_apiserver::{self, ApiServer};

/// A running server and a running collector.
pub struct Environment {
    collector: ServedCollector,
    serving: Serving,
    user: User,
    endpoints: Endpoints,
    /// Removes the file when it is dropped.
    _kubeconfig: Kubeconfig,
}

impl Environment {
    /// Starts the server and its collector. They communicate within the process. The server also
    /// listens on an address, for kubectl.
    pub async fn start(options: &Options, recorder: &Recorder) -> Result<Self, Error> {
        let Options { api_listen, kubeconfig, settings, .. } = options;
        let failed = |error: &dyn std::fmt::Display| Error::new(ErrorKind::Internal, error);
        let exporter = Exporter::install().map_err(|error| failed(&error))?;
        record::zeros();
        let server =
            ApiServer::new(kube_gc_apiserver::Settings { epoch: SystemTime::now(), ..Default::default() });
        let serving = server.serve(*api_listen, Scheme::Http).await.map_err(|error| {
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            let message = format!(
                "cannot serve the Kubernetes API: {error}{cause}; choose another address with --api-listen"
            );
            Error::new(ErrorKind::Address, message)
        })?;
        let kubeconfig = Kubeconfig::write(kubeconfig.as_deref(), &serving.kubeconfig());
        let kubeconfig = kubeconfig.map_err(|error| failed(&error))?;
        let api =
            Api::from_clients(recorder.client(server.clone()), api_settings(settings), WriteGate::open());
        let collector = ServedCollector::start(
            api,
            settings,
            &Threads::current(),
            exporter,
            vec![Arc::new(recorder.clone())],
            Protections::default(),
        )
        .await?;
        let endpoints = Endpoints {
            server: serving.url(),
            health: format!("http://{}", collector.health()),
            debug: format!("http://{}", collector.debug()),
            kubeconfig: kubeconfig.0.clone(),
        };
        let user = User::new(server.client());
        Ok(Self { collector, serving, user, endpoints, _kubeconfig: kubeconfig })
    }

    pub const fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    pub const fn user(&self) -> &User {
        &self.user
    }

    pub fn collector(&self) -> &dyn Introspection {
        self.collector.introspection()
    }

    /// Resolves when a part of it fails.
    pub async fn fails(&self) -> Error {
        self.collector.fails().await
    }

    /// Stops both.
    pub async fn stop(self, grace: Duration) {
        self.collector.stop(grace).await;
        self.serving.stop().await;
    }
}

/// A kubeconfig file that exists as long as this value.
struct Kubeconfig(PathBuf);

impl Kubeconfig {
    fn write(path: Option<&Path>, config: &str) -> Result<Self, String> {
        let path = path.map_or_else(
            || std::env::temp_dir().join(format!("kube-gc-demo-{}.kubeconfig", std::process::id())),
            Path::to_owned,
        );
        // Never overwrite a file: it may be the only copy.
        let file = std::fs::OpenOptions::new().write(true).create_new(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(config.as_bytes()));
        match written {
            Ok(()) => Ok(Self(path)),
            Err(error) => {
                let path = path.display();
                Err(format!("cannot write the kubeconfig {path}: {error}; choose another with --kubeconfig"))
            }
        }
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        // Ignore a file that is already gone.
        let _ = std::fs::remove_file(&self.0);
    }
}
