//! The built-in types of two releases.

use std::sync::Arc;

use crate::resources::{DefaultPolicy, Resource, ResourceName};
use crate::server::Release;

const ALL: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const NO_COLLECTION: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
const CREATE: &[&str] = &["create"];

/// An entry of the table. Fields that it omits have the usual value.
#[derive(Clone, Copy)]
struct Row {
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
    namespaced: bool,
    old: &'static [&'static str],
    new: &'static [&'static str],
    short: &'static [&'static str],
    categories: &'static [&'static str],
    subresources: &'static [&'static str],
    only_new: &'static [&'static str],
    verbs: &'static [&'static str],
    orphans: Releases,
    returns: Releases,
    stored_in: &'static str,
    graceful: bool,
}

/// The releases to which an entry applies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Releases {
    None,
    Old,
    New,
    Both,
}

impl Releases {
    fn has(self, release: Release) -> bool {
        match self {
            Self::None => false,
            Self::Old => release == Release::V1_20,
            Self::New => release != Release::V1_20,
            Self::Both => true,
        }
    }
}

impl Row {
    const fn new(group: &'static str, plural: &'static str, kind: &'static str) -> Self {
        Self {
            group,
            plural,
            kind,
            namespaced: true,
            old: &["v1"],
            new: &["v1"],
            short: &[],
            categories: &[],
            subresources: &[],
            only_new: &[],
            verbs: ALL,
            orphans: Releases::None,
            returns: Releases::None,
            stored_in: group,
            graceful: false,
        }
    }

    const fn cluster(mut self) -> Self {
        self.namespaced = false;
        self
    }

    /// The versions in 1.20 and in 1.36, the preferred one first; none if the type is not served.
    const fn versions(mut self, old: &'static [&'static str], new: &'static [&'static str]) -> Self {
        self.old = old;
        self.new = new;
        self
    }

    const fn short(mut self, names: &'static [&'static str]) -> Self {
        self.short = names;
        self
    }

    const fn category(mut self, categories: &'static [&'static str]) -> Self {
        self.categories = categories;
        self
    }

    const fn with(mut self, subresources: &'static [&'static str]) -> Self {
        self.subresources = subresources;
        self
    }

    /// Subresources that 1.20 does not have.
    const fn with_new(mut self, subresources: &'static [&'static str]) -> Self {
        self.only_new = subresources;
        self
    }

    const fn verbs(mut self, verbs: &'static [&'static str]) -> Self {
        self.verbs = verbs;
        self
    }

    const fn orphans(mut self, releases: Releases) -> Self {
        self.orphans = releases;
        self
    }

    const fn returns_deleted(mut self, releases: Releases) -> Self {
        self.returns = releases;
        self
    }

    const fn stored_in(mut self, group: &'static str) -> Self {
        self.stored_in = group;
        self
    }

    const fn graceful(mut self) -> Self {
        self.graceful = true;
        self
    }

    fn resource(&self, release: Release) -> Option<Resource> {
        let old = release == Release::V1_20;
        let versions = if old { self.old } else { self.new };
        let storage_version = versions.first()?;
        let extra = if old { &[][..] } else { self.only_new };
        let mut subresources = [self.subresources, extra].concat();
        subresources.sort_unstable();
        let old_service = old && self.group.is_empty() && self.plural == "services";
        let default_policy = match self.kind {
            "Event" => DefaultPolicy::Unsupported,
            _ if self.orphans.has(release) => DefaultPolicy::Orphan,
            _ => DefaultPolicy::Background,
        };
        Some(Resource {
            name: ResourceName::new(self.group, self.plural),
            stored_as: ResourceName::new(self.stored_in, self.plural),
            kind: self.kind.into(),
            list_kind: format!("{}List", self.kind).into(),
            singular: if old { "".into() } else { self.kind.to_lowercase().into() },
            short_names: self.short.iter().copied().map(Box::from).collect(),
            categories: self.categories.iter().copied().map(Box::from).collect(),
            namespaced: self.namespaced,
            versions: versions.iter().copied().map(Box::from).collect(),
            storage_version: (*storage_version).into(),
            verbs: if old_service { NO_COLLECTION.to_vec() } else { self.verbs.to_vec() },
            subresources,
            default_policy,
            custom: false,
            graceful: self.graceful,
            returns_deleted: self.returns.has(release),
            hides_deleted: old_service,
            definition: None,
        })
    }
}

const ADMISSION: &str = "admissionregistration.k8s.io";
const FLOW: &str = "flowcontrol.apiserver.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const DYNAMIC: &str = "resource.k8s.io";
const API: &[&str] = &["api-extensions"];
const EVERYTHING: &[&str] = &["all"];
const NONE: &[&str] = &[];
const V1: &[&str] = &["v1"];
const BETA: &[&str] = &["v1beta1"];
const V1_BETA: &[&str] = &["v1", "v1beta1"];
const STATUS: &[&str] = &["status"];
const SCALED: &[&str] = &["scale", "status"];
const POD: &[&str] = &["attach", "binding", "eviction", "exec", "log", "portforward", "proxy", "status"];

