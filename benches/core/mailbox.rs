//! The backoff mailbox: keys in, keys out, keys that come back.

use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput};
use kube_gc_core::mailbox::{Backoff, Completion, Mailbox, Time};
use kube_gc_core::object::{HashSeed, Key};

use crate::cluster::Cluster;

const KEYS: usize = 100_000;
/// How fast the workers are: a delay of a second ends after as many keys.
const KEYS_PER_MILLISECOND: u64 = 100;

/// Adding, taking, finishing, failing.
pub fn bench(criterion: &mut Criterion) {
    let keys: Vec<Key> = Cluster::new(KEYS).keys().collect();
    let count = keys.len() as u64;
    let mut group = criterion.benchmark_group("mailbox");
    group.throughput(Throughput::Elements(count)).sample_size(20);
    group.bench_function("add, pop and finish", |bencher| {
        bencher.iter_batched(
            || keys.clone(),
            |keys| {
                let mut mailbox = Mailbox::<Key, ()>::new(Backoff::default(), HashSeed::new(1));
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
        let mut mailbox = Mailbox::<Key, ()>::new(
            Backoff { min: Duration::from_secs(1), ..Backoff::default() },
            HashSeed::new(1),
        );
        for key in &keys {
            mailbox.add(key.clone(), Time::ZERO);
        }
        let mut millis = 0;
        bencher.iter(|| {
            for index in 0..count {
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
            millis += count / KEYS_PER_MILLISECOND;
        });
    });
    group.finish();
}
