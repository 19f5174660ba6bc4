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
mod request;
mod run;
mod scripts;
mod side;
mod types;

use std::sync::Arc;
use std::time::SystemTime;

use futures::StreamExt as _;
use kube_gc_apiserver::{ApiServer, Release, Settings};
use kube_gc_testkit::ControlPlane;
use serde_json::json;

use request::{Answers, Request};
use run::run;
use side::Side;
use types::{GROUP, WIDGETS, definition};

/// How many scripts run at once.
const PARALLEL: usize = 4;

/// Creates the definition of the custom resources, and waits until they are served.
async fn serve_custom_resources(side: &Side) {
    let none = Answers::default();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let widgets = definition(GROUP, "widgets", "Widget");
    let created = side.send(&Request::new("POST", definitions).json(widgets), &none).await;
    assert_eq!(created.code, 201, "{}: {created:?}", side.name);
    let list = Request::new("GET", WIDGETS.collection(None));
    side.send_until(&list, &none, (200, &Some(("/kind", json!("WidgetList"))))).await;
}

/// An embedded server that behaves like a real one of that release without its controllers.
fn embedded() -> Side {
    let settings = Settings {
        release: Release::V1_20,
        namespace_controller: false,
        epoch: SystemTime::now(),
        ..Settings::default()
    };
    let server = ApiServer::new(settings);
    let (due, client) = (server.clone(), server.client());
    tokio::spawn(async move { due.run().await });
    Side { name: "embedded", client, now: Arc::new(move || server.now()) }
}

/// The embedded server answers like a real one.
#[tokio::test(flavor = "multi_thread")]
async fn written_sequences() {
    // Without managed fields: see `compare`.
    let plane = ControlPlane::start_with(&["--feature-gates=ServerSideApply=false"]).unwrap();
    let client = plane.client().await.unwrap();
    let sides = [Side { name: "real", client, now: Arc::new(SystemTime::now) }, embedded()];
    futures::future::join_all(sides.iter().map(serve_custom_resources)).await;
    let only = std::env::var("KUBE_GC_DIFFERENTIAL_SCRIPT").unwrap_or_default();
    let chosen = scripts::all().into_iter().filter(|script| script.name.starts_with(&only));
    let sides = sides.each_ref();
    let runs = chosen.enumerate().map(|(index, script)| async move {
        let mut reports = run(sides, &script, &format!("script{index}x")).await;
        // Later differences may follow from earlier ones.
        reports.truncate(8);
        reports.concat()
    });
    let differences: String = futures::stream::iter(runs).buffer_unordered(PARALLEL).collect().await;
    assert!(differences.is_empty(), "{differences}");
}
