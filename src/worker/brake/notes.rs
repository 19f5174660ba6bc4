//! Keeps the state of the brake on the Lease.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;

use super::{Brake, Engagement};
use crate::leader::LeaseAnnotations;
use kube_gc_core::brake::NAMESPACES_AT_MOST;
use kube_gc_core::brake::lease::{ENGAGED, LastRead, NAMESPACES, inherited, write};
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

/// The namespaces for the Lease: each with the time before it. All have the same reason.
fn write_namespaces(namespaces: &BTreeMap<Namespace, Arc<Engagement>>) -> Option<String> {
    let each = namespaces.iter().map(|(namespace, engagement)| {
        format!("{} {namespace}", humantime::format_rfc3339_seconds(engagement.since))
    });
    (!namespaces.is_empty()).then(|| each.collect::<Vec<_>>().join(" "))
}

/// Parses what [`write_namespaces`] has written, and skips whatever else is there.
fn read_namespaces(note: &str) -> Vec<(Namespace, Engagement)> {
    let words: Vec<_> = note.split_whitespace().collect();
    let (pairs, _) = words.as_chunks::<2>();
    let read = |[since, namespace]: &[&str; 2]| {
        let why = "as many objects as namespace_deletions_per_minute allows were deleted within a minute";
        let since = humantime::parse_rfc3339(since).ok()?;
        Some((Namespace::parse(namespace)?, Engagement { since, why: why.to_owned() }))
    };
    pairs.iter().filter_map(read).take(NAMESPACES_AT_MOST).collect()
}

impl LeaseAnnotations for Brake {
    fn read(&self, lease: &Lease) {
        self.remember(lease);
        let engaged = self.0.state.borrow().paused().is_some();
        if self.lease().seen.read(lease.metadata.annotations.as_ref(), engaged) {
            self.release("a person has resumed deletion with an annotation of the Lease");
        }
    }

    fn inherit(&self, lease: &Lease) {
        self.remember(lease);
        if self.0.limits.is_off() {
            return;
        }
        let note = |key| inherited(lease.metadata.annotations.as_ref(), key);
        if let Some(note) = note(ENGAGED) {
            self.engage_by(None, Engagement::read(note));
        }
        for (namespace, engagement) in note(NAMESPACES).map(read_namespaces).unwrap_or_default() {
            self.engage_by(Some(&namespace), engagement);
        }
    }

    fn write(&self, lease: &mut Lease) {
        let state = self.0.state.borrow().clone();
        let engaged = state.engaged.map(|engagement| engagement.note());
        write(&mut lease.metadata.annotations, engaged, write_namespaces(&state.namespaces));
    }

    fn erase(&self, lease: &mut Lease) {
        write(&mut lease.metadata.annotations, None, None);
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
