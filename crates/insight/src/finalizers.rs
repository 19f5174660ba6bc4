//! What finalizers are for, who set them, who removes them, and what a person can do about them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::advice::{Advice, in_shell, is_plain};
use crate::knowledge::{Details, FinalizerSetter};
use crate::name::ObjectName;
use crate::sentence::counted;
use kube_gc_core::object::{Catalog, FOREGROUND_FINALIZER, GroupResource, Identity};
use kube_gc_core::text::{LISTED, listed, word};

/// Well-known finalizers: a name, in which `*` at one end stands for any text; the resources that they are for, or `-`
/// if not all are known; who removes it; when, and what has to be there for that, if the same deletion can take it
/// along; and a group of the API that is served as long as
/// that one is installed, or `-` if no group tells. The first row that fits counts. Above each is the repository
/// and the file that removes it: an operator acts on this in an outage, so what no source says is not here.
const KNOWN: &[&str] = &[
    // kubernetes/kubernetes: pkg/controller/garbagecollector/garbagecollector.go, processDeletingDependentsItem
    "foregroundDeletion: -: the garbage collector: no dependent blocks the deletion any more: -",
    // The same file: attemptToOrphanWorker
    "orphan: -: the garbage collector: the object has been deleted and no dependent names it any more: -",
    // kubernetes/kubernetes: pkg/controller/namespace/deletion/namespaced_resources_deleter.go, Delete
    "kubernetes: the spec of namespaces: the namespace controller of kube-controller-manager: the namespace has no objects left: -",
    // kubernetes/kubernetes: pkg/controller/volume/pvcprotection/pvc_protection_controller.go, podUsesPVC
    "kubernetes.io/pvc-protection: persistentvolumeclaims: kube-controller-manager or a collector with --remove-protection-finalizers: no pod uses the claim any more: -",
    // kubernetes/kubernetes: pkg/controller/volume/pvprotection/pv_protection_controller.go, isBeingUsed
    "kubernetes.io/pv-protection: persistentvolumes: kube-controller-manager or a collector with --remove-protection-finalizers: the volume is no longer bound to a claim: -",
    // kubernetes/cloud-provider: controllers/service/controller.go, syncLoadBalancerIfNeeded
    "service.kubernetes.io/load-balancer-cleanup: services: the service controller of the cloud provider: the load balancer has been removed: -",
    // kubernetes/kubernetes: pkg/controller/job/job_controller.go, syncOrphanPod and trackJobStatusAndRemoveFinalizers
    "batch.kubernetes.io/job-tracking: pods: the job controller of kube-controller-manager: the pod has been counted in the status of its job, or the job is gone or finished: -",
    // kubernetes/apiextensions-apiserver: pkg/controller/finalizer/crd_finalizer.go, deleteInstances
    "customresourcecleanup.apiextensions.k8s.io: customresourcedefinitions.apiextensions.k8s.io: the API server: all objects of the custom resource are gone: -",
    // kubernetes/kubernetes: pkg/controller/resourceclaim/controller.go, syncClaim
    "resource.kubernetes.io/delete-protection: resourceclaims.resource.k8s.io: kube-controller-manager: no pod uses the resource claim any more: -",
    // kubernetes-csi/external-attacher: pkg/controller/util.go, markAsDetached; csi_handler.go of volumes
    "external-attacher/*: persistentvolumes or volumeattachments.storage.k8s.io: the external-attacher of the CSI driver: the volume has been detached: -",
    // kubernetes-sigs/sig-storage-lib-external-provisioner: controller/controller.go, shouldDelete
    "external-provisioner.volume.kubernetes.io/finalizer: persistentvolumes: the provisioner of the volume: its claim is gone and the storage behind it has been deleted, or its reclaim policy is not Delete: -",
    // kubernetes-csi/external-snapshotter: pkg/common-controller/snapshot_controller.go, isPVCBeingUsed
    "snapshot.storage.kubernetes.io/pvc-as-source-protection: persistentvolumeclaims: the CSI snapshot controller: every snapshot of the claim is ready or gone: snapshot.storage.k8s.io",
    // The same file: checkandRemoveSnapshotFinalizersAndCheckandDeleteContent
    "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection: volumesnapshots.snapshot.storage.k8s.io: the CSI snapshot controller: no claim is being created from the snapshot, and no group snapshot has it any more: snapshot.storage.k8s.io",
    // kubernetes-sigs/aws-load-balancer-controller: controllers/elbv2/targetgroupbinding_controller.go
    "elbv2.k8s.aws/resources: -: the AWS Load Balancer Controller: the targets and the network rules for them have been removed: elbv2.k8s.aws",
    // kubernetes-sigs/aws-load-balancer-controller: controllers/service/service_controller.go
    "service.k8s.aws/resources: services: the AWS Load Balancer Controller: the load balancer has been removed: elbv2.k8s.aws",
    // kubernetes-sigs/aws-load-balancer-controller: controllers/ingress/group_controller.go, reconcile
    "ingress.k8s.aws/resources: ingresses.networking.k8s.io or ingresses.extensions: the AWS Load Balancer Controller: the load balancer has been removed: elbv2.k8s.aws",
    "group.ingress.k8s.aws/*: ingresses.networking.k8s.io or ingresses.extensions: the AWS Load Balancer Controller: the load balancer of its group has been changed (an Ingress of the group that is invalid prevents that): elbv2.k8s.aws",
    // kubernetes/ingress-gce: pkg/sync/sync.go, GC
    "networking.gke.io/ingress-finalizer*: -: the Ingress controller of GKE: the load balancer has been removed: -",
    // kubernetes/ingress-gce: pkg/neg/manager.go, processNEGDeletionCandidate
    "networking.gke.io/neg-finalizer: -: the NEG controller of GKE: the network endpoint groups have been deleted: -",
    // argoproj/argo-cd: controller/appcontroller.go, finalizeApplicationDeletion and finalizeProjectDeletion;
    // applicationset/controllers/applicationset_controller.go
    "resources-finalizer.argocd.argoproj.io*: applications.argoproj.io or appprojects.argoproj.io or applicationsets.argoproj.io: Argo CD: the Application's resources have been deleted (this needs its AppProject: if that is gone, nobody removes the finalizer), the AppProject has no Application left, or the ApplicationSet's ordered deletion has ended: argoproj.io",
    // fluxcd/kustomize-controller: internal/controller/kustomization_controller.go, finalize; other controllers of
    // Flux use the same name
    "finalizers.fluxcd.io: -: the Flux controller of this kind: its clean-up has succeeded: toolkit.fluxcd.io",
    // argoproj/argo-workflows: workflow/controller/artifact_gc.go, processArtifactGCCompletion
    "workflows.argoproj.io/artifact-gc: workflows.argoproj.io: the Argo workflow controller: the artifacts of the workflow have been deleted (by pods in its namespace: if that is being deleted, none can start): argoproj.io",
    // kubernetes-sigs/cluster-api: core/reconcilers/machine/machine_controller.go, Reconcile and reconcileDelete
    "machine.cluster.x-k8s.io: machines.cluster.x-k8s.io: a controller of Cluster API: the node has been drained and its infrastructure deleted (which needs the Cluster: if that is gone, nobody removes the finalizer): cluster.x-k8s.io",
    // crossplane/crossplane-runtime: pkg/reconciler/managed/reconciler.go, Reconcile
    "finalizer.managedresource.crossplane.io: -: the Crossplane provider of this kind: no other finalizer is left and the external resource has been deleted, or its policies keep that: -",
    // cert-manager/cert-manager: pkg/controller/acmechallenges/sync.go, finalize; pkg/issuer/acme/dns/dns.go, CleanUp
    "finalizer.acme.cert-manager.io: -: cert-manager: the challenge has been cleaned up, which for DNS needs the credentials of its solver: cert-manager.io",
    "acme.cert-manager.io/finalizer: -: cert-manager: the challenge has been cleaned up, which for DNS needs the credentials of its solver: cert-manager.io",
    // rancher/wrangler: pkg/generic/remove.go, sync
    "wrangler.cattle.io/*: -: the controller that its name tells, of Rancher or built with its libraries: its clean-up has succeeded: cattle.io",
    // rancher/norman: lifecycle/object.go, finalize
    "controller.cattle.io/*: -: the Rancher controller that its name tells: its clean-up has succeeded: cattle.io",
    "clusterscoped.controller.cattle.io/*: -: the Rancher controller that its name tells: its clean-up has succeeded: cattle.io",
    // vmware-tanzu/velero: pkg/controller/restore_controller.go, deleteExternalResources
    "restores.velero.io/external-resources-finalizer: restores.velero.io: Velero: the files of the restore have been deleted from its backup storage, or its backup is gone: velero.io",
    // rook/rook: pkg/operator/ceph/object/controller.go and others; controller/controller_utils.go, IsReadyToReconcile
    "*.ceph.rook.io: -: the Rook operator: the Ceph resource has been removed, which needs that nothing depends on it and that Ceph is healthy, or the CephCluster is gone: ceph.rook.io",
    // kubernetes-sigs/karpenter: pkg/controllers/node/termination/controller.go; nodeclaim/lifecycle/controller.go
    "karpenter.sh/termination: -: Karpenter: the node has been drained and its instance terminated: karpenter.sh",
    // tektoncd/chains: pkg/reconciler/taskrun/taskrun.go and pipelinerun/pipelinerun.go, FinalizeKind
    "chains.tekton.dev*: -: Tekton Chains: the run has been signed, or was deleted before its end: tekton.dev",
    // kedacore/keda: controllers/keda/scaledobject_finalizer.go, finalizeScaledObject; others beside it
    "finalizer.keda.sh: -: the KEDA operator: its clean-up has succeeded: keda.sh",
    // kubevirt/kubevirt: pkg/virt-controller/watch/vmi/lifecycle.go
    "*foregroundDeleteVirtualMachine: -: virt-controller of KubeVirt: the virtual machine instance has ended, and its pods are gone: kubevirt.io",
    // nolar/kopf: docs/configuration.rst and docs/troubleshooting.rst
    "kopf.zalando.org/*: -: an operator that is built with kopf: its deletion handlers and daemons have ended: -",
    // strimzi/strimzi-kafka-operator: topic-operator/src/main/java/io/strimzi/operator/topic/BatchingTopicController.java
    "strimzi.io/topic-operator: kafkatopics.kafka.strimzi.io: Strimzi's topic operator: the topic has been deleted in Kafka (it runs in the Kafka cluster: if that is gone, nobody removes the finalizer): kafka.strimzi.io",
];

