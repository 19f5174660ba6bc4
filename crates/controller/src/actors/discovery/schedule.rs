//! When discovery asks the API server for its types.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};

use super::{Discovery, failing};
use crate::actors::messages::ExpectedDiscovery;
use crate::actors::supervision::task;
use kube_gc_client::{ApiError, Discovered};
use kube_gc_core::object::Catalog;
use kube_gc_observe::telemetry::record;

/// The API server announces a CRD before it serves the type. Discovery is repeated after these
/// delays until it shows the change.
const DELAYS: [Duration; 4] =
    [Duration::from_millis(100), Duration::from_millis(300), Duration::from_secs(1), Duration::from_secs(2)];

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
        let (api, previous) = (self.context.monitors.api.clone(), self.discovered.clone());
        // On the thread pool, because it decodes every type of the server.
        let discover = task(async move { api.discover(previous.as_deref()).await });
        ctx.spawn(discover.into_actor(self).map(|result, discovery, ctx| match result {
            Ok(result) => discovery.answered(result, ctx),
            Err(error) => {
                tracing::error!(%error, "discovery failed unexpectedly; it is retried");
                discovery.discovery_ended(Some(discovery.context.interval), ctx);
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
            self.discover_later(wait.unwrap_or(self.context.interval), ctx);
        }
    }

    fn answered(&mut self, result: Result<Discovered, ApiError>, ctx: &mut Context<Self>) {
        match result {
            Ok(discovered) if self.suspended => drop(discovered),
            Ok(discovered) => return self.check_missing(discovered, ctx),
            Err(error) => {
                record::discovery_error();
                let is_outage = self.context.monitors.api.is_unreachable();
                self.status.send_modify(|status| {
                    let mut failing = failing::after_nothing(&status.failing, &error, SystemTime::now());
                    failing::log(&status.failing, &mut failing, is_outage);
                    failing::record(&status.failing, &failing);
                    status.failing = failing;
                    status.last_error = Some(error.to_string());
                });
            }
        }
        let wait = match (self.pending.next_delay(), &self.discovered) {
            (Some(wait), _) => wait,
            (None, Some(_)) => self.context.interval,
            (None, None) => {
                let wait = self.retry;
                self.retry = (self.retry * 2).min(self.context.interval);
                wait
            }
        };
        self.discovery_ended(Some(wait), ctx);
    }
}

/// Changes that were announced and that discovery does not show yet.
#[derive(Debug, Default)]
pub struct PendingDiscovery {
    open: BTreeSet<ExpectedDiscovery>,
    attempts: usize,
}

impl PendingDiscovery {
    /// Notes an announced change. The delays start over.
    pub fn add(&mut self, expected: ExpectedDiscovery, known: Option<&Catalog>) {
        // The type is served already. It will change in an unpredictable way.
        let expected = match expected {
            ExpectedDiscovery::Served(resource)
                if known.is_some_and(|known| known.resource(&resource).is_some()) =>
            {
                ExpectedDiscovery::Changed { group: resource.group }
            }
            other => other,
        };
        // A CRD that changes all the time must not keep discovery busy.
        if self.open.insert(expected) {
            self.attempts = 0;
        }
    }

    /// Drops the changes that this catalog shows. Returns the delay before the next discovery,
    /// if changes are left.
    pub fn discovered(&mut self, before: Option<&Catalog>, after: &Catalog) -> Option<Duration> {
        self.open.retain(|expected| !expected.is_met(before, after));
        self.next_delay()
    }

    /// Whether discovery shows every announced change.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The delay before the next discovery, if changes are left.
    fn next_delay(&mut self) -> Option<Duration> {
        if self.open.is_empty() {
            return None;
        }
        let delay = DELAYS.get(self.attempts).copied();
        self.attempts += 1;
        if delay.is_none() {
            // Changes that are still missing are left to the next regular discovery.
            self.open.clear();
        }
        delay
    }
}

impl ExpectedDiscovery {
    fn is_met(&self, before: Option<&Catalog>, after: &Catalog) -> bool {
        match self {
            Self::Served(resource) => after.resource(resource).is_some(),
            Self::NotServed(resource) => after.resource(resource).is_none(),
            Self::Changed { group } => before.is_none_or(|before| before.differs_in_group(after, group)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::tests;
    use kube_gc_core::object::GroupResource;

    fn catalog(versions: &[&'static str]) -> Catalog {
        tests::catalog(versions.iter().map(|version| (*version, tests::widgets())))
    }

    fn widgets() -> GroupResource {
        tests::widgets().group_resource.clone()
    }

    #[test]
    fn discovery_is_repeated_until_it_shows_the_type() {
        let (without, with, both) = (catalog(&[]), catalog(&["v1"]), catalog(&["v1", "v2"]));
        for (expected, before, after) in [
            (ExpectedDiscovery::Served(widgets()), &without, &with),
            (ExpectedDiscovery::NotServed(widgets()), &with, &without),
            // A change of a served type is seen in any difference of its group.
            (ExpectedDiscovery::Served(widgets()), &with, &both),
        ] {
            let mut pending = PendingDiscovery::default();
            pending.add(expected, Some(before));
            assert_eq!(pending.discovered(Some(before), before), Some(DELAYS[0]));
            assert_eq!(pending.next_delay(), Some(DELAYS[1]));
            assert_eq!(pending.discovered(Some(before), after), None);
            assert!(pending.is_empty());
        }
    }

    #[test]
    fn repeated_discovery_ends_after_the_last_delay() {
        let without = catalog(&[]);
        let mut pending = PendingDiscovery::default();
        pending.add(ExpectedDiscovery::Served(widgets()), Some(&without));
        for delay in DELAYS {
            assert_eq!(pending.discovered(Some(&without), &without), Some(delay));
        }
        assert_eq!(pending.discovered(Some(&without), &without), None);
        assert!(pending.is_empty());
    }
}
