//! Requests that change something, or must be rejected.

use serde_json::{Value, json};

use super::{Generator, NO_UID, Planned};
use crate::request::{Body, Kind, Request, Step};
use crate::types::{CONFIG_MAPS, NAMESPACES, PODS, Type};

const MERGE: &str = "application/merge-patch+json";
const JSON: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

impl Generator {
    pub(super) fn create(&mut self) -> Planned {
        let of = self.some_type();
        let mut namespace = self.some_namespace(of);
        if of.namespaced && self.random.percent(6) {
            namespace = Some((*self.random.pick(&["<run>t", "<run>none", "<run>n0", "<run>n1"])).to_owned());
        }
        let mut name = self.name(of);
        let mut metadata = self.metadata(&name);
        if self.random.percent(12) {
            self.generated += 1;
            metadata["generateName"] = format!("<run>g{}-", self.generated).into();
            if self.random.percent(85) {
                metadata.as_object_mut().unwrap().remove("name");
                name = format!("<{}/metadata/name>", self.step);
            }
        }
        let mut object = of.object(metadata);
        if std::ptr::eq(of, &PODS) {
            if self.random.percent(50) {
                object["spec"]["nodeName"] = "somewhere".into();
            }
            if self.random.percent(30) {
                object["spec"]["terminationGracePeriodSeconds"] = (*self.random.pick(&[0, 10])).into();
            }
        }
        let mut request = Request::new(Kind::Create, "POST", of.collection(namespace.as_deref()));
        if self.random.percent(14) {
            request = self.spoilt_create(request, object, of);
            return (Step::Send(request), None);
        }
        let about = self.thing(of, namespace.as_deref(), &name);
        request = request.json(object);
        if self.random.percent(4) {
            request = request.with("dryRun", "All");
        }
        (Step::Send(request), Some(about))
    }

    fn spoilt_create(&mut self, request: Request, mut object: Value, of: &Type) -> Request {
        let metadata = &mut object["metadata"];
        match self.random.below(13) {
            0..4 => self.spoil(metadata),
            4 => metadata["name"] = "Bad_Name".into(),
            5 => metadata["name"] = "".into(),
            6 => metadata["resourceVersion"] = "5".into(),
            7 => metadata["namespace"] = "elsewhere".into(),
            8 => object["kind"] = (*self.random.pick(&["Secret", "Gizmo"])).into(),
            9 => object["apiVersion"] = (*self.random.pick(&["v7", "gizmos.example.com/v1"])).into(),
            10 => object["metadata"] = "text".into(),
            11 => return request.typed("application/json", Body::Text("{bad".to_owned())),
            _ => return request.typed("text/plain", Body::Text(of.kind.to_owned())),
        }
        request.json(object)
    }

    pub(super) fn update(&mut self, about: usize) -> Request {
        let path = self.things[about].path();
        let request = Request::new(Kind::Update, "PUT", path);
        let shown = self.things[about].shown.clone();
        // Sometimes a stale one.
        let stale = self.random.percent(15);
        let from = if stale { *self.random.pick(&shown) } else { shown[shown.len() - 1] };
        let mut metadata = self.changes(about);
        match self.random.below(12) {
            0 => metadata["uid"] = NO_UID.into(),
            1 => metadata["resourceVersion"] = (*self.random.pick(&["1", "0", "abc"])).into(),
            2 | 3 => metadata["resourceVersion"] = Value::Null,
            4 => match self.random.below(5) {
                0 => metadata["name"] = "another".into(),
                1 => metadata["namespace"] = "elsewhere".into(),
                2 => metadata["deletionTimestamp"] = "2020-01-01T00:00:00Z".into(),
                3 => metadata["deletionGracePeriodSeconds"] = 7.into(),
                _ => metadata["creationTimestamp"] = "2020-01-01T00:00:00Z".into(),
            },
            5 => self.spoil(&mut metadata),
            _ => {}
        }
        let mut changes = json!({ "metadata": metadata });
        match self.random.below(25) {
            0 => changes["kind"] = "Gizmo".into(),
            1 => return request.typed("application/json", Body::Text("{bad".to_owned())),
            2 => return request.typed("text/plain", Body::Text("x".to_owned())),
            _ => {}
        }
        let request = request.typed("application/json", Body::Answer(from, changes));
        if self.random.percent(4) { request.with("dryRun", "All") } else { request }
    }