/// Who removes a well-known finalizer, when, and a group that is served as long as that one is installed.
type Known = (&'static str, &'static str, Option<&'static str>);

/// That of an object of a resource, or of the spec of a namespace; else the resources that the finalizer is for.
fn known(name: &str, of: Option<&GroupResource>) -> Option<Result<Known, &'static str>> {
    KNOWN.iter().find_map(|row| {
        let (pattern, rest) = row.split_once(": ")?;
        let (resources, rest) = rest.split_once(": ")?;
        let (remover, rest) = rest.split_once(": ")?;
        let (when, group) = rest.rsplit_once(": ")?;
        let fits = match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
            (Some(end), _) => name.ends_with(end),
            (_, Some(begin)) => name.starts_with(begin),
            (None, None) => name == pattern,
        };
        let is_for = |of: &GroupResource| resources.split(" or ").any(|one| one == of.to_string());
        let is_of_it = resources == "-" || of.is_some_and(is_for);
        let known = (remover, when, Some(group).filter(|group| *group != "-"));
        fits.then_some(if is_of_it { Ok(known) } else { Err(resources) })
    })
}

/// A finalizer of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FinalizerReport {
    pub name: String,
    /// Who removes it, if it is well-known.
    pub remover: Option<Cow<'static, str>>,
    /// When it is removed, if it is well-known.
    pub when: Option<Cow<'static, str>>,
    /// Who set it, as far as `managedFields` say.
    pub set_by: Option<FinalizerSetter>,
    /// Whether an API is served of whoever removes it; `null` if no API tells.
    pub api_is_served: Option<bool>,
    /// It is in the spec of a namespace.
    #[serde(default)]
    pub in_spec: bool,
    /// It is well-known, and only of these other resources.
    #[serde(skip)]
    pub is_for: Option<&'static str>,
}

