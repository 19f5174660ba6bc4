//! What the core costs, per object: `cargo bench --bench core`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput};
use kube_gc::graph::{
    ForegroundProgress, Generation, ObjectSnapshot, OwnerState, OwnerView, ReferenceSnapshot,
};
use kube_gc::mailbox::{Backoff, Completion, Mailbox, Time};
use kube_gc::object::{
    DeletionState, Finalizers, GroupResource, Identity, Key, Namespace, OwnerReference, ResourceType,
    ResourceVersion, Scope, Uid,
};
use kube_gc::verdict::{GraphClass, ReferenceClass, decide, first_look, from_graph};

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    mailbox(&mut criterion);
    verdict(&mut criterion);
    criterion.final_summary();
}

/// Identities of one type, spread over namespaces.
fn identities(count: usize, namespaces: usize) -> impl Iterator<Item = Identity> {
    let resource = Arc::new(ResourceType {
        group_resource: GroupResource::parse("configmaps"),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        scope: Scope::Namespaced,
    });
    let namespaces: Vec<_> =
        (0..namespaces).map(|number| Namespace::parse(&format!("team-{number}"))).collect();
    (0..count).filter_map(move |number| {
        Some(Identity {
            resource: Arc::clone(&resource),
            namespace: namespaces[number % namespaces.len()].clone(),
            name: format!("name-{number}").into(),
            uid: Uid::parse(&format!("0b1e5c1e-9b1a-4b58-8b7e-{number:012x}"))?,
        })
    })
}

const KEYS: usize = 100_000;
/// How fast the workers are: a delay of a second ends after as many keys.
const KEYS_PER_MILLISECOND: u64 = 100;

fn mailbox(criterion: &mut Criterion) {
    let keys: Vec<Key> = identities(KEYS, 100).map(|identity| identity.key()).collect();
    let mut group = criterion.benchmark_group("mailbox");
    group.throughput(Throughput::Elements(KEYS as u64)).sample_size(20);
    group.bench_function("add, pop and finish", |bencher| {
        bencher.iter_batched(
            || keys.clone(),
            |keys| {
                let mut mailbox = Mailbox::<Key, ()>::new(Backoff::default());
                for key in keys {
                    mailbox.add(key, Time::ZERO);
                }
                while let Some(job) = mailbox.pop(Time::ZERO) {
                    mailbox.finish(&job.key, Completion::Done, Time::ZERO);
                }
                mailbox.is_empty()
            },
            BatchSize::LargeInput,
        );
    });
    group.bench_function("fail and come back", |bencher| {
        let error: Arc<str> = Arc::from("503 Service Unavailable");
        let mut mailbox =
            Mailbox::<Key, ()>::new(Backoff { min: Duration::from_secs(1), ..Backoff::default() });
        for key in &keys {
            mailbox.add(key.clone(), Time::ZERO);
        }
        let mut millis = 0;
        bencher.iter(|| {
            for index in 0..KEYS as u64 {
                let now = Time::from_millis(millis + index / KEYS_PER_MILLISECOND);
                if let Some(job) = mailbox.pop(now) {
                    let completion = Completion::RetryAfter {
                        after: Duration::from_secs(1),
                        reason: (),
                        error: Arc::clone(&error),
                    };
                    mailbox.finish(&job.key, completion, now);
                }
            }
            millis += KEYS as u64 / KEYS_PER_MILLISECOND;
        });
    });
    group.finish();
}

fn verdict(criterion: &mut Criterion) {
    let owned: Vec<_> = identities(1000, 1).collect();
    let items: Vec<_> = owned.windows(3).filter_map(|window| item(&window[0], &window[1..])).collect();
    let mut group = criterion.benchmark_group("verdict");
    group.throughput(Throughput::Elements(items.len() as u64));
    group.bench_function("classify and decide, two owners", |bencher| {
        bencher.iter(|| {
            for item in &items {
                black_box(first_look(item));
                let classes = [0, 1].map(|index| match from_graph(&item.references[index].owner) {
                    GraphClass::Known(class) => class,
                    _ => ReferenceClass::Unresolved,
                });
                black_box(decide(black_box(item), &classes));
            }
        });
    });
    group.finish();
}

/// An object whose owners were proved absent.
fn item(identity: &Identity, owners: &[Identity]) -> Option<ObjectSnapshot> {
    let reference = |owner: &Identity| ReferenceSnapshot {
        reference: OwnerReference {
            api_version: owner.resource.api_version().into(),
            kind: owner.resource.kind.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
            controller: false,
            block_owner_deletion: true,
        },
        owner: OwnerView::Local { identity: owner.clone(), state: OwnerState::Absent },
    };
    Some(ObjectSnapshot {
        identity: identity.clone(),
        resource_version: Some(ResourceVersion::parse("10")?),
        generation: Generation(1),
        deletion: DeletionState::Live,
        finalizers: Finalizers::default(),
        references: owners.iter().map(reference).collect(),
        has_dependents: false,
        has_dependent_deleting_dependents: false,
        foreground: ForegroundProgress::Unblocked,
    })
}
