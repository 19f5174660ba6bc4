//! The built-in types of two releases.

use std::sync::Arc;

use crate::resources::{DefaultPolicy, Resource, ResourceName};
use crate::server::Release;

const ALL: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const NO_COLLECTION: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];

/// The type of a row, if the release has it.
fn resource(row: &str, release: Release) -> Option<Resource> {
    let [group, plural, kind, properties, short, old, new] = *row.split_whitespace().collect::<Vec<_>>()
    else {
        return None;
    };
    let is_old = release == Release::V1_20;
    let group = if group == "core" { "" } else { group };
    let listed =
        |list: &str| list.split(',').filter(|one| *one != "-").map(Box::from).collect::<Vec<Box<str>>>();
    let is = |property: &str| properties.split(',').any(|one| one == property);
    let versions = listed(if is_old { old } else { new });
    let storage_version = versions.first()?.clone();
    let stored_in = match group {
        "events.k8s.io" => "",
        "extensions" => "networking.k8s.io",
        group => group,
    };
    Some(Resource {
        name: ResourceName::new(group, plural),
        stored_as: ResourceName::new(stored_in, plural),
        kind: kind.into(),
        list_kind: format!("{kind}List").into(),
        singular: if is_old { "".into() } else { kind.to_lowercase().into() },
        short_names: listed(short),
        categories: if is("all") { vec!["all".into()] } else { Vec::new() },
        namespaced: is("namespaced"),
        versions,
        storage_version,
        verbs: match plural {
            _ if is("create") => vec!["create"],
            _ if is("read") => vec!["get", "list"],
            "namespaces" => NO_COLLECTION.to_vec(),
            "services" if is_old => NO_COLLECTION.to_vec(),
            _ => ALL.to_vec(),
        },
        subresources: match plural {
            "namespaces" => vec!["finalize", "status"],
            _ if is("status") => vec!["status"],
            _ => Vec::new(),
        },
        default_policy: match kind {
            "Event" => DefaultPolicy::Unsupported,
            _ if is("orphans") || is_old && is("orphans-once") => DefaultPolicy::Orphan,
            _ => DefaultPolicy::Background,
        },
        custom: false,
        graceful: is("graceful"),
        returns_deleted: is("returns") || !is_old && is("returns-since"),
        definition: None,
    })
}

