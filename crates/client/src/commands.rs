//! What commands ask for: single objects with what the graph does not keep, their tables, and pods with a
//! label.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::Deserialize;
use serde_json::Value;

use super::call::{Answer, Call, JSON, list_accept};
use super::client::Api;
use super::error::{ApiError, ErrorClass};
use super::read::read_object;
use super::settings::Verb;
use kube_gc_core::object::{
    GroupResource, Identity, Key, Namespace, ObjectFacts, ResourceType, ResourceVersion, Scope,
};
use kube_gc_core::text::{bounded, word};
use kube_gc_decode::Encoding;
use kube_gc_insight::{
    AbsenceEvidence, Details, FinalizerSetter, Live, LiveObject, NamespaceCondition, NodeState, ObjectName,
    Particulars, Unseen,
};

/// The most finalizers of an object that are read.
const MOST_FINALIZERS: usize = 64;
/// The manager that the API server writes down for a client that does not name itself.
const UNNAMED_MANAGER: &str = "unknown";
/// The most conditions of a namespace that are read.
const MOST_CONDITIONS: usize = 16;

impl Api {
    /// What a live read of exactly this identity shows. Failures are part of the answer.
    pub async fn read_live(&self, identity: &Identity) -> Live {
        match self.read_named(&identity.resource, identity.namespace.as_ref(), &identity.name).await {
            Ok(Some(object)) if object.facts.uid == identity.uid => Live::Found(Box::new(object)),
            Ok(Some(object)) => Live::Absent(AbsenceEvidence::OtherUid(object.facts.uid)),
            Ok(None) => Live::Absent(AbsenceEvidence::NotFound),
            Err(error) if error.class == ErrorClass::Denied && error.code == Some(403) => {
                Live::Failed(format!("not allowed to get {} (403)", identity.resource.group_resource))
            }
            Err(error) => Live::Failed(bounded(&error)),
        }
    }

    /// Reads an object by its name; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// The answer is neither the object nor proof of its absence.
    pub async fn read_named(
        &self,
        resource: &ResourceType,
        namespace: Option<&Namespace>,
        name: &str,
    ) -> Result<Option<LiveObject>, ApiError> {
        let call = Call::named(Verb::Get, resource, namespace.map(Namespace::as_str), name)?;
        let call = if has_particulars(resource) { call.accepting(JSON) } else { call };
        let Some(answer) = ApiError::unless_absent(self.call(call).await)? else { return Ok(None) };
        let facts = read_object(namespace, name, &answer)?;
        Ok(Some(LiveObject { facts, details: details(resource, &answer)? }))
    }

    /// All pods that use a claim.
    ///
    /// # Errors
    ///
    /// The pods cannot be listed, or are too many.
    pub async fn pods_that_use(&self, claim: &Identity) -> Result<Vec<ObjectName>, ApiError> {
        let pods = ResourceType::of("pods", "v1", "Pod", Scope::Namespaced);
        let namespace = claim.namespace.as_ref().map(Namespace::as_str);
        let text = |value: &Value| word(value.as_str().unwrap_or_default()).to_string();
        let (mut names, mut next, mut pages) = (Vec::new(), String::new(), 0);
        loop {
            let call =
                Call::list(&pods, namespace, JSON).with("limit", PAGE_OF_USERS).with("continue", &next);
            let answer = Box::pin(self.call(call)).await?;
            let list: Value = answer.json()?;
            let users = each(&list["items"]).filter(|pod| claims_of(pod).any(|used| used == *claim.name));
            names.extend(users.map(|pod| ObjectName {
                api_version: "v1".to_owned(),
                kind: "Pod".to_owned(),
                resource: Some("pods".to_owned()),
                namespace: claim.namespace.as_ref().map(Namespace::to_string),
                name: text(&pod["metadata"]["name"]),
                uid: text(&pod["metadata"]["uid"]),
            }));
            next = list["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
            pages += 1;
            match pages {
                _ if next.is_empty() => return Ok(names),
                MOST_PAGES_OF_USERS => return Err(answer.unusable("there are more pods than are looked at")),
                _ => {}
            }
        }
    }
}

/// The most claims of a pod that are looked at.
const MOST_CLAIMS: usize = 64;
/// How many pods of a namespace are listed at a time, and how often, to find the users of a claim.
const PAGE_OF_USERS: &str = "500";
const MOST_PAGES_OF_USERS: usize = 10;

/// The claims that a pod uses, its own ephemeral ones included: none until it is bound to a node, because a
/// kubelet starts no pod with a claim that is being deleted.
pub(super) fn claims_of(pod: &Value) -> impl Iterator<Item = String> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let is_bound = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    each(&pod["spec"]["volumes"]).filter(move |_| is_bound).filter_map(move |volume| {
        let own = || format!("{name}-{}", volume["name"].as_str().unwrap_or_default());
        let claim = volume["persistentVolumeClaim"]["claimName"].as_str().map(str::to_owned);
        claim.or_else(|| volume["ephemeral"].is_object().then(own))
    })
}

