//! The shape of a cluster: equal blocks of objects, each like a usual namespace.

/// A built-in resource type.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    pub group: &'static str,
    pub version: &'static str,
    pub plural: &'static str,
    pub kind: &'static str,
    pub namespaced: bool,
}

/// Similar objects of one type in a block.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The index of its type in [`BUILT_IN`].
    pub resource: usize,
    /// How many of them a block has.
    pub count: u64,
    pub naming: Naming,
    pub owner: Option<Owner>,
}

/// The owners of a family.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// The index of the owners' family in [`FAMILIES`].
    pub family: usize,
    /// The index of the owner for each dependent.
    pub index: fn(u64) -> u64,
}

/// The pattern of names.
#[derive(Clone, Copy, Debug)]
pub enum Naming {
    Namespace,
    Node,
    /// The name of the node of the block.
    OfNode,
    /// The name of an application, followed by one of these.
    App(&'static [&'static str]),
    /// The name of the owner, followed by ten random letters and digits.
    Hash,
    /// The name of the owner, followed by five of these.
    Short,
    /// The name of the owner, followed by the minute of the schedule.
    Minute,
}

/// Applications in a block.
pub const APPS: u64 = 8;

const fn core(plural: &'static str, kind: &'static str) -> BuiltIn {
    BuiltIn { group: "", version: "v1", plural, kind, namespaced: true }
}

const fn cluster(plural: &'static str, kind: &'static str) -> BuiltIn {
    BuiltIn { namespaced: false, ..core(plural, kind) }
}

const fn of(group: &'static str, version: &'static str, plural: &'static str, kind: &'static str) -> BuiltIn {
    BuiltIn { group, version, plural, kind, namespaced: true }
}

const RBAC: &str = "rbac.authorization.k8s.io";

/// The types. Those of one group and version are adjacent.
pub const BUILT_IN: [BuiltIn; 20] = [
    cluster("namespaces", "Namespace"),
    cluster("nodes", "Node"),
    core("pods", "Pod"),
    core("services", "Service"),
    core("endpoints", "Endpoints"),
    core("secrets", "Secret"),
    core("configmaps", "ConfigMap"),
    core("serviceaccounts", "ServiceAccount"),
    core("events", "Event"),
    of("apps", "v1", "deployments", "Deployment"),
    of("apps", "v1", "replicasets", "ReplicaSet"),
    of("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
    of("coordination.k8s.io", "v1", "leases", "Lease"),
    of("batch", "v1", "cronjobs", "CronJob"),
    of("batch", "v1", "jobs", "Job"),
    of(RBAC, "v1", "roles", "Role"),
    of(RBAC, "v1", "rolebindings", "RoleBinding"),
    of("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    of("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    of("events.k8s.io", "v1", "events", "Event"),
];

pub const PODS: usize = 2;

const fn free(resource: usize, count: u64, naming: Naming) -> Family {
    Family { resource, count, naming, owner: None }
}

const fn owned(resource: usize, count: u64, naming: Naming, family: usize, index: fn(u64) -> u64) -> Family {
    Family { resource, count, naming, owner: Some(Owner { family, index }) }
}

pub const NODE: usize = 1;
pub const DEPLOYMENTS: usize = 2;
pub const REPLICA_SETS: usize = 3;

/// The families of a block. Of the four ReplicaSets of a Deployment, the last one has Pods; the
/// others are its history.
pub const FAMILIES: [Family; 20] = [
    free(0, 1, Naming::Namespace),
    free(1, 1, Naming::Node),
    free(9, 8, Naming::App(&[""])),
    owned(10, 32, Naming::Hash, DEPLOYMENTS, |set| set / 4),
    owned(PODS, 64, Naming::Short, REPLICA_SETS, |pod| pod / 8 * 4 + 3),
    free(3, 8, Naming::App(&[""])),
    free(4, 8, Naming::App(&[""])),
    owned(11, 8, Naming::Short, 5, |slice| slice),
    free(5, 20, Naming::App(&["-tls", "-db-credentials", "-registry"])),
    free(6, 14, Naming::App(&["-config", "-feature-flags"])),
    free(7, 9, Naming::App(&["", "-ci"])),
    free(12, 1, Naming::App(&["-leader"])),
    owned(12, 1, Naming::OfNode, NODE, |lease| lease),
    free(13, 2, Naming::App(&["-cleanup"])),
    owned(14, 6, Naming::Minute, 13, |job| job / 3),
    owned(PODS, 6, Naming::Short, 14, |pod| pod),
    free(15, 2, Naming::App(&["-reader"])),
    free(16, 2, Naming::App(&["-reader"])),
    free(17, 4, Naming::App(&[""])),
    free(18, 3, Naming::App(&[""])),
];

/// The offset of each family in a block.
pub const OFFSETS: [u64; FAMILIES.len()] = {
    let mut offsets = [0; FAMILIES.len()];
    let mut family = 1;
    while family < FAMILIES.len() {
        offsets[family] = offsets[family - 1] + FAMILIES[family - 1].count;
        family += 1;
    }
    offsets
};

/// The number of objects in a block.
pub const BLOCK: u64 = OFFSETS[FAMILIES.len() - 1] + FAMILIES[FAMILIES.len() - 1].count;

/// A million objects must have 5,000 namespaces.
const _: () = assert!(BLOCK == 200);