/// The types, in the order of `/apis` and of the discovery of each group: group, plural, kind, properties, short
/// names, and the versions in 1.20 and in 1.36, the preferred one first.
///
/// `orphans` is a default policy that `orphans-once` has in 1.20 only. `returns` answers a DELETE that removes
/// the object at once with the object, which `returns-since` does in 1.36 only.
const TYPES: &str = "
core bindings Binding namespaced,create - v1 v1
core componentstatuses ComponentStatus cluster,read cs v1 v1
core configmaps ConfigMap namespaced cm v1 v1
core endpoints Endpoints namespaced ep v1 v1
core events Event namespaced ev v1 v1
core limitranges LimitRange namespaced limits v1 v1
core namespaces Namespace cluster,status,returns ns v1 v1
core nodes Node cluster,status no v1 v1
core persistentvolumeclaims PersistentVolumeClaim namespaced,status,returns pvc v1 v1
core persistentvolumes PersistentVolume cluster,status,returns pv v1 v1
core pods Pod namespaced,all,status,returns,graceful po v1 v1
core podtemplates PodTemplate namespaced,returns - v1 v1
core replicationcontrollers ReplicationController namespaced,all,status,orphans rc v1 v1
core resourcequotas ResourceQuota namespaced,status,returns quota v1 v1
core secrets Secret namespaced - v1 v1
core serviceaccounts ServiceAccount namespaced,returns sa v1 v1
core services Service namespaced,all,status,returns-since svc v1 v1
apiregistration.k8s.io apiservices APIService cluster,status - v1,v1beta1 v1
apps controllerrevisions ControllerRevision namespaced - v1 v1
apps daemonsets DaemonSet namespaced,all,status ds v1 v1
apps deployments Deployment namespaced,all,status deploy v1 v1
apps replicasets ReplicaSet namespaced,all,status rs v1 v1
apps statefulsets StatefulSet namespaced,all,status sts v1 v1
events.k8s.io events Event namespaced ev v1,v1beta1 v1
authentication.k8s.io selfsubjectreviews SelfSubjectReview cluster,create - - v1
authentication.k8s.io tokenreviews TokenReview cluster,create - v1,v1beta1 v1
authorization.k8s.io localsubjectaccessreviews LocalSubjectAccessReview namespaced,create - v1,v1beta1 v1
authorization.k8s.io selfsubjectaccessreviews SelfSubjectAccessReview cluster,create - v1,v1beta1 v1
authorization.k8s.io selfsubjectrulesreviews SelfSubjectRulesReview cluster,create - v1,v1beta1 v1
authorization.k8s.io subjectaccessreviews SubjectAccessReview cluster,create - v1,v1beta1 v1
autoscaling horizontalpodautoscalers HorizontalPodAutoscaler namespaced,all,status hpa v1,v2beta1,v2beta2 v2,v1
batch cronjobs CronJob namespaced,all,status,orphans-once cj v1beta1 v1
batch jobs Job namespaced,all,status,orphans - v1 v1
certificates.k8s.io certificatesigningrequests CertificateSigningRequest cluster,status csr v1,v1beta1 v1
networking.k8s.io ingressclasses IngressClass cluster - v1,v1beta1 v1
networking.k8s.io ingresses Ingress namespaced,status ing v1,v1beta1 v1
networking.k8s.io ipaddresses IPAddress cluster ip - v1
networking.k8s.io networkpolicies NetworkPolicy namespaced netpol v1 v1
networking.k8s.io servicecidrs ServiceCIDR cluster,status - - v1
extensions ingresses Ingress namespaced,status ing v1beta1 -
policy poddisruptionbudgets PodDisruptionBudget namespaced,status pdb v1beta1 v1
policy podsecuritypolicies PodSecurityPolicy cluster,returns psp v1beta1 -
rbac.authorization.k8s.io clusterrolebindings ClusterRoleBinding cluster - v1,v1beta1 v1
rbac.authorization.k8s.io clusterroles ClusterRole cluster - v1,v1beta1 v1
rbac.authorization.k8s.io rolebindings RoleBinding namespaced - v1,v1beta1 v1
rbac.authorization.k8s.io roles Role namespaced - v1,v1beta1 v1
storage.k8s.io csidrivers CSIDriver cluster,returns - v1,v1beta1 v1
storage.k8s.io csinodes CSINode cluster,returns - v1,v1beta1 v1
storage.k8s.io csistoragecapacities CSIStorageCapacity namespaced - - v1
storage.k8s.io storageclasses StorageClass cluster,returns sc v1,v1beta1 v1
storage.k8s.io volumeattachments VolumeAttachment cluster,status,returns - v1,v1beta1 v1
storage.k8s.io volumeattributesclasses VolumeAttributesClass cluster,returns vac - v1
admissionregistration.k8s.io mutatingwebhookconfigurations MutatingWebhookConfiguration cluster - v1,v1beta1 v1
admissionregistration.k8s.io validatingadmissionpolicies ValidatingAdmissionPolicy cluster,status - - v1
admissionregistration.k8s.io validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding cluster - - v1
admissionregistration.k8s.io validatingwebhookconfigurations ValidatingWebhookConfiguration cluster - v1,v1beta1 v1
apiextensions.k8s.io customresourcedefinitions CustomResourceDefinition cluster,status crd,crds v1,v1beta1 v1
scheduling.k8s.io priorityclasses PriorityClass cluster pc v1,v1beta1 v1
coordination.k8s.io leases Lease namespaced - v1,v1beta1 v1
node.k8s.io runtimeclasses RuntimeClass cluster - v1,v1beta1 v1
discovery.k8s.io endpointslices EndpointSlice namespaced - v1beta1 v1
flowcontrol.apiserver.k8s.io flowschemas FlowSchema cluster,status - v1beta1 v1
flowcontrol.apiserver.k8s.io prioritylevelconfigurations PriorityLevelConfiguration cluster,status - v1beta1 v1
resource.k8s.io deviceclasses DeviceClass cluster - - v1
resource.k8s.io resourceclaims ResourceClaim namespaced,status - - v1
resource.k8s.io resourceclaimtemplates ResourceClaimTemplate namespaced - - v1
resource.k8s.io resourceslices ResourceSlice cluster - - v1
";

/// The types of a release: groups in the order of `/apis`, and the types of each group in the order
/// of discovery.
pub fn built_in(release: Release) -> Vec<Arc<Resource>> {
    TYPES.lines().filter_map(|row| resource(row, release)).map(Arc::new).collect()
}
