//! When discovery asks the API server for its types.

use std::time::{Duration, SystemTime};

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};

use super::{Discovery, failing};
use crate::actors::supervision::task;
use crate::api::{ApiError, Discovered};
use crate::telemetry::record;

impl Discovery {
    /// Discovers now, or right after the discovery that is under way.
    pub(super) fn discover(&mut self, ctx: &mut Context<Self>) {
        if let Some(handle) = self.next_discovery.take() {
            ctx.cancel_future(handle);
        }
        if self.discovering || self.suspended {
            self.again = true;
            return;
        }
        self.discovering = true;
        self.status.send_modify(|status| status.busy = true);
        let (api, previous) = (self.context.api.clone(), self.discovered.clone());
        // On the thread pool, because it decodes every type of the server.
        let discover = task(async move { api.discover(previous.as_deref()).await });
        ctx.spawn(discover.into_actor(self).map(|result, discovery, ctx| match result {
            Ok(result) => discovery.answered(result, ctx),
            Err(error) => {
                tracing::error!(%error, "discovery failed unexpectedly; it is retried");
                discovery.discovery_ended(Some(discovery.settings.interval), ctx);
            }
        }));
    }

    fn discover_later(&mut self, wait: Duration, ctx: &mut Context<Self>) {
        if let Some(handle) = self.next_discovery.take() {
            ctx.cancel_future(handle);
        }
        self.next_discovery = Some(ctx.run_later(wait, |discovery, ctx| {
            discovery.next_discovery = None;
            discovery.discover(ctx);
        }));
    }

    pub(super) fn discovery_ended(&mut self, wait: Option<Duration>, ctx: &mut Context<Self>) {
        self.discovering = false;
        let busy = self.again || !self.pending.is_empty();
        self.status.send_modify(|status| status.busy = busy);
        if std::mem::take(&mut self.again) {
            self.discover(ctx);
        } else {
            self.discover_later(wait.unwrap_or(self.settings.interval), ctx);
        }
    }

    fn answered(&mut self, result: Result<Discovered, ApiError>, ctx: &mut Context<Self>) {
        match result {
            Ok(discovered) if self.suspended => drop(discovered),
            Ok(discovered) => return self.check_missing(discovered, ctx),
            Err(error) => {
                record::discovery_error();
                let is_outage = self.context.api.is_unreachable();
                self.status.send_modify(|status| {
                    let mut failing = failing::after_nothing(&status.failing, &error, SystemTime::now());
                    failing::log(&status.failing, &mut failing, is_outage);
                    failing::record(&status.failing, &failing);
                    status.failing = failing;
                    status.last_error = Some(error.to_string());
                });
            }
        }
        let wait = match (self.pending.discovery_failed(), &self.discovered) {
            (Some(wait), _) => wait,
            (None, Some(_)) => self.settings.interval,
            (None, None) => {
                let wait = self.retry;
                self.retry = (self.retry * 2).min(self.settings.interval);
                wait
            }
        };
        self.discovery_ended(Some(wait), ctx);
    }
}
