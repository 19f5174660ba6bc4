//! The embedded server answers like a real kube-apiserver with etcd.
//!
//! Random sequences are generated from seeds (`generate`), and scripts are written by hand
//! (`scripts`). Both are sent to both servers step by step. Each answer and each event of a watch
//! is compared; `compare` lists the exceptions.
//!
//! `KUBE_GC_DIFFERENTIAL_SEED=0x2a cargo test --locked --test differential sequences` runs the
//! sequence of one seed, and prints the steps that a difference needs.
//! `KUBE_GC_DIFFERENTIAL_SEEDS=500` runs this number of fresh seeds.
//! `KUBE_GC_DIFFERENTIAL_SCRIPT=grace` runs the scripts whose names begin with this.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod compare;
mod generate;
mod mapping;
mod model;
mod random;
mod report;
mod request;
mod run;
mod scripts;
mod side;
mod types;

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::time::SystemTime;

use futures::StreamExt as _;
use kube_gc_apiserver::{ApiServer, Release, Settings};
use serde_json::json;

use kube_gc_testkit::ControlPlane;
use request::{Answers, Kind, Request};
use run::{Failure, Run, Tally, run_seed, shrink};
use side::Side;
use types::{GADGETS, WIDGETS};

/// Seeds that always run.
const SEEDS: std::ops::Range<u64> = 1..41;
/// The minimum number of steps of a sequence.
const STEPS: usize = 150;
/// How many sequences run at once.
const PARALLEL: usize = 4;

/// A control plane without managed fields (see `compare`).
fn plane() -> ControlPlane {
    ControlPlane::start_with(None, &["--feature-gates=ServerSideApply=false"]).unwrap()
}

/// A real server.
async fn real(plane: &ControlPlane, name: &'static str) -> Side {
    let side =
        Side { name, client: plane.client().await.unwrap(), now: std::sync::Arc::new(SystemTime::now) };
    serve_custom_resources(&side).await;
    side
}

/// Creates the custom resource definitions of the sequences, and waits until they are served.
async fn serve_custom_resources(side: &Side) {
    let none = Answers::default();
    for of in [&WIDGETS, &GADGETS] {
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let request = Request::new(Kind::Definition, "POST", definitions).json(of.definition());
        let created = side.send(&request, &none).await;
        assert!([201, 409].contains(&created.code), "{}: {created:?}", side.name);
        let list = Request::new(Kind::List, "GET", of.collection(None));
        side.send_until(&list, &none, (200, &Some(("/kind", json!(format!("{}List", of.kind)))))).await;
    }
}

/// Runs sequences, some at a time.
async fn run_seeds(sides: [&Side; 2], seeds: Vec<u64>, tally: &Tally) -> Vec<Failure> {
    let runs = seeds.into_iter().map(|seed| async move { run_seed(sides, seed, STEPS, tally).await.err() });
    let failures: Vec<_> = futures::stream::iter(runs).buffer_unordered(PARALLEL).collect().await;
    failures.into_iter().flatten().map(|failure| *failure).collect()
}

/// The seed of the environment variable.
fn chosen_seed() -> Option<u64> {
    let seed = std::env::var("KUBE_GC_DIFFERENTIAL_SEED").ok()?;
    let hexadecimal = seed.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
    Some(hexadecimal.unwrap_or_else(|| seed.parse()).expect("a number"))
}

/// The seeds to run: the given one, or the fixed ones and fresh ones.
fn seeds() -> Vec<u64> {
    if let Some(seed) = chosen_seed() {
        return vec![seed];
    }
    let fresh = std::env::var("KUBE_GC_DIFFERENTIAL_SEEDS").ok();
    let fresh = fresh.map_or(1, |count| count.parse().expect("a number"));
    let fresh = (0..fresh).map(|index: u64| RandomState::new().hash_one(index) >> 32);
    SEEDS.chain(fresh).collect()
}

