//! Starts, drains and replaces monitors as types come and go.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};

use super::{Discovery, Running, unserved};
use crate::actors::messages::SyncProgress;
use crate::actors::monitor::{Drain, Monitor, Stop, Subject};
use crate::actors::registry::{Followed, RoundType, RoundTypes};
use kube_gc_client::Watchable;
use kube_gc_core::graph::{DeletesProve, Effects, Epoch, Partition};
use kube_gc_core::object::{GroupResource, ResourceType};

impl Discovery {
    /// Starts monitors of new types, drains monitors of types that are gone, and replaces monitors
    /// whose version changed. A type that is only missing keeps its monitor.
    pub(super) fn reconcile(&mut self, ctx: &mut Context<Self>) {
        let Some(discovered) = self.discovered.clone() else { return };
        // The graph is about to be emptied.
        if self.suspended {
            return;
        }
        let wanted: BTreeMap<_, _> = discovered
            .watchable
            .iter()
            .filter(|watchable| !self.context.ignored.contains(&watchable.resource.group_resource))
            .map(|watchable| (watchable.resource.group_resource.clone(), watchable))
            .collect();
        let mut outdated = Vec::new();
        for (name, running) in &mut self.monitors {
            match wanted.get(name) {
                Some(watchable) if running.watched == **watchable => {}
                _ if running.draining => {}
                Some(_)
                    if unserved::is_version_kept(
                        &running.watched.resource,
                        &discovered.catalog,
                        &self.catalog,
                    ) => {}
                Some(_) => {
                    tracing::info!(resource = %name, "the version or the server of this type has changed; kube-gc lists it again");
                    running.draining = true;
                    running.replaced = true;
                    outdated.push((name.clone(), running.epoch, running.address.clone()));
                }
                None if self.unserved.keeps(name) => {}
                None => {
                    tracing::info!(resource = %name, "type is no longer served; kube-gc stops watching it");
                    running.draining = true;
                    running.address.do_send(Drain);
                }
            }
        }
        for (name, epoch, address) in outdated {
            // Its watch would not end by itself, because the type is still served.
            let stop = address.send(Stop).into_actor(self);
            ctx.spawn(stop.map(move |_, discovery, ctx| discovery.monitor_ended(&name, epoch, ctx)));
        }
        let new: Vec<_> = wanted
            .into_iter()
            .filter(|(name, _)| !self.monitors.contains_key(name))
            .map(|(_, new)| new)
            .collect();
        for watchable in new {
            let Watchable { resource, .. } = watchable;
            // A type with another scope is another type.
            let kept = self.unmonitored.remove(&resource.group_resource);
            if let Some(other) = kept.filter(|kept| kept.scope != resource.scope) {
                self.remove_type(other, Epoch(self.last_epoch), ctx);
                continue;
            }
            self.start_monitor(watchable, ctx);
        }
        self.synced_changed();
    }

    fn start_monitor(&mut self, watched: &Watchable, ctx: &mut Context<Self>) {
        let Watchable { resource, deletes_prove } = watched;
        self.last_epoch += 1;
        let epoch = Epoch(self.last_epoch);
        tracing::debug!(resource = %resource.group_resource, version = %resource.version, "monitor started");
        let address = Monitor::start(Subject {
            context: self.context.monitors.clone(),
            discovery: ctx.address().recipient(),
            resource: Arc::clone(resource),
            epoch,
            deletes_prove: *deletes_prove,
        });
        let running = Running { watched: watched.clone(), address, epoch, draining: false, replaced: false };
        self.monitors.insert(resource.group_resource.clone(), running);
    }

