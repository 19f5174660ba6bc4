//! Tests of the actors: how a pool handles work that panics or fails, and what ends the process.

mod batch;
mod child;
mod graph;
mod pool;

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Addr, ArbiterHandle, Context, Handler, System};

use crate::actors::absent_owner_cache::AbsentOwnerCache;
use crate::actors::graph::{EffectSinks, GraphActor};
use crate::actors::graph_handle::GraphHandle;
use crate::actors::pool::Enqueue;
use crate::actors::registry::Registry;
use crate::actors::supervision::on_fatal;
use crate::worker::WorkContext;
use crate::worker::brake::Brake;
use crate::worker::decision::{DecisionRecorder, Summaries};
use crate::worker::delete::Births;
use crate::worker::namespace_check::NamespaceCheck;
use crate::worker::orphan::Releases;
use kube_gc_client::{Api, EventRecorder};
use kube_gc_config::DecisionLines;
use kube_gc_core::brake::Limits;
use kube_gc_core::graph::{DeletesProve, Epoch, Partition, PartitionId, Sharding};
use kube_gc_core::object::{
    Catalog, Finalizers, HashSeed, Identity, Key, ObjectFacts, OwnerReference, ResourceType, ResourceVersion,
    Scope, ServedKind, config_map,
};

/// Runs a test on its own actix system, in one thread, with a paused clock: it advances when every
/// task waits.
pub fn in_system<F: Future>(test: F) -> F::Output {
    // A failed assertion is reported by the test, not by the end of the process.
    on_fatal(|_| {});
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    System::with_tokio_rt(runtime).block_on(test)
}

/// A config map whose uid says where it is.
pub fn identity(namespace: &str, name: &str) -> Identity {
    config_map(namespace, name, &format!("{namespace}/{name}"))
}

/// Its key.
pub fn key(namespace: &str, name: &str) -> Key {
    identity(namespace, name).key()
}

/// A partition of a small graph, on this thread or on another one. It knows ConfigMaps.
pub fn start_partition(
    thread: Option<&ArbiterHandle>,
    id: PartitionId,
    absent_owners: Arc<AbsentOwnerCache>,
) -> Addr<GraphActor> {
    let catalog = catalog([("v1", identity("a", "any").resource)]);
    let partition = Partition::new(id, sharding(), Arc::new(catalog));
    let sink = Sink.start();
    let sinks = EffectSinks {
        delete: sink.clone().recipient(),
        orphan: sink.recipient(),
        absent_owners,
        event_recorder: EventRecorder::silent(),
        restore_fence: None,
    };
    GraphActor::start(id, partition, sinks, thread)
}

/// The smallest sharding.
fn sharding() -> Sharding {
    Sharding::new(NonZeroU16::MIN, HashSeed::new(1))
}

/// The epoch of the monitor of a small graph.
pub const EPOCH: Epoch = Epoch(1);

/// A small graph with a monitor of ConfigMaps, whose partitions share this thread or another one.
pub async fn graph_on(thread: Option<&ArbiterHandle>, absent: &Arc<AbsentOwnerCache>) -> GraphHandle {
    let partitions = sharding().all().map(|id| start_partition(thread, id, Arc::clone(absent)));
    let graph = GraphHandle::new(sharding(), partitions.collect());
    let (resource, deletes_prove) = (identity("a", "any").resource, DeletesProve::Absence);
    graph.ask_all(move |graph, _| graph.monitor_started(&resource, EPOCH, deletes_prove)).await.unwrap();
    graph
}

/// A context that believes every look-up, without a brake and without observers.
pub fn bare_context(api: Api, graph: GraphHandle, absent_owners: Arc<AbsentOwnerCache>) -> WorkContext {
    let (namespace_check, _) = NamespaceCheck::new(graph.clone(), EventRecorder::silent());
    WorkContext {
        decisions: DecisionRecorder::new(api.clone(), Vec::new(), Summaries::new(DecisionLines::All)),
        api,
        graph,
        absent_owners,
        registry: Registry::default(),
        births: Births::new(Duration::ZERO),
        brake: Brake::new(Limits::default()),
        releases: Releases::new(4),
        namespace_check,
    }
}

/// A custom type.
pub fn widgets() -> Arc<ResourceType> {
    ResourceType::of("widgets.example.com", "v1", "Widget", Scope::Namespaced)
}

/// What discovery shows of these types, each with the version that serves it.
pub fn catalog(types: impl IntoIterator<Item = (&'static str, Arc<ResourceType>)>) -> Catalog {
    let mut catalog = Catalog::builder();
    for (version, resource) in types {
        catalog.add(ServedKind { version: version.into(), resource });
    }
    catalog.build()
}

/// An object as a watch shows it.
pub fn seen(of: &Identity, version: u64, owners: Vec<OwnerReference>) -> ObjectFacts {
    ObjectFacts {
        uid: of.uid.clone(),
        namespace: of.namespace.clone(),
        name: of.name.clone(),
        resource_version: Some(ResourceVersion::number(version)),
        owners,
        being_deleted: false,
        finalizers: Finalizers::default(),
        held_by_others: false,
        grace: None,
        ends: None,
    }
}

/// Accepts keys and does nothing.
struct Sink;

impl Actor for Sink {
    type Context = Context<Self>;
}

impl Handler<Enqueue> for Sink {
    type Result = ();

    fn handle(&mut self, _: Enqueue, _: &mut Context<Self>) {}
}
