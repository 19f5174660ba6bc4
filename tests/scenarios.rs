//! What can be seen of the collector from outside, as scenarios: each is compiled once and runs
//! in one or more [environments](kube_gc_testkit::environment).
//!
//! `cargo test --test scenarios -- embedded::conformance::policies` runs those whose names
//! contain that; `--list` lists all names.

mod beside;
mod conformance;
mod deployment;
mod faults;
mod http;
mod insight;
mod leader;
mod namespaces;
mod run;

use std::process::ExitCode;

use kube_gc_apiserver::Release;
use kube_gc_testkit::Environment;
use kube_gc_testkit::harness::{self, Lane};

fn main() -> ExitCode {
    use Environment::{Deployed, Embedded, Real};
    use conformance::{LARGE, OTHERS, POLICIES, RESTARTS};

    // Where that makes no difference, the embedded server is the newest release. Faults that
    // spoil requests know those of plain discovery.
    let newest = Embedded(Release::V1_36);
    let old = Embedded(Release::V1_20);
    // The longest first.
    harness::main(&[
        Lane::new(Real, "conformance", &[POLICIES, OTHERS, namespaces::ALL]).on(2),
        Lane::new(newest, "conformance", &[POLICIES, RESTARTS, LARGE, insight::ALL]).on(2),
        Lane::new(Real, "process", &[leader::ALL, run::ALL, http::ALL, insight::ALL]),
        Lane::new(Deployed, "deployment", &[deployment::ALL]),
        Lane::new(Real, "beside", &[beside::ALL]),
        Lane::new(newest, "streaming", &[faults::ON_A_NEW_SERVER]),
        Lane::new(old, "faults", &[faults::ON_ANY_SERVER]).on(2),
        // The same in other environments, and what takes minutes.
        Lane::new(Real, "hostile", &[faults::HOSTILE]).nightly(),
        Lane::new(newest, "rules", &[OTHERS, namespaces::ALL]).nightly(),
        Lane::new(Real, "faults", &[RESTARTS, LARGE, faults::ON_ANY_SERVER]).nightly(),
    ])
}
