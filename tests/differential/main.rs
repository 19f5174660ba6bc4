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
use kube_gc_testkit::{Cluster, ControlPlane, Scope};

use run::run;
use side::Side;
use types::GROUP;

/// How many scripts run at once.
const PARALLEL: usize = 4;

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
    for side in &sides {
        let widgets = format!("widgets.{GROUP}");
        Cluster::new(side.client.clone()).crd(&widgets, Scope::Namespaced, &["v1"]).await.unwrap();
    }
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