impl Api {
    /// What goes with the object at this place of those that are deleted, though it owns nothing of that: the pods of
    /// a node, or the claims that a pod frees. Or what could not be looked at.
    pub async fn goes_with(&self, all: &[Identity], place: usize) -> (Vec<(usize, Key)>, Option<Unseen>) {
        let of = &all[place];
        let (what, found) = match &*of.resource.group_resource.to_string() {
            "nodes" => ("pods of the node", self.pods_on(of).await),
            "pods" => ("claims of the pod", self.freed_by(all, of).await),
            _ => return (Vec::new(), None),
        };
        match found {
            Ok(keys) => (keys.into_iter().map(|key| (place, key)).collect(), None),
            Err(error) => (Vec::new(), Some(Unseen { what: what.to_owned(), why: bounded(&error) })),
        }
    }

    async fn pods_on(&self, node: &Identity) -> Result<Vec<Key>, ApiError> {
        let (mut pods, resource) = (Vec::new(), ResourceType::of("pods", "v1", "Pod", Scope::Namespaced));
        let selector = ("fieldSelector", &*format!("spec.nodeName={}", node.name));
        let visit = |ObjectFacts { uid, namespace, .. }| {
            pods.push(Key { uid, resource: Arc::clone(&resource), namespace });
        };
        self.list(&resource, None, Some(selector), visit).await?;
        Ok(pods)
    }

    /// The claims that are being deleted, that nothing but their use holds, and that only these pods use.
    async fn freed_by(&self, pods: &[Identity], pod: &Identity) -> Result<Vec<Key>, ApiError> {
        let resource =
            ResourceType::of("persistentvolumeclaims", "v1", "PersistentVolumeClaim", Scope::Namespaced);
        let (namespace, mut freed) = (&pod.namespace, Vec::new());
        let pod: Value = Box::pin(self.call(Call::object(Verb::Get, pod)?.accepting(JSON))).await?.json()?;
        for name in claims_of(&pod).take(MOST_CLAIMS) {
            let claim = Box::pin(self.read_named(&resource, namespace.as_ref(), &name)).await?;
            let is_held = |of: &LiveObject| of.details.finalizers == ["kubernetes.io/pvc-protection"];
            let Some(live) = claim.filter(|of| of.facts.being_deleted && is_held(of)) else { continue };
            let (resource, namespace, uid) = (Arc::clone(&resource), namespace.clone(), live.facts.uid);
            let claim = Identity { resource, namespace, name: name.into(), uid };
            let goes = |user: &ObjectName| pods.iter().any(|pod| user.uid == ObjectName::from(pod).uid);
            if self.pods_that_use(&claim).await?.iter().all(goes) {
                freed.push(claim.key());
            }
        }
        Ok(freed)
    }

