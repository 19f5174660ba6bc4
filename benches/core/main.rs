//! What the core costs in time: `make bench`, or `cargo bench --bench core`.
//!
//! One file for each part of the core. `documents` and `cluster` make what it is
//! given. What it costs in memory is counted by the benchmark `allocations`.

mod cluster;
mod decoding;
mod documents;
mod graph;
mod mailbox;
mod verdict;

use criterion::Criterion;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    decoding::bench(&mut criterion);
    mailbox::bench(&mut criterion);
    verdict::bench(&mut criterion);
    graph::bench(&mut criterion);
    criterion.final_summary();
}
