//! A proxy between the collector and the API server. With it, a test sees every request, and
//! decides what happens to it and when.
//!
//! The collector connects by plain HTTP without credentials. The proxy connects to the API server
//! as a user in `system:masters`. It runs on the runtime of the test and ends when it is dropped.

mod forward;
mod reply;
mod request;
mod rules;
mod serve;
mod state;
mod stream;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use kube::Client;
use serde_json::json;
use tempfile::NamedTempFile;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::control_plane::ControlPlane;

pub use reply::{Fault, Reply};
pub use request::{Exchange, Matcher, Request, Verb};
pub use rules::{Hold, Rule, WatchHold};
pub use state::{HeldRequest, Outage, WatchEnd};

use state::{Shared, Stream, StreamCommand};

/// A running proxy.
pub struct Proxy {
    shared: Shared,
    kubeconfig: NamedTempFile,
    server: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy in front of a control plane.
    pub async fn start(plane: &ControlPlane) -> Result<Self> {
        let mut config = crate::config_of(plane.kubeconfig()).await?;
        // The proxy reads bodies, so they must not be compressed.
        config.disable_compression = true;
        let client = Client::try_from(config)?;

        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let kubeconfig = tempfile::Builder::new().prefix("kube-gc-proxy-").tempfile()?;
        let text = crate::kubeconfig(&json!({ "server": url }), &json!({}));
        std::fs::write(&kubeconfig, text.to_string())?;

        let (changes, outage) = (watch::Sender::new(0), watch::Sender::new(None));
        let shared = Shared { state: Arc::default(), changes, outage };
        let server = tokio::spawn(serve::serve(listener, shared.clone(), client));
        Ok(Self { shared, kubeconfig, server })
    }

    /// Starts or ends an outage.
    pub fn set_outage(&self, outage: Option<Outage>) {
        self.shared.outage.send_replace(outage);
    }

    /// Forwards all ports of all pods to this address from now on.
    pub fn forward_ports(&self, to: SocketAddr) {
        self.shared.with(|state| state.ports = Some(to));
    }

    /// The kubeconfig for the collector.
    pub fn kubeconfig(&self) -> &Path {
        self.kubeconfig.path()
    }

    /// The current position in the record of requests, for [`since`](Self::since).
    pub fn mark(&self) -> usize {
        self.shared.look(|state| state.log.len())
    }

    /// The requests that match, in the order of their arrival.
    pub fn all(&self, matcher: &Matcher) -> Vec<Exchange> {
        self.since(0, matcher)
    }

    /// The matching requests after a mark.
    pub fn since(&self, mark: usize, matcher: &Matcher) -> Vec<Exchange> {
        self.shared.look(|state| {
            state
                .log
                .iter()
                .skip(mark)
                .filter(|exchange| matcher.matches(&exchange.request))
                .cloned()
                .collect()
        })
    }

    /// Waits until this many matching requests have been answered.
    pub async fn answered(&self, times: usize, matcher: &Matcher) -> Result<()> {
        let is_answered =
            |exchange: &&Exchange| exchange.status.is_some() && matcher.matches(&exchange.request);
        let description = format!("{times} answers to {matcher:?}");
        self.shared.until(&description, |state| state.log.iter().filter(is_answered).count() >= times).await
    }

    /// Waits until a resource is watched.
    pub async fn watching(&self, resource: &str) -> Result<()> {
        self.shared.until(&format!("a watch of {resource}"), |state| state.watching(resource) > 0).await
    }

    /// The resources that are watched.
    pub fn watched(&self) -> BTreeSet<String> {
        self.shared.look(|state| state.streams.iter().map(|stream| stream.resource.clone()).collect())
    }

    /// Ends the open watches of a resource, or of all, and returns their number.
    pub fn cut(&self, resource: Option<&str>, end: WatchEnd) -> usize {
        self.shared.with(|state| {
            let (cut, kept) = std::mem::take(&mut state.streams)
                .into_iter()
                .partition(|stream| resource.is_none_or(|resource| stream.resource == resource));
            state.streams = kept;
            let cut: Vec<Stream> = cut;
            cut.iter().filter(|stream| stream.commands.send(StreamCommand::End(end)).is_ok()).count()
        })
    }

    /// Repeats events from now on: after each event, the last `count` events are sent again, in
    /// order. 0 ends this.
    pub fn echo(&self, events: usize) {
        self.shared.with(|state| state.echo = events);
    }

    /// Sends a bookmark in the open watches of a resource, and returns their number. The watches
    /// must have sent all events up to its version.
    pub fn bookmark(&self, api_version: &str, kind: &str, resource: &str, version: &str) -> usize {
        let line = stream::bookmark(api_version, kind, version);
        self.shared.look(|state| {
            let meant = state.streams.iter().filter(|stream| stream.resource == resource);
            meant.filter(|stream| stream.commands.send(StreamCommand::Show(line.clone())).is_ok()).count()
        })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}
