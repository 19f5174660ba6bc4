//! A cluster whose history is written by hand.

#![expect(clippy::unwrap_used, reason = "a history that cannot be is an error of the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube_gc_apiserver::Release;
use kube_gc_apiserver::object::Object;
use kube_gc_apiserver::resources::{Catalog, Resource, ResourceName};
use kube_gc_apiserver::store::{Cause, Change};
use serde_json::{Value, json};

use crate::oracle::{Bounds, Oracle, Rule, Violation};

/// The oracle's judgement of a write.
pub type Judged = Result<(), Violation>;

/// The rule that was violated.
pub fn broken(judged: &Judged) -> Option<Rule> {
    judged.as_ref().err().map(|violation| violation.rule)
}

type Objects = BTreeMap<String, (ResourceName, Value)>;

/// A cluster, and the oracle that observes it.
pub struct World {
    pub oracle: Oracle,
    pub now: Duration,
    /// When the next request was sent, if not now.
    pub sent: Option<Duration>,
    version: u64,
    backup: (u64, Objects),
    objects: Objects,
    served: Vec<Resource>,
}

/// ConfigMaps are namespaced, Nodes are not.
pub fn configmaps() -> ResourceName {
    ResourceName::new("", "configmaps")
}

/// A custom type that resembles ConfigMaps in every relevant respect.
fn widgets(like: &Resource) -> Resource {
    let name = ResourceName::new("example.com", "widgets");
    Resource { stored_as: name.clone(), name, kind: "Widget".into(), ..like.clone() }
}

/// A reference to an object whose uid is also its name.
pub fn to(owner: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": owner})
}

/// The same reference, with `blockOwnerDeletion`.
pub fn blocking(owner: &str) -> Value {
    let mut reference = to(owner);
    reference["blockOwnerDeletion"] = true.into();
    reference
}

impl World {
    /// A cluster that serves the built-in types, but not widgets.
    pub fn new() -> Self {
        // Most histories have owners that never existed.
        Self::with(Bounds { birth: Duration::ZERO, ..Bounds::default() })
    }

    /// The same, for a collector with other bounds.
    pub fn with(bounds: Bounds) -> Self {
        let served = Catalog::new(Release::V1_36).all().map(|resource| Resource::clone(resource)).collect();
        let mut world = Self {
            oracle: Oracle::new(bounds),
            now: Duration::from_secs(1000),
            sent: None,
            version: 0,
            backup: (0, BTreeMap::new()),
            objects: BTreeMap::new(),
            served,
        };
        world.oracle.types(&world.served, world.now);
        world
    }

    /// Serves widgets of `example.com`, or stops serving them.
    pub fn serve_widgets(&mut self, served: bool) {
        self.served.retain(|resource| &*resource.name.group != "example.com");
        let configmaps = self.served.iter().find(|resource| resource.name == configmaps());
        let widgets = configmaps.filter(|_| served).map(widgets);
        self.served.extend(widgets);
        self.oracle.types(&self.served, self.now);
    }

    /// Lets time pass.
    pub fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    /// Takes a backup.
    pub fn back_up(&mut self) {
        self.backup = (self.version, self.objects.clone());
        self.oracle.backed_up();
    }

    /// Stops the server and restores the backup, which takes half a minute.
    pub fn restore(&mut self) {
        let stopped = self.now;
        self.wait(30);
        (self.version, self.objects) = self.backup.clone();
        self.oracle.restored(self.version, stopped);
    }

    /// The same, with a version that is higher than any before.
    pub fn restore_raised(&mut self) {
        let (stopped, last) = (self.now, self.version);
        self.wait(30);
        self.objects = self.backup.1.clone();
        self.version = last + 1_000;
        self.oracle.restored(u64::MAX, stopped);
        self.oracle.raised();
    }

    /// The collector knows all ConfigMaps and can list them.
    pub fn all_known(&mut self) {
        self.oracle.listed(&configmaps(), true, self.now);
        self.oracle.shown(&configmaps(), self.version, self.now);
        self.wait(200);
    }

    /// Creates a ConfigMap in the namespace `a`. Its name is its uid.
    pub fn create(&mut self, uid: &str, owners: &[Value]) {
        self.create_as(&configmaps(), Some("a"), uid, owners);
    }