/// Fails if there are failures, and reports each kind of difference once.
async fn fail_on(sides: [&Side; 2], failures: Vec<Failure>) {
    let mut text = String::new();
    let mut told: BTreeMap<String, usize> = BTreeMap::new();
    for failure in &failures {
        let count = told.entry(failure.difference.signature()).or_default();
        *count += 1;
        if *count > 1 {
            continue;
        }
        let shrunk = match told.len() {
            ..4 => shrink(sides, failure).await,
            _ => failure.steps.iter().cloned().enumerate().skip(failure.difference.step).collect(),
        };
        text.push_str(&report::report(sides, failure, &shrunk));
    }
    for failure in &failures {
        for difference in &failure.others {
            let count = told.entry(difference.signature()).or_default();
            *count += 1;
            if *count == 1 {
                text.push_str(&report::report_difference(sides, failure.seed, difference));
            }
        }
    }
    let told: String = told.iter().map(|(signature, count)| format!("\n{count:>5} {signature}")).collect();
    assert!(failures.is_empty(), "{} sequences differ:{text}{told}", failures.len());
}

/// An embedded server that behaves like a real one of that release without its controllers.
async fn embedded() -> Side {
    let settings = Settings {
        release: Release::V1_20,
        namespace_controller: false,
        epoch: SystemTime::now(),
        ..Settings::default()
    };
    let server = ApiServer::new(settings);
    let (due, clock) = (server.clone(), server.clone());
    tokio::spawn(async move { due.run().await });
    let now = std::sync::Arc::new(move || clock.now());
    let side = Side { name: "embedded", client: server.client(), now };
    serve_custom_resources(&side).await;
    side
}

/// The embedded server answers like a real one.
#[tokio::test(flavor = "multi_thread")]
async fn sequences() {
    let plane = plane();
    let (real, embedded) = (real(&plane, "real").await, embedded().await);
    let tally = Tally::default();
    let began = std::time::Instant::now();
    let failures = run_seeds([&real, &embedded], seeds(), &tally).await;
    println!("{} answers in {:?}:{tally}", tally.total(), began.elapsed());
    fail_on([&real, &embedded], failures).await;
    if chosen_seed().is_none() {
        assert_eq!(tally.one_sided(), [], "kinds of requests that only succeed or only fail:{tally}");
    }
}

/// Runs all scripts, some at a time, and returns their differences.
async fn run_scripts(sides: [&Side; 2]) -> String {
    let only = std::env::var("KUBE_GC_DIFFERENTIAL_SCRIPT").unwrap_or_default();
    let chosen = scripts::all().into_iter().filter(|script| script.name.starts_with(&only));
    let runs = chosen.enumerate().map(|(index, script)| async move {
        let mut run = Run::new(sides[0], sides[1], &format!("script{index}x"));
        let mut texts = Vec::new();
        for step in &script.steps {
            if let Err(difference) = run.step(step, None).await {
                texts.push(report::report_script(sides, &script, &difference));
            }
        }
        // Later differences may follow from earlier ones.
        texts.truncate(8);
        texts.concat()
    });
    futures::stream::iter(runs).buffer_unordered(PARALLEL).collect().await
}

/// The embedded server also answers like a real one in the scripts written by hand.
#[tokio::test(flavor = "multi_thread")]
async fn written_sequences() {
    let plane = plane();
    let (real, embedded) = (real(&plane, "real").await, embedded().await);
    let differences = run_scripts([&real, &embedded]).await;
    assert!(differences.is_empty(), "{differences}");
}

/// The harness itself must add no differences: two real servers do not differ.
#[tokio::test(flavor = "multi_thread")]
async fn two_real_servers_do_not_differ() {
    let (one, other) = (plane(), plane());
    let (one, other) = (real(&one, "one").await, real(&other, "other").await);
    let failures = run_seeds([&one, &other], SEEDS.take(8).collect(), &Tally::default()).await;
    fail_on([&one, &other], failures).await;
    let differences = run_scripts([&one, &other]).await;
    assert!(differences.is_empty(), "{differences}");
}