impl FinalizerReport {
    /// `finalizer a`, or `finalizers a, b`.
    pub fn names<'a>(finalizers: impl IntoIterator<Item = &'a Self>) -> String {
        let names: Vec<&str> = finalizers.into_iter().map(|finalizer| finalizer.name.as_str()).collect();
        let what = if names.len() == 1 { "finalizer" } else { "finalizers" };
        format!("{what} {}", listed(", ", names.len(), &names))
    }

    /// The finalizers of an object.
    pub fn of(object: &Identity, details: &Details, catalog: &Catalog) -> Vec<Self> {
        let reports = details.finalizers.iter().map(|name| {
            let set_by = details.setters.iter().find(|setter| setter.finalizer == *name).cloned();
            Self { set_by, ..Self::named(name, Some(&object.resource.group_resource), catalog) }
        });
        reports.collect()
    }

    /// What its name tells on an object of a resource, or in the spec of a namespace.
    pub(super) fn named(name: &str, of: Option<&GroupResource>, catalog: &Catalog) -> Self {
        let row = known(name, of);
        let known = row.and_then(Result::ok);
        let group = known.map_or_else(|| domain(name), |(_, _, group)| group);
        Self {
            name: word(name).to_string(),
            remover: known.map(|(remover, ..)| remover.into()),
            when: known.map(|(_, when, _)| when.into()),
            api_is_served: group.and_then(|group| is_served(group, catalog)),
            is_for: row.and_then(Result::err),
            ..Self::default()
        }
    }

    /// Whether a controller of Kubernetes removes it by itself, perhaps at once.
    pub(super) fn is_of_kubernetes(&self) -> bool {
        self.remover.as_ref().is_some_and(|remover| remover.contains("kube-controller-manager"))
    }

    /// Whether it is removed by what is no part of Kubernetes: no API shows whether that runs.
    fn is_of_others(&self) -> bool {
        let own = matches!(self.remover.as_deref(), None | Some("the garbage collector" | "the API server"));
        !own && !self.is_of_kubernetes()
    }

    /// Who removes it, and as soon as what, if that is known. No answer shows that it runs.
    pub fn removal(&self, removes: &str) -> Option<String> {
        let (remover, when) = self.remover.as_ref().zip(self.when.as_ref())?;
        let runs = match &**remover {
            "the garbage collector" => ", if one runs,",
            _ if self.is_of_others() => ", if it runs,",
            _ => "",
        };
        Some(format!("{remover}{runs}{removes} as soon as {when}"))
    }

    /// What a person can do about it, and how to remove it by hand from this object, one of so many, where perhaps
    /// nobody else will.
    pub(super) fn advice(&self, of: &ObjectName, count: usize) -> Vec<Advice> {
        let Self { name, api_is_served, in_spec, is_for, .. } = self;
        let place = if *in_spec { " in the spec" } else { "" };
        let mut advice = format!("Finalizer {name}{place}: {}", self.remedy());
        if *name == FOREGROUND_FINALIZER {
            advice.push_str(&format!(" `explain` of {of} says which do."));
        }
        if *in_spec {
            advice.push_str(
                " As soon as no finalizer is left in its spec and its metadata, a namespace that is being deleted goes, and \
                 what is still in it stays in the store.",
            );
        }
        let is_alone = *api_is_served == Some(false) || is_for.is_some() || self.is_of_others();
        let command = (is_alone && !in_spec).then(|| self.by_hand(of)).flatten();
        let by_hand = format!(
            "Removing {name} by hand skips its clean-up, and an object without other finalizers then goes, with what it \
             alone owns (`plan` names that). If nothing is left to clean up"
        );
        let by_hand = command.map(|command| Advice::from(by_hand).with(command, count));
        std::iter::once(advice.into()).chain(by_hand).collect()
    }

    /// The same about the first of several, each of an object, one of so many.
    pub(super) fn advice_on_all(all: &[(&Self, &ObjectName, usize)]) -> Vec<Advice> {
        let first = all.iter().take(LISTED);
        let mut advice: Vec<Advice> =
            first.flat_map(|(finalizer, of, count)| finalizer.advice(of, *count)).collect();
        let rest = all.len().saturating_sub(LISTED);
        advice.extend((rest > 0).then(|| format!("And {}.", counted(rest, "more finalizer")).into()));
        advice
    }

    /// Who removes it, or who may know.
    fn remedy(&self) -> String {
        let Self { name, set_by, .. } = self;
        if let Some(resources) = self.is_for {
            return format!("it is for {resources}, so probably nobody removes it from anything else.");
        }
        let not_served = self.api_is_served == Some(false);
        if let Some(removal) = self.removal(" removes it") {
            let but = match (self.is_of_others(), not_served) {
                (_, true) => " But the server has none of its APIs: is it still installed?",
                (true, false) => " Is it still there?",
                (false, false) => "",
            };
            return format!("{removal}.{but}");
        }
        let whose = domain(name).unwrap_or(name);
        match set_by.as_ref().map(|setter| (&setter.manager, is_a_tool(&setter.manager))) {
            Some((tool, true)) if not_served => format!(
                "it was set with {tool}, and no installed API belongs to {whose}, so probably nobody removes it."
            ),
            Some((tool, true)) => format!(
                "it was set with {tool}, which does not remove it. Look at the controller of {whose}."
            ),
            Some((manager, false)) if not_served => format!(
                "{manager} set it, and the server has no API of its domain. Is that controller still installed?"
            ),
            Some((manager, false)) => format!("look at {manager}, which set it."),
            None if not_served => {
                "the server has no API of its domain. Is its controller still installed?".to_owned()
            }
            None => "look at the controller that sets it.".to_owned(),
        }
    }

    /// The command that removes it, and only it, whatever its place in the list of the object.
    fn by_hand(&self, of: &ObjectName) -> Option<String> {
        let (name, uid) = (&self.name, &of.uid);
        let words = in_shell(of).filter(|_| is_plain(name))?;
        // Another object may have the name by then. Only the list goes through jq, which changes large numbers.
        Some(format!(
            "kubectl patch {words} --type=json -p \"$(kubectl get {words} -o json | jq -c \
             '.metadata.finalizers|index(\"{name}\") as $i|\"/metadata/finalizers/\\($i)\" as $path|\
             [{{op:\"test\",path:\"/metadata/uid\",value:\"{uid}\"}},\
             {{op:\"test\",$path,value:\"{name}\"}},{{op:\"remove\",$path}}]')\""
        ))
    }
}

