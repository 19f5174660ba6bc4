//! Answers of API servers in common shapes.

use crate::cluster::Random;

/// The number of items in a page.
pub const ITEMS: usize = 500;

/// The shape of the objects in a body.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// A ConfigMap with an annotation of 300 bytes and one managed-fields entry.
    ConfigMap,
    /// A Pod with labels, annotations, an owner, and two managed-fields entries.
    Pod,
}

impl Shape {
    /// All shapes.
    pub const ALL: [Self; 2] = [Self::ConfigMap, Self::Pod];

    /// The name of the shape.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMaps",
            Self::Pod => "pods",
        }
    }

    fn item(self, random: &mut Random, version: u64) -> String {
        match self {
            Self::ConfigMap => config_map(random, version),
            Self::Pod => pod(random, version),
        }
    }

    /// One page of a list.
    pub fn page(self) -> Vec<u8> {
        let mut random = Random(1);
        let items: Vec<String> = (0..ITEMS as u64).map(|at| self.item(&mut random, 5000 + at)).collect();
        format!(
            r#"{{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{{"resourceVersion":"9000","continue":"eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ","remainingItemCount":12}},"items":[{}]}}"#,
            items.join(",")
        )
        .into_bytes()
    }

    /// The body of a watch, with as many events as a page has items.
    pub fn watch(self) -> Vec<u8> {
        let mut random = Random(2);
        let event =
            |at| format!(r#"{{"type":"MODIFIED","object":{}}}"#, self.item(&mut random, 9000 + at)) + "\n";
        (0..ITEMS as u64).map(event).collect::<String>().into_bytes()
    }
}

fn config_map(random: &mut Random, version: u64) -> String {
    let (name, uid, note) = (random.suffix(5), random.uid(), random.suffix(300));
    format!(
        r#"{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{{"name":"settings-of-payments-{name}","namespace":"team-0042-production","uid":"{uid}","resourceVersion":"{version}","creationTimestamp":"2026-03-04T05:06:07Z","annotations":{{"example.com/note":"{note}"}},"managedFields":[{{"manager":"payments-operator","operation":"Update","apiVersion":"v1","time":"2026-03-04T05:06:07Z","fieldsType":"FieldsV1","fieldsV1":{{"f:data":{{".":{{}},"f:key":{{}}}},"f:metadata":{{"f:annotations":{{".":{{}},"f:example.com/note":{{}}}}}}}}}}]}}}}"#
    )
}

fn pod(random: &mut Random, version: u64) -> String {
    let (hash, tail) = (random.suffix(10), random.suffix(5));
    let (uid, owner, checksum) = (random.uid(), random.uid(), random.suffix(64));
    let set = format!("payments-backend-{hash}");
    format!(
        r#"{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{{"name":"{set}-{tail}","generateName":"{set}-","namespace":"team-0042-production","uid":"{uid}","resourceVersion":"{version}","creationTimestamp":"2026-03-04T05:06:07Z","labels":{{"app.kubernetes.io/name":"payments-backend","app.kubernetes.io/part-of":"payments","pod-template-hash":"{hash}"}},"annotations":{{"checksum/config":"{checksum}","kubectl.kubernetes.io/restartedAt":"2026-03-04T05:06:07Z","prometheus.io/scrape":"true"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"{set}","uid":"{owner}","controller":true,"blockOwnerDeletion":true}}],"managedFields":[{{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-03-04T05:06:07Z","fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:annotations":{{".":{{}},"f:checksum/config":{{}},"f:kubectl.kubernetes.io/restartedAt":{{}},"f:prometheus.io/scrape":{{}}}},"f:generateName":{{}},"f:labels":{{".":{{}},"f:app.kubernetes.io/name":{{}},"f:app.kubernetes.io/part-of":{{}},"f:pod-template-hash":{{}}}},"f:ownerReferences":{{".":{{}},"k:{{\"uid\":\"{owner}\"}}":{{".":{{}},"f:apiVersion":{{}},"f:blockOwnerDeletion":{{}},"f:controller":{{}},"f:kind":{{}},"f:name":{{}},"f:uid":{{}}}}}}}},"f:spec":{{"f:containers":{{"k:{{\"name\":\"backend\"}}":{{".":{{}},"f:env":{{".":{{}},"k:{{\"name\":\"MODE\"}}":{{".":{{}},"f:name":{{}},"f:value":{{}}}}}},"f:image":{{}},"f:imagePullPolicy":{{}},"f:name":{{}},"f:ports":{{".":{{}},"k:{{\"containerPort\":8080,\"protocol\":\"TCP\"}}":{{".":{{}},"f:containerPort":{{}},"f:protocol":{{}}}}}},"f:resources":{{}},"f:terminationMessagePath":{{}},"f:terminationMessagePolicy":{{}}}}}},"f:dnsPolicy":{{}},"f:enableServiceLinks":{{}},"f:restartPolicy":{{}},"f:schedulerName":{{}},"f:securityContext":{{}},"f:terminationGracePeriodSeconds":{{}}}}}}}},{{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"2026-03-04T05:06:09Z","fieldsType":"FieldsV1","fieldsV1":{{"f:status":{{"f:conditions":{{"k:{{\"type\":\"ContainersReady\"}}":{{".":{{}},"f:lastProbeTime":{{}},"f:lastTransitionTime":{{}},"f:status":{{}},"f:type":{{}}}},"k:{{\"type\":\"Ready\"}}":{{".":{{}},"f:lastProbeTime":{{}},"f:lastTransitionTime":{{}},"f:status":{{}},"f:type":{{}}}}}},"f:containerStatuses":{{}},"f:hostIP":{{}},"f:phase":{{}},"f:podIP":{{}},"f:podIPs":{{".":{{}},"k:{{\"ip\":\"10.1.2.3\"}}":{{".":{{}},"f:ip":{{}}}}}},"f:startTime":{{}}}}}},"subresource":"status"}}]}}}}"#
    )
}
