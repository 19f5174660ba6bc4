//! Decoding: a page of a list, and events of a watch.

use criterion::{Criterion, Throughput};
use kube_gc::benching;

use crate::documents::{ITEMS, Shape};

/// The length of a chunk from HTTP when there is much to read.
const CHUNK: usize = 64 << 10;

/// Measures lists and watches in bytes per second.
pub fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decoding");
    for shape in Shape::ALL {
        let (page, watch) = (shape.page(), shape.watch());
        group.throughput(Throughput::Bytes(page.len() as u64));
        group.bench_function(format!("a page of {ITEMS} {}", shape.name()), |bencher| {
            bencher.iter(|| {
                let facts = benching::list(page.chunks(CHUNK)).map(|facts| facts.len());
                assert_eq!(facts, Ok(ITEMS), "all of them are read");
            });
        });
        group.throughput(Throughput::Bytes(watch.len() as u64));
        group.bench_function(format!("{ITEMS} watch events of {}", shape.name()), |bencher| {
            bencher.iter(|| {
                let facts = benching::watch(watch.chunks(CHUNK)).map(|facts| facts.len());
                assert_eq!(facts, Ok(ITEMS), "all of them are read");
            });
        });
    }
    group.finish();
}
