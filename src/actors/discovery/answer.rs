//! What follows from an answer of the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use tokio::time::Instant;

use super::unserved::{self, Answer, GroupVersion};
use super::{Discovery, definitions, failing};
use crate::actors::messages::WakeUnresolved;
use crate::api::Discovered;
use crate::telemetry::record;
use kube_gc_core::object::{GroupResource, ResourceType};

impl Discovery {
    /// Looks up the definitions of the types that an answer lacks. A missing type alone proves
    /// nothing.
    pub(super) fn check_missing(&mut self, discovered: Discovered, ctx: &mut Context<Self>) {
        let missing = self.missing_in(&discovered);
        let number = self.context.api.restore_fence().acknowledged();
        let questions = self.unserved.questions(&missing, number);
        let versions = unserved::missing_versions(&self.catalog, &discovered.catalog);
        let known = self.unserved.types().map(|resource| resource.group_resource.clone()).collect();
        let api = self.context.api.clone();
        let check = async move {
            let checked = definitions::check(&api, questions, &known).await;
            (checked, definitions::gone_versions(&api, versions).await)
        };
        ctx.spawn(check.into_actor(self).map(move |(checked, versions), discovery, ctx| {
            if discovery.suspended {
                return discovery.discovery_ended(None, ctx);
            }
            let is_missing = |resource: &ResourceType| {
                missing.iter().any(|missing| missing.group_resource == resource.group_resource)
            };
            let proved = checked.iter().filter(|checked| checked.is_gone == Some(true));
            let gone = proved
                .filter(|checked| is_missing(&checked.resource))
                .map(|checked| checked.resource.group_resource.clone())
                .collect();
            for resource in discovery.unserved.definitions_checked(checked, number) {
                discovery.confirm_type_gone(resource, ctx);
            }
            discovery.apply(discovered, Absences { missing, gone, versions }, ctx);
        }));
    }

    /// The known types that an answer does not contain.
    fn missing_in(&self, discovered: &Discovered) -> Vec<Arc<ResourceType>> {
        let offered: BTreeSet<_> =
            discovered.watchable.iter().map(|watchable| &watchable.resource.group_resource).collect();
        let monitored = self.monitors.values().map(|running| &running.resource);
        let known: BTreeMap<_, _> = self
            .unserved
            .types()
            .chain(monitored)
            .map(|resource| (&resource.group_resource, resource))
            .collect();
        let missing = known.into_iter().filter(|(name, _)| !offered.contains(name));
        missing.map(|(_, resource)| Arc::clone(resource)).collect()
    }

    /// Applies an answer. Every partition receives the catalog before a monitor starts, because
    /// the references of the monitored objects must resolve.
    fn apply(&mut self, discovered: Discovered, absences: Absences, ctx: &mut Context<Self>) {
        let Absences { missing, gone, versions: gone_versions } = absences;
        let discovered = Arc::new(discovered);
        let before = self.discovered.replace(Arc::clone(&discovered));
        let catalog_before = before.as_ref().map(|before| &*before.catalog);
        let wait = self.pending.discovered(catalog_before, &discovered.catalog);
        let is_complete = discovered.failures.is_empty();
        let answer = Answer {
            catalog: &discovered.catalog,
            before: &self.catalog,
            missing,
            gone,
            gone_versions,
            is_complete,
        };
        let (catalog, gone) = self.unserved.apply(answer, Instant::now());
        let changed = before.is_none() || self.catalog != catalog;
        self.catalog = Arc::clone(&catalog);
        discovered.failures.iter().for_each(|_| record::discovery_error());
        let is_outage = self.context.api.is_unreachable();
        self.status.send_modify(|status| {
            status.discovered = true;
            status.last_error = None;
            let mut failing = failing::after(&status.failing, &discovered.failures, SystemTime::now());
            failing::log(&status.failing, &mut failing, is_outage);
            failing.extend(self.unserved.failing());
            failing::record(&status.failing, &failing);
            status.failing = failing;
        });
        let graph = self.context.graph.clone();
        let tell = async move {
            if changed {
                // An error context that the graph, and with it the process, is ending.
                let _ = graph.use_catalog(&catalog).await;
            }
        };
        ctx.spawn(tell.into_actor(self).map(move |(), discovery, ctx| {
            if !discovery.suspended {
                discovery.remove_types(&gone, ctx);
                discovery.reconcile(ctx);
                if changed {
                    for pool in &discovery.context.pools {
                        pool.unresolved.do_send(WakeUnresolved);
                    }
                }
            }
            discovery.discovery_ended(wait, ctx);
        }));
    }
}

/// What an answer lacks.
struct Absences {
    /// Known types.
    missing: Vec<Arc<ResourceType>>,
    /// Those of them that are proved to be gone.
    gone: BTreeSet<GroupResource>,
    /// Versions of groups that are proved to be gone.
    versions: BTreeSet<GroupVersion>,
}
