//! Where all of it happens: the embedded server and the collector.

use std::error::Error as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::recorder::Recorder;
use super::story::Places;
use super::user::User;
use crate::api::{Api, WriteGate};
use crate::cli::{Collector, DemoArgs, Exit, Failure, Protections, Threads, api_settings};
use crate::config::Settings;
use crate::http::Introspection;
use crate::telemetry::{Exporter, record};
use kube_gc_apiserver::http::{Scheme, Serving};
use kube_gc_apiserver::{self, Embedded};

/// Both, running.
pub struct House {
    collector: Collector,
    serving: Serving,
    user: User,
    places: Places,
    /// Removes itself.
    _kubeconfig: Kubeconfig,
}

impl House {
    /// Starts the server, and the collector on it. They talk within the process; the
    /// same server is on loopback, for kubectl.
    pub async fn open(args: &DemoArgs, settings: &Settings, recorder: &Recorder) -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::new(Exit::Failure, error);
        let exporter = Exporter::install().map_err(|error| failed(&error))?;
        record::zeros();
        let server =
            Embedded::new(kube_gc_apiserver::Settings { epoch: SystemTime::now(), ..Default::default() });
        let serving = server.serve(args.api_listen, Scheme::Http).await.map_err(|error| {
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            let message =
                format!("the Kubernetes API cannot be served: {error}{cause}; choose with --api-listen");
            Failure::new(Exit::Address, message)
        })?;
        let kubeconfig = Kubeconfig::write(args.kubeconfig.as_deref(), &serving.kubeconfig());
        let kubeconfig = kubeconfig.map_err(|error| failed(&error))?;
        let api =
            Api::from_clients(recorder.client(server.clone()), api_settings(settings), WriteGate::open());
        let collector = Collector::start(
            api,
            settings,
            &Threads::here(),
            exporter,
            vec![Arc::new(recorder.clone())],
            Protections::default(),
        )
        .await?;
        let places = Places {
            server: serving.url(),
            health: format!("http://{}", collector.health()),
            debug: format!("http://{}", collector.debug()),
            kubeconfig: kubeconfig.0.clone(),
        };
        let user = User::new(server.client());
        Ok(Self { collector, serving, user, places, _kubeconfig: kubeconfig })
    }

    pub const fn places(&self) -> &Places {
        &self.places
    }

    pub const fn user(&self) -> &User {
        &self.user
    }

    pub fn collector(&self) -> &dyn Introspection {
        self.collector.introspection()
    }

    /// Resolves when a part of it fails.
    pub async fn fails(&self) -> Failure {
        self.collector.fails().await
    }

    /// Ends both.
    pub async fn close(self, grace: Duration) {
        self.collector.stop(grace).await;
        self.serving.stop().await;
    }
}

/// A file for kubectl, as long as this lives.
struct Kubeconfig(PathBuf);

impl Kubeconfig {
    fn write(path: Option<&Path>, config: &str) -> Result<Self, String> {
        let path = path.map_or_else(
            || std::env::temp_dir().join(format!("kube-gc-demo-{}.kubeconfig", std::process::id())),
            Path::to_owned,
        );
        // Never over somebody's own: it would be gone for good.
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
        // Somebody may have removed it already.
        let _ = std::fs::remove_file(&self.0);
    }
}
