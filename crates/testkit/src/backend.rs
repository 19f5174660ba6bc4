//! A second API server behind the one that scenarios use: an aggregated API that works, fails and
//! returns.

use std::net::SocketAddr;
use std::time::SystemTime;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::ApiResource;
use kube_gc_apiserver::resources::ServiceName;
use kube_gc_apiserver::{ApiServer, Scheme, Serving, Settings};
use serde_json::json;

use super::cluster::{Cluster, Crd, MARKER, Ns, Obj, Scope, collection, is_status, poll};
use super::control_plane::ControlPlane;

/// The backend: an embedded server with a type that the front server does not have. It keeps its
/// objects while it is down.
#[derive(Debug)]
pub struct Backend {
    server: ApiServer,
    direct: Cluster,
    things: Crd,
    link: Link,
    front: Cluster,
    service: Obj,
    api: Obj,
}

/// How the front server reaches the backend.
#[derive(Debug)]
enum Link {
    /// By TLS on its own address, where nothing listens while it is down.
    Address(SocketAddr, Option<Serving>),
    /// Within the process.
    Embedded(ApiServer, ServiceName),
}

impl Backend {
    /// Starts a backend, registers it with an APIService, and returns when the front server uses
    /// it. The backend has the namespaces of the scenario.
    pub async fn start(plane: &ControlPlane, front: &Cluster, ns: &Ns, group: &str) -> Result<Self> {
        let server = ApiServer::new(Settings {
            // Its uids must differ from those of the front server.
            seed: 1,
            epoch: SystemTime::now(),
            namespace_controller: false,
            ..Settings::default()
        });
        let direct = Cluster::new(server.client());
        let things = direct.crd(&format!("things.{group}"), Scope::Namespaced, &["v1"]).await?;
        for namespace in [ns.name(), MARKER] {
            direct.of::<Namespace>(namespace).create().await?;
        }

        let (link, port) = match plane.embedded() {
            None => {
                let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
                let serving = server.serve(loopback, Scheme::Https).await?;
                let address = serving.address();
                (Link::Address(address, Some(serving)), address.port())
            }
            Some(embedded) => {
                let link = Link::Embedded(embedded.server().clone(), ServiceName::new(ns.name(), "backend"));
                (link, 443)
            }
        };
        // A real API server connects to the name of such a service and the port of the APIService.
        let service = ns.of::<Service>("backend");
        let service = service.field("spec", json!({ "type": "ExternalName", "externalName": "localhost" }));
        let service = service.create().await?;
        front.forget(&service.resource);
        let spec = json!({
            "group": group,
            "version": "v1",
            "groupPriorityMinimum": 1000,
            "versionPriority": 10,
            "insecureSkipTLSVerify": true,
            "service": { "namespace": ns.name(), "name": service.name, "port": port },
        });
        let api = front.of::<APIService>(format!("v1.{group}")).field("spec", spec).create().await?;
        let mut backend = Self { server, direct, things, link, front: front.clone(), service, api };
        backend.go_up().await?;
        Ok(backend)
    }

    /// The type that it serves.
    pub fn resource(&self) -> &ApiResource {
        self.things.resource()
    }

    /// A client of the backend itself. The front server does not see its requests.
    pub fn direct(&self) -> &Cluster {
        &self.direct
    }

    /// Takes the backend down. Returns when the front server reports that.
    pub async fn go_down(&mut self) -> Result<()> {
        match &mut self.link {
            Link::Address(_, serving) => serving.take().context("the backend is down already")?.stop().await,
            Link::Embedded(front, service) => front.disconnect(service),
        }
        self.look_again().await?;
        poll("the APIService to become unavailable", async || {
            let answer = self.front.send("GET", &self.discovery(), None, None).await;
            Ok(matches!(answer, Err(error) if is_status(&error, 503)))
        })
        .await
    }

    /// Brings the backend back. Returns when the front server passes on its answers.
    pub async fn go_up(&mut self) -> Result<()> {
        match &mut self.link {
            Link::Address(address, serving) => {
                // The address may be in use by an outgoing connection, which has to end first.
                let server = &self.server;
                poll("the backend's address", async || {
                    if serving.is_none() {
                        *serving = server.serve(*address, Scheme::Https).await.ok();
                    }
                    Ok(serving.is_some())
                })
                .await?;
            }
            Link::Embedded(front, service) => front.connect(service, &self.server),
        }
        self.look_again().await?;
        poll("the APIService to become available", async || {
            for path in [self.discovery(), collection(self.resource(), None)] {
                if self.front.send("GET", &path, None, None).await.is_err() {
                    return Ok(false);
                }
            }
            Ok(true)
        })
        .await
    }

    /// Removes the API from the front server.
    pub async fn unregister(self) -> Result<()> {
        self.front.send("DELETE", &self.api.path(), None, None).await?;
        Ok(())
    }

    fn discovery(&self) -> String {
        format!("/apis/{}", self.resource().api_version)
    }

    /// A change of the service makes the front server check availability at once instead of within
    /// half a minute.
    async fn look_again(&self) -> Result<()> {
        let count = self.front.fresh(&self.service).await?.resource_version;
        let patch = json!({ "metadata": { "annotations": { "kube-gc-test/looked": count } } });
        let merge = Some("application/merge-patch+json");
        self.front.send("PATCH", &self.service.path(), merge, Some(&patch)).await?;
        self.front.forget(&self.service.resource);
        Ok(())
    }
}