/// Whether a field manager applies what people have written. It is no controller of the finalizers in that.
fn is_a_tool(manager: &str) -> bool {
    let manager = manager.to_ascii_lowercase();
    let is_of =
        |tool: &str| manager.strip_prefix(tool).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
    !manager.ends_with("-operator")
        && ["kubectl", "helm", "argocd", "kustomize-controller", "before-first-apply"].into_iter().any(is_of)
}

/// Whether objects of a type have such a finalizer, so one that was not read may be that.
pub(super) fn is_protected(resource: &GroupResource) -> bool {
    match &*resource.group {
        "" => matches!(&*resource.resource, "persistentvolumeclaims" | "persistentvolumes" | "pods"),
        "resource.k8s.io" => &*resource.resource == "resourceclaims",
        _ => false,
    }
}

/// The domain in a finalizer's name, if an API can tell of it. Controllers of Kubernetes need no API of theirs, and
/// a group in the domain of all its projects is one of any.
fn domain(finalizer: &str) -> Option<&str> {
    let domain = finalizer.split('/').next().filter(|domain| domain.contains('.'))?;
    let is_of_all = is_in(domain, "kubernetes.io") || matches!(domain, "k8s.io" | "x-k8s.io");
    (!is_of_all).then_some(domain)
}

fn is_in(inner: &str, outer: &str) -> bool {
    inner == outer || inner.strip_suffix(outer).is_some_and(|rest| rest.ends_with('.'))
}

/// Whether a group of a domain is served; `None` if one that does not answer may be.
fn is_served(domain: &str, catalog: &Catalog) -> Option<bool> {
    // Kubernetes itself serves the groups above those of its projects.
    let is_above = |group: &str| is_in(domain, group) && !is_in(group, "k8s.io");
    let fits = |group: &str| group.contains('.') && (is_in(group, domain) || is_above(group));
    if catalog.types().any(|served| fits(&served.group_resource.group)) {
        return Some(true);
    }
    (!catalog.unread().any(fits)).then_some(false)
}