    /// The names of the first objects of a type, without more requests than one.
    ///
    /// # Errors
    ///
    /// They cannot be listed.
    pub async fn first_names(
        &self,
        resource: &ResourceType,
        namespace: Option<&Namespace>,
        limit: u32,
    ) -> Result<Vec<String>, ApiError> {
        let call = Call::list(resource, namespace.map(Namespace::as_str), list_accept(Encoding::Json));
        let answer = Box::pin(self.call(call.with("limit", &limit.to_string()))).await?;
        let list: Value = answer.json()?;
        let names = each(&list["items"]).filter_map(|item| item["metadata"]["name"].as_str());
        Ok(names.map(str::to_owned).collect())
    }
}

/// The elements of a list; none if there is no list.
pub(super) fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Whether the whole objects of a type say why they are still there.
fn has_particulars(resource: &ResourceType) -> bool {
    let GroupResource { group, resource } = &resource.group_resource;
    matches!(
        (&**group, &**resource),
        ("", "namespaces" | "nodes" | "persistentvolumeclaims" | "persistentvolumes" | "pods")
            | ("apiextensions.k8s.io", "customresourcedefinitions")
    )
}

/// What only the whole object says.
fn particulars(resource: &ResourceType, spec: &Value, status: &Value) -> Particulars {
    let text =
        |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(|text| word(text).to_string());
    let of_type = &*resource.group_resource.resource;
    match of_type {
        _ if !has_particulars(resource) => Particulars::None,
        "pods" => Particulars::Pod { node: text(&spec["nodeName"]) },
        "nodes" => {
            let ready = each(&status["conditions"]).find(|of| of["type"] == "Ready");
            let state =
                |of: &Value| if of["status"] == "True" { NodeState::Ready } else { NodeState::Unready };
            Particulars::Node(ready.map_or(NodeState::Unknown, state))
        }
        "persistentvolumeclaims" => Particulars::Claim { volume: text(&spec["volumeName"]) },
        "persistentvolumes" => {
            let claim = &spec["claimRef"];
            let is_bound = status["phase"] == "Bound";
            let claim = text(&claim["namespace"]).zip(text(&claim["name"])).filter(|_| is_bound);
            Particulars::Volume { claim, reclaim: text(&spec["persistentVolumeReclaimPolicy"]) }
        }
        _ => {
            let finalizers = each(&spec["finalizers"]).filter_map(text).take(MOST_FINALIZERS);
            // Of a definition, others say nothing of its deletion, and this only if that does not go on.
            let fails =
                |of: &Value| of["type"] == "Terminating" && of["reason"] != "InstanceDeletionInProgress";
            let matters = |of: &&Value| of["status"] == "True" && (of_type == "namespaces" || fails(of));
            let conditions = each(&status["conditions"]).filter(matters);
            let conditions = conditions.take(MOST_CONDITIONS).map(|condition| NamespaceCondition {
                kind: text(&condition["type"]).unwrap_or_default(),
                message: bounded(condition["message"].as_str().unwrap_or_default()),
            });
            Particulars::Container { finalizers: finalizers.collect(), conditions: conditions.collect() }
        }
    }
}

