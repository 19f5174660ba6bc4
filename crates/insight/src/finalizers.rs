//! What finalizers are for, who set them, and who removes them.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::knowledge::{Details, FinalizerSetter};
use kube_gc_core::object::Catalog;
use kube_gc_core::text::{listed, word};

/// Well-known finalizers: a name, in which `*` at one end stands for any text; who removes it; and when. The
/// first line that matches counts.
const KNOWN: &str = "\
foregroundDeletion: the garbage collector: no dependent blocks the deletion any more
orphan: the garbage collector: no dependent names the object any more
kubernetes: the namespace controller of kube-controller-manager: the namespace has no objects left
kubernetes.io/pvc-protection: kube-controller-manager: no pod uses the claim any more
kubernetes.io/pv-protection: kube-controller-manager: no claim is bound to the volume any more
service.kubernetes.io/load-balancer-cleanup: the cloud controller manager: the load balancer has been removed
batch.kubernetes.io/job-tracking: the job controller of kube-controller-manager: the pod has been counted in the status of its job
customresourcecleanup.apiextensions.k8s.io: the API server: all objects of the custom resource have been deleted
resource.kubernetes.io/delete-protection: kube-controller-manager: no pod uses the resource claim any more
external-attacher/*: the CSI driver's attacher: the volume has been detached from all nodes
external-provisioner.volume.kubernetes.io/*: the CSI driver's provisioner: the storage behind the volume has been deleted
snapshot.storage.kubernetes.io/*: the CSI snapshot controller: nothing uses the snapshot or its source any more
external-health-monitor.storage.kubernetes.io: the CSI driver's health monitor: the volume is no longer monitored
*.elbv2.k8s.aws/resources: the AWS Load Balancer Controller: the load balancer has been removed
service.k8s.aws/resources: the AWS Load Balancer Controller: the load balancer has been removed
ingress.k8s.aws/resources: the AWS Load Balancer Controller: the load balancer has been removed
networking.gke.io/*: the GKE network controllers: the cloud resource has been removed
*resources-finalizer.argocd.argoproj.io: the Argo CD application controller: the resources of the application have been deleted
resources-finalizer.argocd.argoproj.io/*: the Argo CD application controller: the resources of the application have been deleted
finalizers.fluxcd.io*: the Flux controllers: what they applied has been pruned
workflows.argoproj.io/*: the Argo workflow controller: the artifacts of the workflow have been deleted
*.cluster.x-k8s.io: the Cluster API controllers: the machines have been deleted
*.crossplane.io: Crossplane: the external resource has been deleted
finalizer.acme.cert-manager.io: cert-manager: the challenge has been cleaned up
wrangler.cattle.io/*: the Rancher controllers: their clean-up is done
controller.cattle.io/*: Rancher: its clean-up is done
*.velero.io/external-resources-finalizer: Velero: the data of the backup has been deleted
*.ceph.rook.io: the Rook operator: the Ceph resource has been removed
longhorn.io: the Longhorn manager: the storage has been removed
karpenter.sh/termination: Karpenter: the node has been drained and its instance terminated
chains.tekton.dev*: Tekton Chains: the run has been signed
finalizer.keda.sh: the KEDA operator: the scaling has been undone
foregroundDeleteVirtualMachine: KubeVirt: the instance of the virtual machine has been deleted
kopf.zalando.org/*: an operator that is built with kopf: its deletion handler is done
strimzi.io/*: the Strimzi operator: the Kafka resource has been deleted
istio-finalizer.install.istio.io: the Istio operator: the control plane has been uninstalled";

/// Who removes a finalizer, and when, if it is a well-known one.
pub fn known_finalizer(name: &str) -> Option<(&'static str, &'static str)> {
    let fits = |pattern: &str| match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (_, Some(begin)) => name.starts_with(begin),
        (None, None) => name == pattern,
    };
    KNOWN.lines().find_map(|line| {
        let (pattern, rest) = line.split_once(": ")?;
        let (remover, when) = rest.split_once(": ")?;
        fits(pattern).then_some((remover, when))
    })
}

/// A finalizer of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FinalizerReport {
    pub name: String,
    /// Who removes it, if it is well-known.
    pub remover: Option<Cow<'static, str>>,
    /// When it is removed, if it is well-known.
    pub when: Option<Cow<'static, str>>,
    /// Who set it, as far as `managedFields` say.
    pub set_by: Option<FinalizerSetter>,
    /// Whether an API of the finalizer's domain is served; `null` if it has none.
    pub api_is_served: Option<bool>,
}

impl FinalizerReport {
    /// `finalizer a`, or `finalizers a, b`.
    pub fn names<'a>(finalizers: impl IntoIterator<Item = &'a Self>) -> String {
        let names: Vec<&str> = finalizers.into_iter().map(|finalizer| finalizer.name.as_str()).collect();
        let what = if names.len() == 1 { "finalizer" } else { "finalizers" };
        format!("{what} {}", listed(", ", names.len(), &names))
    }

    /// The finalizers of an object.
    pub fn of(details: &Details, catalog: &Catalog) -> Vec<Self> {
        let reports = details.finalizers.iter().map(|name| {
            let known = known_finalizer(name);
            Self {
                name: word(name).to_string(),
                remover: known.map(|(remover, _)| remover.into()),
                when: known.map(|(_, when)| when.into()),
                set_by: details.setters.iter().find(|setter| setter.finalizer == *name).cloned(),
                api_is_served: if known.is_some() { None } else { is_served(name, catalog) },
            }
        });
        reports.collect()
    }
}

/// Whether a group of the domain in a finalizer's name is served.
fn is_served(finalizer: &str, catalog: &Catalog) -> Option<bool> {
    let domain = finalizer.split('/').next().filter(|domain| domain.contains('.'))?;
    let is_in = |inner: &str, outer: &str| {
        inner == outer || inner.strip_suffix(outer).is_some_and(|rest| rest.ends_with('.'))
    };
    Some(catalog.types().any(|served| {
        let group = &*served.group_resource.group;
        group.contains('.') && (is_in(group, domain) || is_in(domain, group))
    }))
}
