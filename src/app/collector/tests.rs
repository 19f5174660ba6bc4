use http::Response;
use kube::client::Body;
use kube_gc_apiserver::ApiServer;

use super::*;
use kube_gc_config::Settings;

#[allow(dead_code, reason = "the example's `main` is not called")]
#[path = "../../../examples/collect.rs"]
mod example;

#[tokio::test]
async fn the_example_collects_the_dependent() {
    assert_eq!(example::collect().await.unwrap(), ["config-of-somebody-else"]);
}

#[allow(dead_code, reason = "the example's `main` is not called")]
#[path = "../../../examples/test_controller.rs"]
mod test_controller;

#[tokio::test]
async fn the_example_tests_a_controller() {
    test_controller::passes().await.unwrap();
}

/// The test that `docs/testing.md` leads to.
mod cascade;
mod followed;
mod gated;
mod held;
mod idle;
mod pages;

#[test]
fn the_test_of_the_page_is_the_one_that_runs_here() {
    let page = include_str!("../../../docs/testing.md");
    let (_, block) = page.split_once("```rust\n").unwrap();
    let (block, _) = block.split_once("```\n").unwrap();
    assert_eq!(block, include_str!("tests/cascade.rs"));
}

fn server() -> ApiServer {
    ApiServer::new(kube_gc_apiserver::Settings::default())
}

/// The runtime of the caller has a single thread here, which is enough.
#[tokio::test]
async fn the_status_names_the_watched_types() {
    let server = server();
    let collector = Collector::builder_with_client(server.client()).start().await.unwrap();
    collector.wait_idle().await.unwrap();
    let status = collector.status().await.unwrap();
    assert!(status.ready);
    let deployments = status.resources.iter().find(|status| status.resource == "deployments.apps").unwrap();
    assert!(deployments.synced && deployments.last_error.is_none(), "{deployments:?}");
    assert!(!status.resources.iter().any(|status| status.resource == "events"));
    assert!(status.queues.iter().all(|queue| queue.ready + queue.processing + queue.delayed == 0));
    collector.stop().await.unwrap();
}

#[tokio::test]
async fn several_collectors_run_in_one_process() {
    let (one, another) = (server(), server());
    let one = Collector::builder_with_client(one.client()).start().await.unwrap();
    let another = Collector::builder_with_client(another.client()).start().await.unwrap();
    one.stop().await.unwrap();
    another.wait_idle().await.unwrap();
    another.stop().await.unwrap();
}

/// Fails if its actors panic because they have not run yet, which ends a process that aborts on panics.
#[tokio::test]
async fn a_start_that_is_given_up_ends_as_a_stop_does() {
    let (state, ended) = watch::channel(State::Running);
    let state = Arc::new(state);
    let mark = Mark { state: Arc::downgrade(&state), name: None, span: tracing::Span::none() };
    let (access, settings) = (Access::Client(server().client()), Settings::default());
    let task = Task { access, settings, state, started: oneshot::channel().0, stop: oneshot::channel().1 };
    thread::spawn(task, mark).unwrap();
    end(ended).await.unwrap();
}

async fn refused(settings: Settings) -> Error {
    Collector::builder_with_client(server().client()).settings(settings).start().await.unwrap_err()
}

#[tokio::test]
async fn an_invalid_setting_is_named() {
    let mut settings = Settings::default();
    settings.workers.delete = 0;
    let error = refused(settings.clone()).await;
    assert_eq!(error.kind(), ErrorKind::Settings);
    assert_eq!(
        error.to_string(),
        "`workers.delete` is out of bounds: it must be a whole number from 1 to 1000"
    );
    (settings.workers.delete, settings.leader.enabled) = (1, true);
    let error = refused(settings).await;
    assert!(error.to_string().contains("leader.enabled"), "{error}");
}

#[tokio::test]
async fn a_server_that_rejects_the_client_is_an_error_that_says_what_to_do() {
    let rejecting = tower::service_fn(|_: http::Request<Body>| async {
        let mut answer = Response::new(Body::empty());
        *answer.status_mut() = http::StatusCode::UNAUTHORIZED;
        Ok::<_, std::convert::Infallible>(answer)
    });
    let error =
        Collector::builder_with_client(kube::Client::new(rejecting, "default")).start().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Credentials);
    assert!(error.to_string().contains("check the user"), "{error}");
}

#[tokio::test]
async fn an_invalid_version_is_an_error() {
    let server = server();
    let collector = Collector::builder_with_client(server.client()).start().await.unwrap();
    for version in ["", "0", "newest"] {
        let error = collector.wait_seen("configmaps", version).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
        let said = format!("the version {version:?} is not a whole number");
        assert!(error.to_string().contains(&said), "{error}");
    }
}