/// What the graph does not keep.
fn details(resource: &ResourceType, answer: &Answer) -> Result<Details, ApiError> {
    #[derive(Deserialize)]
    struct Object {
        metadata: ObjectMeta,
        #[serde(default)]
        spec: Value,
        #[serde(default)]
        status: Value,
    }
    let Object { metadata, spec, status } = answer.json()?;
    let time = |time: Time| time.0.to_string();
    let mut finalizers = metadata.finalizers.unwrap_or_default();
    finalizers.truncate(MOST_FINALIZERS);
    let writes = metadata.managed_fields.unwrap_or_default().into_iter().filter_map(|entry| {
        let manager = entry.manager.filter(|name| !name.is_empty() && name != UNNAMED_MANAGER)?;
        let fields = entry.fields_v1.unwrap_or_default().0;
        let owned = fields["f:metadata"]["f:finalizers"].as_object().into_iter().flatten();
        let owned = owned.filter_map(|(key, _)| serde_json::from_str(key.strip_prefix("v:")?).ok());
        Some((word(&manager).to_string(), entry.time.map(time), owned.collect::<Vec<String>>()))
    });
    let writes: Vec<_> = writes.collect();
    let setter = |finalizer: &String| {
        let (manager, at, _) = writes.iter().find(|(_, _, owned)| owned.contains(finalizer))?;
        Some(FinalizerSetter { finalizer: finalizer.clone(), manager: manager.clone(), time: at.clone() })
    };
    let setters = finalizers.iter().filter_map(setter).collect();
    // The server puts the end of the grace period there.
    let grace = u32::try_from(metadata.deletion_grace_period_seconds.unwrap_or_default()).unwrap_or_default();
    let before = |end: Time| Time(end.0.checked_sub(Duration::from_secs(grace.into())).unwrap_or(end.0));
    let deleted = metadata.deletion_timestamp.map(before);
    Ok(Details {
        read: Some(answer.at().to_string()),
        deleted: deleted.map(time),
        grace: grace.into(),
        finalizers,
        setters,
        particulars: particulars(resource, &spec, &status),
    })
}

/// The most pods that a search for a label returns.
const MOST_PODS: usize = 100;

/// A pod, and whether requests to it make sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelledPod {
    pub namespace: String,
    pub name: String,
    /// Its containers run, and it is not being deleted.
    pub runs: bool,
    /// All its containers say that they are ready.
    pub ready: bool,
    /// The port that a container calls `debug`.
    pub debug_port: Option<u16>,
}

impl Api {
    /// The first pods of a namespace with a label.
    ///
    /// # Errors
    ///
    /// The pods cannot be listed.
    pub async fn pods_labelled(&self, namespace: &str, label: &str) -> Result<Vec<LabelledPod>, ApiError> {
        let pods = ResourceType::of("pods", "v1", "Pod", Scope::Namespaced);
        let call = Call::list(&pods, Some(namespace), JSON)
            .with("limit", &MOST_PODS.to_string())
            .with("labelSelector", label);
        let answer = Box::pin(self.call(call)).await?;
        let list: Value = answer.json()?;
        let pods = list.get("items").and_then(Value::as_array);
        let pods = pods.and_then(|pods| pods.iter().take(MOST_PODS).map(LabelledPod::of).collect());
        pods.ok_or_else(|| answer.unusable("it is no list of pods with names"))
    }
}

impl LabelledPod {
    /// `None` if it has no name.
    fn of(pod: &Value) -> Option<Self> {
        let mut ports = each(&pod["spec"]["containers"]).flat_map(|container| each(&container["ports"]));
        let debug = ports.find(|port| port["name"] == "debug");
        let is_ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
        let metadata = &pod["metadata"];
        Some(Self {
            namespace: metadata["namespace"].as_str()?.to_owned(),
            name: metadata["name"].as_str()?.to_owned(),
            runs: pod["status"]["phase"] == "Running" && metadata["deletionTimestamp"].is_null(),
            ready: each(&pod["status"]["conditions"]).any(is_ready),
            debug_port: debug.and_then(|port| u16::try_from(port["containerPort"].as_u64()?).ok()),
        })
    }
}

/// A table with one row, or else the object.
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json";
/// The most columns of a table that are read.
const MOST_COLUMNS: usize = 64;

