//! The embedded server answers like a real kube-apiserver with etcd.
//!
//! Scripts (`scripts`) are sent to both servers step by step. Each answer and each event of a watch
//! is compared; `compare` lists the exceptions.
//!
//! `KUBE_GC_DIFFERENTIAL_SCRIPT=grace cargo test --locked --test differential` runs the scripts
//! whose names begin with this.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod compare;
mod mapping;
mod report;
mod request;
mod run;
mod scripts;
mod side;
mod types;

use std::time::SystemTime;

use futures::StreamExt as _;
use kube_gc_apiserver::{ApiServer, Release, Settings};
use serde_json::json;

use kube_gc_testkit::ControlPlane;
use request::{Answers, Request};
use run::Run;
use side::Side;
use types::{GROUP, WIDGETS, definition};

/// How many scripts run at once.
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

/// Creates the definition of the custom resources, and waits until they are served.
async fn serve_custom_resources(side: &Side) {
    let none = Answers::default();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let widgets = definition(GROUP, "widgets", "Widget", "Namespaced");
    let created = side.send(&Request::new("POST", definitions).json(widgets), &none).await;
    assert!([201, 409].contains(&created.code), "{}: {created:?}", side.name);
    let list = Request::new("GET", WIDGETS.collection(None));
    side.send_until(&list, &none, (200, &Some(("/kind", json!("WidgetList"))))).await;
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

/// Runs all scripts, some at a time, and returns their differences.
async fn run_scripts(sides: [&Side; 2]) -> String {
    let only = std::env::var("KUBE_GC_DIFFERENTIAL_SCRIPT").unwrap_or_default();
    let chosen = scripts::all().into_iter().filter(|script| script.name.starts_with(&only));
    let runs = chosen.enumerate().map(|(index, script)| async move {
        let mut run = Run::new(sides[0], sides[1], &format!("script{index}x"));
        let mut texts = Vec::new();
        for step in &script.steps {
            if let Err(difference) = run.step(step).await {
                texts.push(report::report_script(sides, &script, &difference));
            }
        }
        // Later differences may follow from earlier ones.
        texts.truncate(8);
        texts.concat()
    });
    futures::stream::iter(runs).buffer_unordered(PARALLEL).collect().await
}

/// The embedded server answers like a real one.
#[tokio::test(flavor = "multi_thread")]
async fn written_sequences() {
    let plane = plane();
    let (real, embedded) = (real(&plane, "real").await, embedded().await);
    let differences = run_scripts([&real, &embedded]).await;
    assert!(differences.is_empty(), "{differences}");
}