    /// Creates an object.
    pub fn create_as(
        &mut self,
        resource: &ResourceName,
        namespace: Option<&str>,
        uid: &str,
        owners: &[Value],
    ) {
        let mut metadata =
            json!({"name": uid, "uid": uid, "labels": {"app": "shop"}, "ownerReferences": owners});
        if let Some(namespace) = namespace {
            metadata["namespace"] = namespace.into();
        }
        self.objects
            .insert(uid.to_owned(), (resource.clone(), json!({"metadata": metadata, "data": {"k": "v"}})));
        self.apply(uid, None, false, "user", "POST", Value::Null).unwrap();
    }

    /// Changes an object.
    pub fn change(&mut self, uid: &str, change: impl FnOnce(&mut Value)) {
        let before = self.object(uid);
        change(&mut self.objects.get_mut(uid).unwrap().1["metadata"]);
        self.apply(uid, Some(before), false, "user", "PUT", Value::Null).unwrap();
    }

    /// Begins the deletion of an object that has these finalizers.
    pub fn begin_deletion(&mut self, uid: &str, finalizers: &[&str]) {
        self.change(uid, |metadata| {
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            metadata["finalizers"] = json!(finalizers);
        });
    }

    /// Removes an object at once.
    pub fn remove(&mut self, uid: &str) {
        let before = self.object(uid);
        self.apply(uid, Some(before), true, "user", "DELETE", Value::Null).unwrap();
    }

    /// The collector deletes an object with the right preconditions: uid and version.
    pub fn collect(&mut self, uid: &str, policy: &str) -> Judged {
        let version = self.object(uid).resource_version().to_string();
        self.collect_if(uid, policy, &json!({"uid": uid, "resourceVersion": version}))
    }

    /// The collector deletes an object with these preconditions.
    pub fn collect_if(&mut self, uid: &str, policy: &str, preconditions: &Value) -> Judged {
        let before = self.object(uid);
        let body = json!({"propagationPolicy": policy, "preconditions": preconditions});
        self.apply(uid, Some(before), true, "kube-gc/1", "DELETE", body)
    }

    /// The collector patches the metadata of an object with the right preconditions: uid and
    /// version.
    pub fn patch(&mut self, uid: &str, change: impl FnOnce(&mut Value)) -> Judged {
        let version = self.object(uid).resource_version().to_string();
        self.patch_if(uid, &json!({"uid": uid, "resourceVersion": version}), change)
    }

    /// The collector patches an object with these preconditions.
    pub fn patch_if(&mut self, uid: &str, bound: &Value, change: impl FnOnce(&mut Value)) -> Judged {
        let before = self.object(uid);
        change(&mut self.objects.get_mut(uid).unwrap().1["metadata"]);
        self.apply(uid, Some(before), false, "kube-gc/1", "PATCH", json!({"metadata": bound}))
    }

    /// The collector removes the last finalizer, and the object is removed in its previous state.
    pub fn release(&mut self, uid: &str) -> Judged {
        let before = self.object(uid);
        let version = before.resource_version().to_string();
        let body = json!({"metadata": {"uid": uid, "resourceVersion": version, "finalizers": null}});
        self.apply(uid, Some(before), true, "kube-gc/1", "PATCH", body)
    }

    /// The present state of an object.
    pub fn object(&self, uid: &str) -> Object {
        Object::new(self.objects[uid].1.clone())
    }

    /// Judges the final state, in which the collector reports these objects as undecided.
    pub fn at_rest(&self, visible: &[&str]) -> Judged {
        let visible: BTreeSet<String> = visible.iter().map(|uid| (*uid).to_owned()).collect();
        self.oracle.at_rest(&visible)
    }

    fn apply(
        &mut self,
        uid: &str,
        before: Option<Object>,
        removed: bool,
        who: &str,
        method: &str,
        body: Value,
    ) -> Judged {
        self.version += 1;
        let (resource, object) = self.objects.get_mut(uid).unwrap();
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let after = Object::new(object.clone());
        let cause = Cause {
            request: self.version,
            user_agent: who.to_owned(),
            method: method.to_owned(),
            path: format!("/api/v1/namespaces/a/{}/{uid}?fieldManager=x", resource.plural),
            body,
        };
        let key = after.key();
        let resource = resource.clone();
        if removed {
            self.objects.remove(uid);
        }
        let cause = Arc::new(cause);
        let change = Change { version: self.version, resource, key, before, after, removed, cause };
        self.oracle.observe(&change, self.now, self.sent.unwrap_or(self.now))
    }
}
