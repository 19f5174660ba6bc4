//! The process of `kube-gc node`: one look, one pass, or the loop.

mod connect;
mod serve;

use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;

use self::connect::{Begun, client_settings, node_error, rejected};
pub use self::serve::run;
use super::error::Error;
use super::run::Target;
use super::signals::termination;
use super::threads::block_on_one_thread;
use crate::config::Settings;
use crate::node::{NodeCollector, NodeOptions, Report, now};
use kube_gc_node::pass::Scope;

/// Looks once and plans. Writes nothing, not even the state file.
///
/// # Errors
/// The container runtime or the API server cannot be used.
pub fn plan(target: &Target, settings: &Settings) -> Result<Report, Error> {
    block_on_one_thread(|_| async {
        let mut node = Node::connect(target, settings, None).await?;
        node.look().await.map(|(report, _)| report)
    })?
}

/// One pass. In a dry run, only the plan of it.
///
/// # Errors
/// The container runtime or the API server cannot be used.
pub fn once(target: &Target, settings: &Settings, free: Option<u8>) -> Result<Report, Error> {
    block_on_one_thread(|_| async {
        let terminated = termination()?;
        let mut node = Node::connect(target, settings, free).await?;
        let (report, look) = node.look().await?;
        if report.dry_run.is_some() {
            return Ok(report);
        }
        node.remember();
        let cancel = CancellationToken::new();
        let guard = cancel.clone();
        let ending = async move {
            let signal = terminated.await;
            tracing::info!(signal, "ending after the removal in progress");
            guard.cancel();
        };
        let ending = tokio::spawn(ending.boxed());
        let carried = node.collector.carry_out(&look, Scope::All, &cancel).await;
        ending.abort();
        Ok(report.with(&carried.map_err(|error| node_error(&error))?))
    })?
}

/// One node, and how it is collected.
struct Node {
    options: NodeOptions,
    collector: NodeCollector,
    server: String,
}

impl Node {
    async fn connect(target: &Target, settings: &Settings, free: Option<u8>) -> Result<Self, Error> {
        Self::from(Begun::new(target, settings, free).await?).await
    }

    async fn from(begun: Begun) -> Result<Self, Error> {
        let server = begun.server();
        let Begun { options, pods, .. } = begun;
        let ledger = options.state.read().unwrap_or_else(|problem| {
            tracing::warn!("{problem}");
            kube_gc_node::Ledger::default()
        });
        let connected = NodeCollector::connect(&options, client_settings(), pods, ledger).await;
        let collector = connected.map_err(|error| node_error(&error))?;
        Ok(Self { options, collector, server })
    }

    /// One look. Somebody waits for it, so an API server that does not answer is an error.
    async fn look(&mut self) -> Result<(Report, crate::node::Look), Error> {
        let look = self.collector.look(now()).await.map_err(|error| node_error(&error))?;
        if let Some(error) = &look.api_error {
            return Err(rejected(&self.server, error));
        }
        Ok((Report::new(&self.options, self.collector.runtime(), &look), look))
    }

    /// Writes the ages of images.
    fn remember(&self) {
        if let Err(problem) = self.options.state.write(self.collector.ledger()) {
            tracing::warn!("{problem}");
        }
    }
}
