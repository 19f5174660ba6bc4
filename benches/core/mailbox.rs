//! The backoff mailbox: keys that are added, taken, finished and retried.

use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use kube_gc_core::mailbox::{Backoff, Completion, Mailbox, Time};
use kube_gc_core::object::{HashSeed, Key};

use crate::cluster::Cluster;

const KEYS: usize = 100_000;
/// How many keys wait for their next attempt at the same time.
const WAITING: [usize; 3] = [1_000, 100_000, 1_000_000];
/// The speed of the workers. The slower they are, the more different due times there are.
const KEYS_PER_MILLISECOND: u64 = 2;

/// Measures adding, taking, finishing and failing.
pub fn bench(criterion: &mut Criterion) {
    let keys: Vec<Key> = Cluster::new(KEYS).keys().collect();
    let mut group = criterion.benchmark_group("mailbox");
    group.throughput(Throughput::Elements(keys.len() as u64)).sample_size(20);
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
    group.sample_size(10);
    for count in WAITING {
        let keys: Vec<Key> = Cluster::new(count).keys().take(count).collect();
        group.throughput(Throughput::Elements(keys.len() as u64));
        group.bench_with_input(BenchmarkId::new("fail and come back", count), &*keys, fail_and_come_back);
        group.bench_with_input(BenchmarkId::new("fail and be woken", count), &*keys, fail_and_be_woken);
    }
    group.finish();
}

/// Each key fails, and is due again exactly when the workers have processed all others.
fn fail_and_come_back(bencher: &mut criterion::Bencher<'_>, keys: &[Key]) {
    let count = keys.len() as u64;
    let round = count.div_ceil(KEYS_PER_MILLISECOND);
    let mut mailbox = with(keys);
    let mut millis = 0;
    bencher.iter(|| {
        let mut done = 0;
        for index in 0..count {
            let now = Time::from_millis(millis + index / KEYS_PER_MILLISECOND);
            if let Some(job) = mailbox.pop(now) {
                done += 1;
                mailbox.finish(&job.key, failed(Duration::from_millis(round)), now);
            }
        }
        assert_eq!(done, count, "each key comes back");
        millis += round;
    });
}

/// Each key fails, and is added again before it is due, in another order.
fn fail_and_be_woken(bencher: &mut criterion::Bencher<'_>, keys: &[Key]) {
    let count = keys.len() as u64;
    let round = count.div_ceil(KEYS_PER_MILLISECOND);
    let mut mailbox = with(keys);
    let mut millis = 0;
    bencher.iter(|| {
        for index in 0..count {
            let now = Time::from_millis(millis + index / KEYS_PER_MILLISECOND);
            if let Some(job) = mailbox.pop(now) {
                let completion = Completion::Retry { reason: (), error: Arc::from("503") };
                mailbox.finish(&job.key, completion, now);
            }
        }
        millis += round;
        for key in keys.iter().rev() {
            mailbox.add(key.clone(), Time::from_millis(millis));
        }
        assert_eq!(mailbox.ready() as u64, count, "each key is ready");
    });
}

fn with(keys: &[Key]) -> Mailbox<Key, ()> {
    let backoff = Backoff { min: Duration::from_secs(1000), ..Backoff::default() };
    let mut mailbox = Mailbox::new(backoff, HashSeed::new(1));
    for key in keys {
        mailbox.add(key.clone(), Time::ZERO);
    }
    mailbox
}

fn failed(after: Duration) -> Completion<()> {
    Completion::RetryAfter { after, reason: (), error: Arc::from("503 Service Unavailable") }
}
