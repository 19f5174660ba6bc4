//! Random graphs, and their objects on a server.

use anyhow::Result;
use k8s_openapi::api::core::v1::{ConfigMap, Node as ClusterNode, Secret, ServiceAccount};
use kube::api::ApiResource;
use serde_json::{Value, json};

use kube_gc_testkit::cluster::Builder;
use kube_gc_testkit::{Cluster, Ns, Obj, Policy};

/// The finalizers that nobody removes but the test.
pub const HOLDS: [&str; 2] = ["example.com/hold", "example.com/drain"];

/// A type of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    ConfigMap,
    Secret,
    ServiceAccount,
    /// Cluster-scoped.
    Node,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::ConfigMap, Self::Secret, Self::ServiceAccount, Self::Node];

    /// The type.
    pub fn resource(self) -> ApiResource {
        match self {
            Self::ConfigMap => ApiResource::erase::<ConfigMap>(&()),
            Self::Secret => ApiResource::erase::<Secret>(&()),
            Self::ServiceAccount => ApiResource::erase::<ServiceAccount>(&()),
            Self::Node => ApiResource::erase::<ClusterNode>(&()),
        }
    }

    /// Whether its objects are in namespaces.
    pub fn is_namespaced(self) -> bool {
        self != Self::Node
    }
}

/// What a reference names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    /// The owner.
    Right,
    /// The owner's name with another uid.
    OtherUid,
    /// The owner's uid with another name.
    OtherName,
    /// A kind that is not served.
    Unserved,
    /// An object that never existed.
    Nobody,
}

/// An owner reference.
#[derive(Clone, Copy, Debug)]
struct Link {
    owner: usize,
    names: Names,
    blocking: bool,
}

/// An object of a graph.
#[derive(Clone, Debug)]
struct Node {
    kind: Kind,
    /// In another namespace than the others.
    is_far: bool,
    links: Vec<Link>,
    finalizers: Vec<&'static str>,
    /// It is being deleted before anything else happens.
    deleted: Option<Policy>,
}

/// A graph of a few objects. Equal numbers give equal graphs.
#[derive(Clone, Debug)]
pub struct Graph {
    /// Its number, for reports.
    pub number: u64,
    nodes: Vec<Node>,
}

/// The policies in a fixed order.
pub const POLICIES: [Policy; 3] = [Policy::Background, Policy::Foreground, Policy::Orphan];

impl Graph {
    /// The graph with this number of a seed.
    pub fn draw(seed: u64, number: u64) -> Self {
        let random = &mut fastrand::Rng::with_seed(seed ^ number.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        let count = 2 + random.usize(..4);
        let has_cluster_scope = random.u8(..100) < 15;
        let mut nodes = Vec::new();
        for place in 0..count {
            let kind = Kind::ALL[random.usize(..3 + usize::from(has_cluster_scope))];
            let mut links = Vec::new();
            // Most objects belong to an earlier one; a few to a later one, which closes rings.
            for _ in 0..[0, 1, 1, 1, 2, 2, 3][random.usize(..7)] {
                let is_ring = random.u8(..100) < 12;
                if place == 0 && !is_ring {
                    continue;
                }
                let owner = if is_ring { random.usize(..count) } else { random.usize(..place) };
                let names = match random.usize(..24) {
                    0 => Names::OtherUid,
                    1 => Names::OtherName,
                    2 => Names::Unserved,
                    3 => Names::Nobody,
                    _ => Names::Right,
                };
                links.push(Link { owner, names, blocking: random.u8(..100) < 55 });
            }
            let mut finalizers = Vec::new();
            if random.u8(..100) < 15 {
                finalizers.push(HOLDS[random.usize(..HOLDS.len())]);
            }
            if random.u8(..100) < 7 {
                finalizers.push("orphan");
            } else if random.u8(..100) < 5 {
                finalizers.push("foregroundDeletion");
            }
            let is_held = finalizers.iter().any(|name| HOLDS.contains(name));
            let deleted = (is_held && random.u8(..100) < 12).then(|| POLICIES[random.usize(..3)]);
            let is_far = random.u8(..100) < 4;
            nodes.push(Node { kind, is_far, links, finalizers, deleted });
        }
        Self { number, nodes }
    }

    /// How many objects it has.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Creates its objects. Each owner is created before its dependents; references that close a
    /// ring are added in the end.
    pub async fn create(&self, cluster: &Cluster, places: &[Ns; 2], name: &str) -> Result<Vec<Obj>> {
        let mut created: Vec<Obj> = Vec::new();
        for (place, node) in self.nodes.iter().enumerate() {
            let resource = node.kind.resource();
            let name = format!("{name}-{place}");
            let mut builder: Builder = if node.kind.is_namespaced() {
                places[usize::from(node.is_far)].object(&resource, name)
            } else {
                cluster.object(&resource, name)
            };
            for finalizer in &node.finalizers {
                builder = builder.finalizer(finalizer);
            }
            for link in node.links.iter().filter(|link| link.owner < place) {
                builder = builder.owner_reference(reference(*link, &created[link.owner]));
            }
            created.push(builder.create().await?);
        }
        for (place, node) in self.nodes.iter().enumerate() {
            if node.links.iter().any(|link| link.owner >= place) {
                let references: Vec<Value> =
                    node.links.iter().map(|link| reference(*link, &created[link.owner])).collect();
                let set = cluster.set_owner_references(&created[place], &references).await;
                // What is garbage without the ring may have gone.
                if set.is_err() && cluster.exists_with_uid(&created[place]).await? {
                    set?;
                }
            }
        }
        for (place, node) in self.nodes.iter().enumerate() {
            if let Some(policy) = node.deleted {
                cluster.delete(&created[place], policy).await?;
            }
        }
        Ok(created)
    }
}

fn reference(link: Link, owner: &Obj) -> Value {
    let mut reference = owner.reference();
    let other = format!("{}-x", owner.uid);
    match link.names {
        Names::Right => {}
        Names::OtherUid => reference["uid"] = json!(other),
        Names::OtherName => reference["name"] = json!(format!("{}-x", owner.name)),
        Names::Unserved => reference["kind"] = json!("Nonsense"),
        Names::Nobody => {
            reference["uid"] = json!(other);
            reference["name"] = json!(format!("{}-x", owner.name));
        }
    }
    if link.blocking {
        reference["blockOwnerDeletion"] = json!(true);
    }
    reference
}
