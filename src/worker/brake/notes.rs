//! Keeps the state of the brake on the Lease.

use std::sync::Arc;
use std::time::SystemTime;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;

use super::{Brake, Engagement};
use crate::leader::LeaseAnnotations;
use kube_gc_core::brake::lease::{LastRead, inherited, write};
use kube_gc_core::object::{GroupResource, Identity, Namespace, ResourceType, Scope, Uid};

impl Engagement {
    /// The text for the Lease.
    fn note(&self) -> String {
        format!("{} {}", humantime::format_rfc3339_seconds(self.since), self.why)
    }

    /// Parses a text that another replica, or somebody else, has written.
    fn read(note: &str) -> Self {
        let (since, why) = note.split_once(' ').unwrap_or((note, "the reason was not recorded"));
        match humantime::parse_rfc3339(since) {
            Ok(since) => Self { since, why: why.to_owned() },
            Err(_) => Self { since: SystemTime::now(), why: note.to_owned() },
        }
    }
}

impl LeaseAnnotations for Brake {
    fn read(&self, lease: &Lease) {
        self.remember(lease);
        let engaged = self.0.state.borrow().engaged.is_some();
        if self.lease().seen.read(lease.metadata.annotations.as_ref(), engaged) {
            self.release("a person has resumed deletion with an annotation of the Lease");
        }
    }

    fn inherit(&self, lease: &Lease) {
        self.remember(lease);
        if let Some(note) = inherited(lease.metadata.annotations.as_ref())
            && !self.0.limits.is_off()
        {
            self.engage_by(Engagement::read(note));
        }
    }

    fn write(&self, lease: &mut Lease) {
        let engaged = self.0.state.borrow().engaged.clone();
        write(&mut lease.metadata.annotations, engaged.map(|engagement| engagement.note()).as_deref());
    }

    fn erase(&self, lease: &mut Lease) {
        write(&mut lease.metadata.annotations, None);
    }

    fn deposed(&self) {
        self.lease().seen = LastRead::default();
        self.release("another replica is the leader now, and its brake applies");
    }

    fn news(&self) -> BoxFuture<'_, ()> {
        self.0.news.notified().boxed()
    }
}

impl Brake {
    fn remember(&self, lease: &Lease) {
        self.lease().identity = identity(lease);
    }
}

/// The Lease as the object of events.
fn identity(lease: &Lease) -> Option<Identity> {
    let resource = ResourceType {
        group_resource: GroupResource::new("coordination.k8s.io", "leases"),
        version: "v1".into(),
        kind: "Lease".into(),
        scope: Scope::Namespaced,
    };
    Some(Identity {
        resource: Arc::new(resource),
        namespace: Namespace::parse(lease.metadata.namespace.as_deref()?),
        name: lease.metadata.name.as_deref()?.into(),
        uid: Uid::parse(lease.metadata.uid.as_deref()?)?,
    })
}