impl Api {
    /// The cells of an object's row in the server's own table, each with the name of its column.
    /// Empty if the server has no table for it.
    ///
    /// With a version, the row is at least as new, and may come from the server's cache. For the
    /// server, this is a third of the work of a read from its store.
    ///
    /// # Errors
    ///
    /// The object cannot be read.
    pub async fn table_row(
        &self,
        identity: &Identity,
        at_least: Option<&ResourceVersion>,
    ) -> Result<Vec<(String, String)>, ApiError> {
        let mut call = Call::object(Verb::Get, identity)?.with("includeObject", "None").accepting(TABLE);
        if let Some(version) = at_least {
            call = call.with("resourceVersion", &version.to_string());
        }
        let table: Value = self.call(call).await?.json()?;
        if table["kind"] != "Table" {
            return Ok(Vec::new());
        }
        let text = |cell: &Value| match cell {
            Value::String(text) => word(text).to_string(),
            Value::Null => String::new(),
            other => word(&other.to_string()).to_string(),
        };
        let columns = each(&table["columnDefinitions"]).map(|column| text(&column["name"]));
        let cells = each(&table["rows"][0]["cells"]).map(text);
        Ok(columns.zip(cells).take(MOST_COLUMNS).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Reply, Server, widget, widget_json};
    use kube_gc_core::object::Uid;

    #[tokio::test]
    async fn who_set_a_finalizer_is_in_the_managed_fields() {
        let metadata = r#","creationTimestamp":"2026-01-01T00:00:00Z","deletionTimestamp":"2026-01-02T00:00:00Z",
            "deletionGracePeriodSeconds":30,"finalizers":["example.com/a","other"],"managedFields":[
            {"manager":"backup","time":"2026-01-01T00:00:01Z","fieldsV1":{"f:metadata":{"f:finalizers":
            {".":{},"v:\"example.com/a\"":{}}}}},{"manager":"x","fieldsV1":{"f:spec":{}}},{},
            {"manager":"backup","subresource":"status","time":"2026-01-01T05:00:00Z","fieldsV1":{"f:status":{}}},
            {"manager":"backup","operation":"Apply","time":"2026-01-01T02:00:00Z","fieldsV1":{"f:data":{}}},
            {"manager":"x","time":"2026-01-01T06:00:00Z","fieldsV1":{"f:spec":{}}},
            {"manager":"unknown","fieldsV1":{"f:metadata":{"f:finalizers":{"v:\"other\"":{}}}}}]"#;
        // The server's clock counts, whatever the time is here.
        let reply = Reply::ok(widget_json(metadata)).header("date", "Fri, 02 Jan 2026 00:00:05 GMT");
        let server = Server::replying([reply]);
        let Live::Found(live) = server.api().read_live(&widget()).await else { panic!("not found") };
        let LiveObject { details, .. } = *live;
        assert_eq!((details.overdue(), details.grace), (Some(5), 30));
        assert_eq!(details.finalizers, ["example.com/a", "other"]);
        assert_eq!(details.deleted.as_deref(), Some("2026-01-01T23:59:30Z"));
        let [setter] = &details.setters[..] else { panic!("{details:?}") };
        assert_eq!((&*setter.finalizer, &*setter.manager), ("example.com/a", "backup"));
        assert_eq!(setter.time.as_deref(), Some("2026-01-01T00:00:01Z"));
    }

    #[tokio::test]
    async fn absence_needs_the_objects_own_404() {
        let read = async |reply| Server::replying([reply]).api().read_live(&widget()).await;
        assert_eq!(read(Reply::not_found()).await, Live::Absent(AbsenceEvidence::NotFound));
        let other = Reply::ok(widget_json("").replace(r#""uid":"u""#, r#""uid":"v""#));
        let evidence = AbsenceEvidence::OtherUid(Uid::parse("v").unwrap());
        assert_eq!(read(other).await, Live::Absent(evidence));
        for reply in [Reply::code(404, "404 page not found"), Reply::status(403, "no", "{}"), Reply::ok("{}")]
        {
            assert!(matches!(read(reply).await, Live::Failed(_)));
        }
    }

    #[tokio::test]
    async fn pods_are_found_by_their_label() {
        let list = r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[
            {"metadata":{"namespace":"a","name":"b"},"spec":{"containers":[{"ports":[{"name":"http","containerPort":1},
             {"name":"debug","containerPort":2}]},{}]},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}},
            {"metadata":{"namespace":"a","name":"c","deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{"phase":"Running"}}]}"#;
        let server = Server::replying([Reply::ok(list)]);
        let pods = server.api().pods_labelled("a", "x/y=z").await.unwrap();
        let pod = |name: &str, runs, debug_port| LabelledPod {
            namespace: "a".into(),
            name: name.into(),
            runs,
            ready: runs,
            debug_port,
        };
        assert_eq!(pods, [pod("b", true, Some(2)), pod("c", false, None)]);
        let server = Server::replying([Reply::ok(r#"{"kind":"Nothing"}"#)]);
        assert_eq!(server.api().pods_labelled("a", "x").await.unwrap_err().class, ErrorClass::Unusable);
    }

    #[tokio::test]
    async fn a_node_is_ready_or_not_if_a_condition_says_so() {
        let resource = ResourceType::of("nodes", "v1", "Node", Scope::Cluster);
        let uid = Uid::parse("u").unwrap();
        let node = Identity { resource, namespace: None, name: "n".into(), uid };
        for (conditions, state) in [
            (
                r#"{"type":"DiskPressure","status":"False"},{"type":"Ready","status":"True"}"#,
                NodeState::Ready,
            ),
            (r#"{"type":"Ready","status":"False"}"#, NodeState::Unready),
            (r#"{"type":"Ready","status":"Unknown"}"#, NodeState::Unready),
            ("", NodeState::Unknown),
        ] {
            let body = format!(
                r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"n","uid":"u","resourceVersion":"1"}},
                "status":{{"conditions":[{conditions}]}}}}"#
            );
            let server = Server::replying([Reply::ok(body)]);
            let Live::Found(live) = server.api().read_live(&node).await else { panic!("not found") };
            assert_eq!(live.details.particulars, Particulars::Node(state), "{conditions}");
        }
    }

    /// A claim goes with pods only if no other uses it.
    #[tokio::test]
    async fn the_pods_that_use_a_claim_are_on_all_pages() {
        let pod = |number: usize| {
            format!(
                r#"{{"metadata":{{"name":"p{number}","uid":"u{number}"}},"spec":{{"nodeName":"n","volumes":
                [{{"persistentVolumeClaim":{{"claimName":"w"}}}}]}}}}"#
            )
        };
        let page = |pods: std::ops::Range<usize>, next: &str| {
            let items = pods.map(pod).collect::<Vec<_>>().join(",");
            Reply::ok(format!(r#"{{"metadata":{{"continue":"{next}"}},"items":[{items}]}}"#))
        };
        let server = Server::replying([page(0..20, "a&"), page(20..21, "")]);
        let users = server.api().pods_that_use(&widget()).await.unwrap();
        assert_eq!((users.len(), &*users[20].uid), (21, "u20"));
        assert!(server.requests()[1].ends_with("continue=a%26"), "{:?}", server.requests());
        let server = Server::replying((0..20).map(|_| page(0..1, "more")));
        assert_eq!(server.api().pods_that_use(&widget()).await.unwrap_err().class, ErrorClass::Unusable);
        assert_eq!(server.requests().len(), 10);
    }

    #[tokio::test]
    async fn a_row_is_read_with_the_names_of_its_columns() {
        let table = r#"{"kind":"Table","columnDefinitions":[{"name":"Name","type":"string"},{"name":"Ready"},
            {"name":"Age"}],"rows":[{"cells":["w","1/1",4,"surplus"]}]}"#;
        let server = Server::replying([Reply::ok(table), Reply::ok(widget_json(""))]);
        let version = ResourceVersion::parse("7&");
        let row = server.api().table_row(&widget(), version.as_ref()).await.unwrap();
        let cells = [("Name", "w"), ("Ready", "1/1"), ("Age", "4")];
        assert_eq!(row, cells.map(|(name, cell)| (name.to_owned(), cell.to_owned())));
        assert_eq!(server.api().table_row(&widget(), None).await.unwrap(), []);
        let requests = server.requests();
        assert!(requests[0].ends_with("/w?includeObject=None&resourceVersion=7%26"));
        assert!(requests[1].ends_with("/w?includeObject=None"));
    }
}
