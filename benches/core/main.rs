//! Measures the time of the core: `make bench`, or `cargo bench --bench core`.
//!
//! There is one file for each part of the core. `documents` and `cluster` create the input. The
//! benchmark `allocations` measures memory.

mod cluster;
mod decoding;
mod documents;
mod graph;
mod mailbox;
mod turns;
mod verdict;

use criterion::Criterion;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    decoding::bench(&mut criterion);
    mailbox::bench(&mut criterion);
    verdict::bench(&mut criterion);
    turns::bench(&mut criterion);
    graph::bench(&mut criterion);
    criterion.final_summary();
}
