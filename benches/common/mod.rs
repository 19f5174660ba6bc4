//! What the benchmarks of a large cluster share: the cluster, the feeder that serves it in place of an
//! API server, and the program that is measured.

pub mod cluster;
pub mod feeder;
pub mod kube_gc;
pub mod proc;
pub mod report;
pub mod subject;

use std::io::Write as _;

pub fn progress(line: &str) {
    // A closed standard error is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{line}");
}