/// The groups, in the order of `/apis`.
const ROWS: &[Row] = &[
    Row::new("", "bindings", "Binding").verbs(CREATE),
    Row::new("", "componentstatuses", "ComponentStatus").cluster().short(&["cs"]).verbs(&["get", "list"]),
    Row::new("", "configmaps", "ConfigMap").short(&["cm"]),
    Row::new("", "endpoints", "Endpoints").short(&["ep"]),
    Row::new("", "events", "Event").short(&["ev"]),
    Row::new("", "limitranges", "LimitRange").short(&["limits"]),
    Row::new("", "namespaces", "Namespace")
        .cluster()
        .short(&["ns"])
        .with(&["finalize", "status"])
        .verbs(NO_COLLECTION),
    Row::new("", "nodes", "Node").cluster().short(&["no"]).with(&["proxy", "status"]),
    Row::new("", "persistentvolumeclaims", "PersistentVolumeClaim")
        .short(&["pvc"])
        .with(STATUS)
        .returns_deleted(Releases::Both),
    Row::new("", "persistentvolumes", "PersistentVolume")
        .cluster()
        .short(&["pv"])
        .with(STATUS)
        .returns_deleted(Releases::Both),
    Row::new("", "pods", "Pod")
        .short(&["po"])
        .category(EVERYTHING)
        .with(POD)
        .with_new(&["ephemeralcontainers", "resize"])
        .returns_deleted(Releases::Both)
        .graceful(),
    Row::new("", "podtemplates", "PodTemplate").returns_deleted(Releases::Both),
    Row::new("", "replicationcontrollers", "ReplicationController")
        .short(&["rc"])
        .category(EVERYTHING)
        .with(SCALED)
        .orphans(Releases::Both),
    Row::new("", "resourcequotas", "ResourceQuota")
        .short(&["quota"])
        .with(STATUS)
        .returns_deleted(Releases::Both),
    Row::new("", "secrets", "Secret"),
    Row::new("", "serviceaccounts", "ServiceAccount")
        .short(&["sa"])
        .with(&["token"])
        .returns_deleted(Releases::Both),
    Row::new("", "services", "Service")
        .short(&["svc"])
        .category(EVERYTHING)
        .with(&["proxy", "status"])
        .returns_deleted(Releases::New),
    Row::new("apiregistration.k8s.io", "apiservices", "APIService")
        .cluster()
        .versions(V1_BETA, V1)
        .category(API)
        .with(STATUS),
    Row::new("apps", "controllerrevisions", "ControllerRevision"),
    Row::new("apps", "daemonsets", "DaemonSet").short(&["ds"]).category(EVERYTHING).with(STATUS),
    Row::new("apps", "deployments", "Deployment").short(&["deploy"]).category(EVERYTHING).with(SCALED),
    Row::new("apps", "replicasets", "ReplicaSet").short(&["rs"]).category(EVERYTHING).with(SCALED),
    Row::new("apps", "statefulsets", "StatefulSet").short(&["sts"]).category(EVERYTHING).with(SCALED),
    Row::new("events.k8s.io", "events", "Event").versions(V1_BETA, V1).short(&["ev"]).stored_in(""),
    Row::new("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview")
        .cluster()
        .versions(NONE, V1)
        .verbs(CREATE),
    Row::new("authentication.k8s.io", "tokenreviews", "TokenReview")
        .cluster()
        .versions(V1_BETA, V1)
        .verbs(CREATE),
    Row::new("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview")
        .versions(V1_BETA, V1)
        .verbs(CREATE),
    Row::new("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview")
        .cluster()
        .versions(V1_BETA, V1)
        .verbs(CREATE),
    Row::new("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview")
        .cluster()
        .versions(V1_BETA, V1)
        .verbs(CREATE),
    Row::new("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview")
        .cluster()
        .versions(V1_BETA, V1)
        .verbs(CREATE),
    Row::new("autoscaling", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
        .versions(&["v1", "v2beta1", "v2beta2"], &["v2", "v1"])
        .short(&["hpa"])
        .category(EVERYTHING)
        .with(STATUS),
    Row::new("batch", "cronjobs", "CronJob")
        .versions(BETA, V1)
        .short(&["cj"])
        .category(EVERYTHING)
        .with(STATUS)
        .orphans(Releases::Old),
    Row::new("batch", "jobs", "Job").category(EVERYTHING).with(STATUS).orphans(Releases::Both),
    Row::new("certificates.k8s.io", "certificatesigningrequests", "CertificateSigningRequest")
        .cluster()
        .versions(V1_BETA, V1)
        .short(&["csr"])
        .with(&["approval", "status"]),
    Row::new("networking.k8s.io", "ingressclasses", "IngressClass").cluster().versions(V1_BETA, V1),
    Row::new("networking.k8s.io", "ingresses", "Ingress").versions(V1_BETA, V1).short(&["ing"]).with(STATUS),
    Row::new("networking.k8s.io", "ipaddresses", "IPAddress").cluster().versions(NONE, V1).short(&["ip"]),
    Row::new("networking.k8s.io", "networkpolicies", "NetworkPolicy").short(&["netpol"]),
    Row::new("networking.k8s.io", "servicecidrs", "ServiceCIDR").cluster().versions(NONE, V1).with(STATUS),
    Row::new("extensions", "ingresses", "Ingress")
        .versions(BETA, NONE)
        .short(&["ing"])
        .with(STATUS)
        .stored_in("networking.k8s.io"),
    Row::new("policy", "poddisruptionbudgets", "PodDisruptionBudget")
        .versions(BETA, V1)
        .short(&["pdb"])
        .with(STATUS),
    Row::new("policy", "podsecuritypolicies", "PodSecurityPolicy")
        .cluster()
        .versions(BETA, NONE)
        .short(&["psp"])
        .returns_deleted(Releases::Both),
    Row::new(RBAC, "clusterrolebindings", "ClusterRoleBinding").cluster().versions(V1_BETA, V1),
    Row::new(RBAC, "clusterroles", "ClusterRole").cluster().versions(V1_BETA, V1),
    Row::new(RBAC, "rolebindings", "RoleBinding").versions(V1_BETA, V1),
    Row::new(RBAC, "roles", "Role").versions(V1_BETA, V1),
    Row::new(STORAGE, "csidrivers", "CSIDriver")
        .cluster()
        .versions(V1_BETA, V1)
        .returns_deleted(Releases::Both),
    Row::new(STORAGE, "csinodes", "CSINode").cluster().versions(V1_BETA, V1).returns_deleted(Releases::Both),
    Row::new(STORAGE, "csistoragecapacities", "CSIStorageCapacity").versions(NONE, V1),
    Row::new(STORAGE, "storageclasses", "StorageClass")
        .cluster()
        .versions(V1_BETA, V1)
        .short(&["sc"])
        .returns_deleted(Releases::Both),
    Row::new(STORAGE, "volumeattachments", "VolumeAttachment")
        .cluster()
        .versions(V1_BETA, V1)
        .with(STATUS)
        .returns_deleted(Releases::Both),
    Row::new(STORAGE, "volumeattributesclasses", "VolumeAttributesClass")
        .cluster()
        .versions(NONE, V1)
        .short(&["vac"])
        .returns_deleted(Releases::Both),
    Row::new(ADMISSION, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration")
        .cluster()
        .versions(V1_BETA, V1)
        .category(API),
    Row::new(ADMISSION, "validatingadmissionpolicies", "ValidatingAdmissionPolicy")
        .cluster()
        .versions(NONE, V1)
        .category(API)
        .with(STATUS),
    Row::new(ADMISSION, "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding")
        .cluster()
        .versions(NONE, V1)
        .category(API),
    Row::new(ADMISSION, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration")
        .cluster()
        .versions(V1_BETA, V1)
        .category(API),
    Row::new("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition")
        .cluster()
        .versions(V1_BETA, V1)
        .short(&["crd", "crds"])
        .category(API)
        .with(STATUS),
    Row::new("scheduling.k8s.io", "priorityclasses", "PriorityClass")
        .cluster()
        .versions(V1_BETA, V1)
        .short(&["pc"]),
    Row::new("coordination.k8s.io", "leases", "Lease").versions(V1_BETA, V1),
    Row::new("node.k8s.io", "runtimeclasses", "RuntimeClass").cluster().versions(V1_BETA, V1),
    Row::new("discovery.k8s.io", "endpointslices", "EndpointSlice").versions(BETA, V1),
    Row::new(FLOW, "flowschemas", "FlowSchema").cluster().versions(BETA, V1).with(STATUS),
    Row::new(FLOW, "prioritylevelconfigurations", "PriorityLevelConfiguration")
        .cluster()
        .versions(BETA, V1)
        .with(STATUS),
    Row::new(DYNAMIC, "deviceclasses", "DeviceClass").cluster().versions(NONE, V1),
    Row::new(DYNAMIC, "resourceclaims", "ResourceClaim").versions(NONE, V1).with(STATUS),
    Row::new(DYNAMIC, "resourceclaimtemplates", "ResourceClaimTemplate").versions(NONE, V1),
    Row::new(DYNAMIC, "resourceslices", "ResourceSlice").cluster().versions(NONE, V1),
];

/// The types of a release: groups in the order of `/apis`, and the types of each group in the order
/// of discovery.
pub fn built_in(release: Release) -> Vec<Arc<Resource>> {
    ROWS.iter().filter_map(|row| row.resource(release)).map(Arc::new).collect()
}