    /// Handles the end of a monitor. Its type is removed from the graph, unless another monitor
    /// of the type follows.
    pub(super) fn monitor_ended(&mut self, name: &GroupResource, epoch: Epoch, ctx: &mut Context<Self>) {
        if self.monitors.get(name).is_none_or(|running| running.epoch != epoch) {
            return;
        }
        let Some(running) = self.monitors.remove(name) else { return };
        self.context.monitors.registry.ended(name);
        if running.replaced && running.watched.deletes_prove == DeletesProve::Nothing {
            // The next server has resource versions of its own.
            self.context.monitors.api.high_water().forget(name);
        }
        // A type that some answers lacked may be back. Its nodes stay until the next monitor has
        // listed it.
        let is_back = self.discovered.as_ref().is_some_and(|discovered| {
            discovered.watchable.iter().any(|watchable| {
                let resource = &watchable.resource;
                resource.group_resource == *name && resource.scope == running.watched.resource.scope
            })
        });
        if running.replaced || is_back {
            self.reconcile(ctx);
            if self.monitors.contains_key(name) {
                return;
            }
        }
        self.remove_type(running.watched.resource, epoch, ctx);
    }

    /// Removes types that are gone and have no monitor. The others are removed when their monitors
    /// are drained.
    pub(super) fn remove_types(&mut self, gone: &[GroupResource], ctx: &mut Context<Self>) {
        for name in gone {
            let Some(resource) = self.unmonitored.remove(name) else { continue };
            self.remove_type(resource, Epoch(self.last_epoch), ctx);
        }
    }

    /// A removed type was proved gone again after watches broke. This renews the proofs of absence
    /// for its objects.
    pub(super) fn confirm_type_gone(&mut self, resource: Arc<ResourceType>, ctx: &mut Context<Self>) {
        let name = &resource.group_resource;
        if !self.monitors.contains_key(name) && !self.unmonitored.contains_key(name) {
            self.remove_type(resource, Epoch(self.last_epoch), ctx);
        }
    }

    /// Removes a type without a monitor from the graph if it is gone. Otherwise its nodes stay.
    fn remove_type(&mut self, resource: Arc<ResourceType>, epoch: Epoch, ctx: &mut Context<Self>) {
        let is_kept = self.unserved.keeps(&resource.group_resource);
        if is_kept {
            self.unmonitored.insert(resource.group_resource.clone(), Arc::clone(&resource));
        }
        let proved_under = self.unserved.proved_under(&resource.group_resource);
        let graph = self.context.monitors.graph.clone();
        let leave = move |graph: &mut Partition, effects: &mut Effects| match is_kept {
            true => graph.type_unserved(&resource, epoch, effects),
            false => graph.type_removed(&resource, epoch, proved_under, effects),
        };
        let leave = async move {
            // An error means that the graph, and with it the process, is ending.
            let _ = graph.ask_all(leave).await;
        };
        // The type may have come back while it was drained.
        ctx.spawn(leave.into_actor(self).map(|(), discovery, ctx| discovery.reconcile(ctx)));
    }

    /// Publishes which types are synced, for the workers and for Lifecycle.
    pub(super) fn synced_changed(&mut self) {
        // A type that is being drained cannot be listed.
        let mut types: Vec<_> = self
            .monitors
            .iter()
            .filter(|(_, running)| !running.draining)
            .map(|(name, running)| {
                let registry = &self.context.monitors.registry;
                let followed = match (registry.was_synced(name), registry.is_synced(name)) {
                    (false, _) => Followed::Not,
                    (true, false) => Followed::NoLonger,
                    (true, true) => Followed::Synced,
                };
                RoundType { resource: Arc::clone(&running.watched.resource), followed }
            })
            .collect();
        // A missing type that is still monitored is in the list above.
        let left = self.unserved.types().filter(|resource| {
            self.monitors.get(&resource.group_resource).is_none_or(|running| running.draining)
        });
        types.extend(
            left.map(|resource| RoundType { resource: Arc::clone(resource), followed: Followed::Not }),
        );
        let all = !types.is_empty() && types.iter().all(|of| of.followed == Followed::Synced);
        let undiscovered = self.discovered.iter().flat_map(|discovered| &discovered.never_read);
        let undiscovered = undiscovered.filter(|part| part.may_have_objects()).cloned().collect();
        let catalog = Arc::clone(&self.catalog);
        self.round_types.send_replace(Arc::new(RoundTypes { types, catalog, undiscovered }));
        let progress = SyncProgress { rebuild: self.rebuild, all_synced: all };
        self.context.progress.do_send(progress);
    }
}