    /// A valid change of metadata, as a merge patch.
    fn changes(&mut self, about: usize) -> Value {
        let thing = self.things[about].clone();
        match self.random.below(8) {
            0 | 1 => json!({ "labels": self.labels() }),
            2 => json!({ "ownerReferences": self.owners() }),
            3 => json!({ "ownerReferences": null }),
            4 => json!({ "finalizers": self.finalizers() }),
            5 => json!({ "finalizers": null }),
            _ if thing.finalizers.is_empty() => json!({ "finalizers": self.finalizers() }),
            _ => {
                let mut left = thing.finalizers;
                left.remove(self.random.below(left.len()));
                json!({ "finalizers": left })
            }
        }
    }

    pub(super) fn merge_patch(&mut self, about: usize) -> Request {
        let thing = self.things[about].clone();
        let mut request = Request::new(Kind::MergePatch, "PATCH", thing.path());
        let mut metadata = self.changes(about);
        self.preconditions(about, &mut metadata);
        if self.random.percent(8) {
            self.spoil(&mut metadata);
        }
        let mut patch = json!({ "metadata": metadata });
        match self.random.below(30) {
            0 => patch["kind"] = "Gizmo".into(),
            1 => patch["metadata"]["name"] = self.random.pick(&[Value::Null, "another".into()]).clone(),
            2 => patch["metadata"]["namespace"] = self.random.pick(&[Value::Null, "another".into()]).clone(),
            3 => patch["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z".into(),
            4 => patch["metadata"]["deletionTimestamp"] = Value::Null,
            5 => patch["metadata"]["deletionGracePeriodSeconds"] = 7.into(),
            6 => patch["metadata"]["generation"] = 77.into(),
            7 => patch["metadata"]["creationTimestamp"] = Value::Null,
            8..12 => patch = thing.of.change(),
            12 => return request.typed(MERGE, Body::Text("{bad".to_owned())),
            13 => return request.typed("application/gizmo+json", Body::Json(patch)),
            14 => request = request.with("dryRun", *self.random.pick(&["All", "Some"])),
            15 if std::ptr::eq(thing.of, &PODS) => {
                request.path += "/status";
                patch = json!({"status": {"phase": "Succeeded"}});
            }
            16 => patch = json!({}),
            17 => patch = json!([1]),
            _ => {}
        }
        request.typed(MERGE, Body::Json(patch))
    }

    /// Preconditions in a patch: none, valid or invalid ones.
    fn preconditions(&mut self, about: usize, metadata: &mut Value) {
        let thing = &self.things[about];
        match self.random.below(12) {
            0 => metadata["uid"] = thing.at("/metadata/uid").into(),
            1 => metadata["uid"] = NO_UID.into(),
            2 => metadata["resourceVersion"] = thing.at("/metadata/resourceVersion").into(),
            3 => {
                let step = *self.random.pick(&self.things[about].shown);
                metadata["resourceVersion"] = format!("<{step}/metadata/resourceVersion>").into();
            }
            4 => {
                metadata["uid"] = thing.at("/metadata/uid").into();
                metadata["resourceVersion"] = thing.at("/metadata/resourceVersion").into();
            }
            5 => {
                metadata["uid"] = NO_UID.into();
                metadata["resourceVersion"] = "1".into();
            }
            6 => metadata["resourceVersion"] = "0".into(),
            _ => {}
        }
    }

    pub(super) fn json_patch(&mut self, about: usize) -> Request {
        let thing = self.things[about].clone();
        let request = Request::new(Kind::JsonPatch, "PATCH", thing.path());
        let test = |path: &str, value: Value| json!({"op": "test", "path": path, "value": value});
        let remove = |path: &str| json!({"op": "remove", "path": path});
        let last = thing.owners.saturating_sub(1);
        let patch = match self.random.below(18) {
            0 | 1 => json!([
                test("/metadata/uid", thing.at("/metadata/uid").into()),
                remove("/metadata/ownerReferences")
            ]),
            2 => json!([test("/metadata/uid", NO_UID.into()), remove("/metadata/ownerReferences")]),
            3 => json!([
                test("/metadata/resourceVersion", thing.at("/metadata/resourceVersion").into()),
                {"op": "add", "path": "/metadata/labels/s", "value": "1"},
            ]),
            4 => json!([
                test(
                    &format!("/metadata/ownerReferences/{last}/uid"),
                    thing.at(&format!("/metadata/ownerReferences/{last}/uid")).into()
                ),
                remove(&format!("/metadata/ownerReferences/{last}")),
            ]),
            5 => json!([{"op": "add", "path": "/metadata/ownerReferences/-", "value": self.owner()}]),
            6 => json!([{"op": "add", "path": "/metadata/ownerReferences", "value": self.owners()}]),
            7 => json!([remove("/metadata/finalizers")]),
            8 => json!([remove("/metadata/finalizers/0")]),
            9 => json!([{"op": "add", "path": "/metadata/finalizers", "value": self.finalizers()}]),
            10 => json!([{"op": "replace", "path": "/metadata/labels/s", "value": "2"}]),
            11 => json!([{"op": "copy", "from": "/metadata/labels/run", "path": "/metadata/labels/copy"}]),
            12 => json!([{"op": "move", "from": "/metadata/labels/s", "path": "/metadata/labels/moved"}]),
            13 => json!([{"op": "replace", "path": "/metadata/uid", "value": NO_UID}]),
            14 => json!([{"op": "gizmo", "path": "/metadata/labels/s"}]),
            15 => json!([test("/metadata/nothing", Value::Null)]),
            16 => json!({"op": "test"}),
            _ => return request.typed(JSON, Body::Text("[{".to_owned())),
        };
        request.typed(JSON, Body::Json(patch))
    }

    pub(super) fn strategic_patch(&mut self, about: usize) -> Request {
        let thing = self.things[about].clone();
        let request = Request::new(Kind::StrategicPatch, "PATCH", thing.path());
        let owner = format!("/metadata/ownerReferences/{}/uid", self.random.below(thing.owners.max(1)));
        let delete = json!({"$patch": "delete", "uid": thing.at(&owner)});
        let finalizer = thing.finalizers.first().cloned().unwrap_or_else(|| "a.b/c".to_owned());
        let mut metadata = match self.random.below(14) {
            0..4 => json!({"ownerReferences": [delete]}),
            4 => json!({"ownerReferences": [delete, self.owner()]}),
            5 => json!({"ownerReferences": [{"$patch": "delete", "uid": NO_UID}]}),
            6 => json!({"ownerReferences": [{"uid": thing.at(&owner), "blockOwnerDeletion": false}]}),
            7 => json!({"ownerReferences": self.owners()}),
            8 => json!({"ownerReferences": [{"$patch": "replace"}, self.owner()]}),
            9 => json!({"$deleteFromPrimitiveList/finalizers": [finalizer]}),
            10 => json!({"finalizers": self.finalizers()}),
            11 => json!({"ownerReferences": [{"$patch": "delete", "name": "nobody"}]}),
            12 => json!({"ownerReferences": null, "finalizers": null}),
            _ => self.changes(about),
        };
        self.preconditions(about, &mut metadata);
        request.typed(STRATEGIC, Body::Json(json!({ "metadata": metadata })))
    }

    pub(super) fn delete(&mut self, about: usize) -> Request {
        let thing = self.things[about].clone();
        let request = Request::new(Kind::Delete, "DELETE", thing.path());
        let mut options = json!({});
        match self.random.below(12) {
            0..3 => options["propagationPolicy"] = "Foreground".into(),
            3..6 => options["propagationPolicy"] = "Background".into(),
            6..8 => options["propagationPolicy"] = "Orphan".into(),
            8 => options["orphanDependents"] = self.random.percent(50).into(),
            _ => {}
        }
        match self.random.below(14) {
            0 => options["preconditions"] = json!({"uid": thing.at("/metadata/uid")}),
            1 => options["preconditions"] = json!({"resourceVersion": thing.at("/metadata/resourceVersion")}),
            2 => {
                options["preconditions"] = json!({
                    "uid": thing.at("/metadata/uid"), "resourceVersion": thing.at("/metadata/resourceVersion"),
                });
            }
            3 => options["preconditions"] = json!({"uid": NO_UID}),
            4 => options["preconditions"] = json!({"resourceVersion": "1"}),
            5 => options["preconditions"] = json!({"uid": NO_UID, "resourceVersion": "1"}),
            _ => {}
        }
        let graceful = if std::ptr::eq(thing.of, &PODS) { 45 } else { 10 };
        if self.random.percent(graceful) {
            options["gracePeriodSeconds"] = (*self.random.pick(&[0, 0, 5, 60])).into();
        }
        match self.random.below(40) {
            0 => options["propagationPolicy"] = (*self.random.pick(&["Sideways", ""])).into(),
            1 => {
                options["propagationPolicy"] = "Orphan".into();
                options["orphanDependents"] = true.into();
            }
            2 => options["dryRun"] = json!(["All"]),
            3 => options["dryRun"] = json!(["Some"]),
            4 => return request.typed("application/json", Body::Text("{bad".to_owned())),
            5 => return request.typed("text/plain", Body::Text("x".to_owned())),
            6 => return request.with("gracePeriodSeconds", "soon"),
            7 => {
                return request
                    .with("propagationPolicy", *self.random.pick(&["Foreground", "Orphan", "Sideways"]));
            }
            8 => return request.with("orphanDependents", "true"),
            9..14 => return request,
            _ => {}
        }
        if self.random.percent(50) {
            options["kind"] = "DeleteOptions".into();
            options["apiVersion"] = "v1".into();
        }
        request.json(options)
    }

    pub(super) fn delete_collection(&mut self) -> Planned {
        let of = self.some_type();
        let namespace = self.some_namespace(of);
        let request = Request::new(Kind::DeleteCollection, "DELETE", of.collection(namespace.as_deref()));
        let selector = if of.namespaced { "s=1" } else { "run=<run>,s=1" };
        let mut request = request.with("labelSelector", selector);
        match self.random.below(8) {
            0 if of.namespaced => _ = request.query.pop(),
            1 => request = request.with("limit", "1"),
            2 => request.query[0].1 = "=".to_owned(),
            _ => {}
        }
        let body = match self.random.below(7) {
            0 => json!({"propagationPolicy": "Foreground"}),
            1 => json!({"propagationPolicy": "Orphan"}),
            2 => json!({"propagationPolicy": "Background"}),
            3 => json!({"propagationPolicy": "Sideways"}),
            4 => json!({"preconditions": {"uid": NO_UID}}),
            _ => return (Step::Send(request), None),
        };
        (Step::Send(request.json(body)), None)
    }

    /// A request about one of three namespaces that are created and deleted.
    pub(super) fn namespace(&mut self) -> Planned {
        let name = *self.random.pick(&["<run>n0", "<run>n1", "<run>n2"]);
        let path = NAMESPACES.collection(None);
        let about = self.thing(&NAMESPACES, None, name);
        let thing = self.things[about].clone();
        let choice = self.random.below(10);
        let request = match choice {
            _ if !thing.alive && choice < 8 => {
                let mut metadata = json!({"name": name, "labels": {"run": "<run>"}});
                if self.random.percent(30) {
                    metadata["finalizers"] = self.finalizers();
                }
                if self.random.percent(10) {
                    self.spoil(&mut metadata);
                }
                Request::new(Kind::Create, "POST", path).json(NAMESPACES.object(metadata))
            }
            0..4 => {
                let mut options = json!({});
                match self.random.below(8) {
                    0 => options["propagationPolicy"] = "Foreground".into(),
                    1 => options["propagationPolicy"] = "Orphan".into(),
                    2 => options["preconditions"] = json!({"uid": NO_UID}),
                    3 => options["preconditions"] = json!({"uid": thing.at("/metadata/uid")}),
                    4 => options["preconditions"] = json!({"resourceVersion": "1"}),
                    5 => options["propagationPolicy"] = "Sideways".into(),
                    _ => {}
                }
                Request::new(Kind::NamespaceDelete, "DELETE", thing.path()).json(options)
            }
            4..7 => {
                let mut body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
                body["spec"] =
                    if self.random.percent(75) { json!({}) } else { json!({"finalizers": ["x.y/z"]}) };
                if self.random.percent(20) {
                    body["metadata"]["resourceVersion"] = "1".into();
                }
                Request::new(Kind::NamespaceFinalize, "PUT", format!("{}/finalize", thing.path())).json(body)
            }
            7 => {
                let patch = json!({"metadata": self.changes(about), "spec": {"finalizers": []}});
                Request::new(Kind::MergePatch, "PATCH", thing.path()).typed(MERGE, Body::Json(patch))
            }
            _ => {
                // In that namespace, whatever its state is.
                let object = CONFIG_MAPS.object(json!({"name": "within", "labels": {"run": "<run>"}}));
                let request =
                    Request::new(Kind::Create, "POST", CONFIG_MAPS.collection(Some(name))).json(object);
                return (Step::Send(request), None);
            }
        };
        (Step::Send(request), Some(about))
    }
}
