//! Plans from what lists of a server show, without a request.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use kube_gc_core::graph::ViewLimits;
use kube_gc_core::object::{
    Catalog, GroupResource, HashSeed, Identity, Namespace, ObjectFacts, PropagationPolicy, ResourceType,
    Scope, ServedKind, Uid,
};
use kube_gc_decode::{Decoded, Encoding};
use kube_gc_insight::{
    AbsenceEvidence, Details, Fact, Knowledge, Live, LiveObject, LocalGraph, Need, Outside, Plan, PlanQuery,
    Walk, ask, plan,
};
use kube_gc_testkit::cluster::key;
use kube_gc_testkit::{Cluster, Ns, Obj, Policy};
use serde_json::Value;

use super::graphs::Kind;

/// All objects of the types in use, at one moment.
pub struct Shown {
    /// By uid.
    pub objects: HashMap<String, Obj>,
}

impl Shown {
    /// Those of some objects that are still there. One whose type is gone is gone, too.
    pub async fn of(cluster: &Cluster, all: &[Obj]) -> Self {
        let mut objects = HashMap::new();
        for object in all {
            let found = cluster.get(object).await.unwrap_or_default();
            objects.extend(
                found.filter(|found| found.uid == object.uid).map(|found| (found.uid.clone(), found)),
            );
        }
        Self { objects }
    }

    /// Lists everything.
    pub async fn now(cluster: &Cluster, places: &[Ns; 2]) -> Result<Self> {
        let mut objects = HashMap::new();
        for kind in Kind::ALL {
            let mut listed = Vec::new();
            if kind.is_namespaced() {
                for place in places {
                    listed.extend(cluster.list(&kind.resource(), Some(place.name())).await?);
                }
            } else {
                listed = cluster.list(&kind.resource(), None).await?;
            }
            objects.extend(listed.into_iter().map(|object| (object.uid.clone(), object)));
        }
        Ok(Self { objects })
    }
}

/// What a command would know after it has listed all that is shown.
pub struct Planner {
    catalog: Arc<Catalog>,
    graph: LocalGraph,
    live: HashMap<(GroupResource, Option<Namespace>, Box<str>), LiveObject>,
}

fn resource_type(kind: Kind) -> Arc<ResourceType> {
    let resource = kind.resource();
    Arc::new(ResourceType {
        group_resource: GroupResource::parse(&key(&resource)),
        version: resource.version.as_str().into(),
        kind: resource.kind.as_str().into(),
        scope: if kind.is_namespaced() { Scope::Namespaced } else { Scope::Cluster },
    })
}

fn identity(resource: &Arc<ResourceType>, object: &Obj) -> Result<Identity> {
    Ok(Identity {
        resource: Arc::clone(resource),
        namespace: object.namespace.as_deref().and_then(Namespace::parse),
        name: object.name.as_str().into(),
        uid: Uid::parse(&object.uid).context("no uid")?,
    })
}

fn facts(object: &Obj) -> Result<ObjectFacts> {
    let read = Decoded::read(Encoding::Json, object.raw.to_string().as_bytes());
    read.map_err(anyhow::Error::msg)?.object.context("no uid")
}

impl Planner {
    /// What follows from what is shown.
    pub fn of(shown: &Shown) -> Result<Self> {
        let types = Kind::ALL.map(resource_type);
        let mut builder = Catalog::builder();
        for resource in &types {
            builder.add(ServedKind { version: resource.version.clone(), resource: Arc::clone(resource) });
        }
        let catalog = Arc::new(builder.build());
        let mut graph = LocalGraph::new(&catalog, HashSeed::new(7));
        let mut live = HashMap::new();
        for resource in &types {
            graph.begin(resource);
            let mut listed = Vec::new();
            let of_type = shown.objects.values().filter(|object| object.resource.kind == *resource.kind);
            for object in of_type {
                let facts = facts(object)?;
                let details = Details {
                    finalizers: object.finalizers().into_iter().map(str::to_owned).collect(),
                    ..Details::default()
                };
                let identity = identity(resource, object)?;
                let name = (resource.group_resource.clone(), identity.namespace, identity.name);
                live.insert(name, LiveObject { facts: facts.clone(), details });
                listed.push(facts);
            }
            graph.add(resource, listed);
            graph.end(resource, None);
        }
        Ok(Self { catalog, graph, live })
    }

    /// The plan of a deletion.
    pub fn plan(&mut self, root: &Obj, policy: Policy) -> Result<Plan> {
        let kind = Kind::ALL.into_iter().find(|kind| kind.resource().kind == root.resource.kind);
        let root = identity(&resource_type(kind.context("another kind")?), root)?;
        let policy = match policy {
            Policy::Background => PropagationPolicy::Background,
            Policy::Foreground => PropagationPolicy::Foreground,
            Policy::Orphan => PropagationPolicy::Orphan,
        };
        let (roots, others) = (vec![root], Vec::new());
        let mut walk = Walk::new(PlanQuery { roots, policy, others, limit: 10_000 });
        self.graph.walk(&mut walk);
        let mut knowledge = Knowledge::new(Outside::default());
        loop {
            let question = ask(&knowledge, &self.catalog, 10_000, |asker| plan(asker, &walk, 10_000));
            let needs = match question {
                Ok(plan) if walk.follow(&plan) => {
                    self.graph.walk(&mut walk);
                    continue;
                }
                Ok(plan) => return Ok(plan),
                Err(needs) => needs,
            };
            for need in self.graph.learn(needs, ViewLimits::default(), &mut knowledge) {
                // A plan needs nothing else that takes a request.
                let Need::Live(identity) = need else { continue };
                let live = self.read(&identity);
                knowledge.learn(Fact::Live(identity, live));
            }
        }
    }

    fn read(&self, identity: &Identity) -> Live {
        let name =
            (identity.resource.group_resource.clone(), identity.namespace.clone(), identity.name.clone());
        match self.live.get(&name) {
            Some(live) if live.facts.uid == identity.uid => Live::Found(Box::new(live.clone())),
            Some(live) => Live::Absent(AbsenceEvidence::OtherUid(live.facts.uid.clone())),
            None => Live::Absent(AbsenceEvidence::NotFound),
        }
    }
}

/// Finalizers that the collector and the API server remove themselves.
const OWN: [&str; 4] =
    ["foregroundDeletion", "orphan", "customresourcecleanup.apiextensions.k8s.io", "kubernetes"];

/// The finalizers of an object that only the test removes, those in its spec included.
pub fn holds(object: &Obj) -> Vec<&str> {
    let spec = object.raw["spec"]["finalizers"].as_array().into_iter().flatten();
    let all = object.finalizers().into_iter().chain(spec.filter_map(Value::as_str));
    all.filter(|name| !OWN.contains(name)).collect()
}
