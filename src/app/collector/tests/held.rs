//! A namespace that is held, under a clock that jumps to what happens next.

use std::time::Duration;

use kube::client::Body;
use kube_gc_apiserver::ApiServer;
use serde_json::{Value, json};
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep};

use crate::app::controller::{Controller, Setup};
use kube_gc_client::{Api, ApiSettings, WallClock, WriteGate};
use kube_gc_config::Settings;
use kube_gc_controller::actors::Placement;
use kube_gc_observe::telemetry::Exporter;

const NAMESPACE: &str = "/api/v1/namespaces/shop";
const HELD: usize = 300;

/// Sends a request, and returns the code of the answer.
async fn send(server: &ApiServer, method: &str, path: &str, body: Value) -> u16 {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    server.client().send(request.body(Body::from(body)).unwrap()).await.unwrap().status().as_u16()
}

/// Rule 11.7: the watch shows the end of the last object, so the namespace does not wait for its next
/// look. The objects before it are no reason to look.
#[tokio::test(start_paused = true)]
async fn a_held_namespace_is_finished_when_its_content_goes() {
    let settings =
        kube_gc_apiserver::Settings { namespace_controller: false, ..kube_gc_apiserver::Settings::default() };
    let server = ApiServer::new(settings);
    let clock = WallClock::Since(server.now(), Instant::now());
    let api_settings = ApiSettings { clock, ..ApiSettings::default() };
    let api = Api::from_clients(server.client(), api_settings, WriteGate::open());
    let mut settings = Settings::default();
    settings.finish_namespaces = true;
    settings.namespaces.quiet = Duration::ZERO;
    let (_, exporter) = Exporter::local();
    let setup = Setup::new(Placement::default(), Vec::new());
    let test = async {
        let _controller = Controller::start(api, &settings, setup, exporter).unwrap();
        send(&server, "POST", "/api/v1/namespaces", json!({"metadata": {"name": "shop"}})).await;
        for number in 0..HELD {
            let metadata = json!({"name": format!("held-{number}"), "finalizers": ["example.com/hold"]});
            send(&server, "POST", &format!("{NAMESPACE}/configmaps"), json!({"metadata": metadata})).await;
        }
        send(&server, "DELETE", NAMESPACE, Value::Null).await;
        sleep(Duration::from_secs(60)).await;
        let before = server.with(|server| server.requests);
        for number in 0..HELD {
            let path = format!("{NAMESPACE}/configmaps/held-{number}");
            assert_eq!(send(&server, "PATCH", &path, json!({"metadata": {"finalizers": null}})).await, 200);
            sleep(Duration::from_millis(1)).await;
        }
        let began = Instant::now();
        while send(&server, "GET", NAMESPACE, Value::Null).await == 200 {
            assert!(began.elapsed() < Duration::from_secs(2), "it waits for its next look");
            sleep(Duration::from_millis(10)).await;
        }
        let requests = server.with(|server| server.requests) - before;
        assert!(requests < HELD as u64 + 500, "{requests} requests");
    };
    LocalSet::new().run_until(test).await;
}
