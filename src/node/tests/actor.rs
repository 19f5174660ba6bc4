//! The loop: passes follow each other, and failures become events and readiness.

use std::os::unix::fs::symlink;

use k8s_openapi::api::core::v1::Event;
use kube_gc_cri::{self as cri, Endpoint};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::*;
use crate::introspect::node::NodeView;
use crate::node::NodeError;
use crate::node::run::{NodeContext, NodeEvents, NodeStatus, collect, is_new};

/// A running loop.
pub(super) struct Running {
    status: watch::Receiver<NodeStatus>,
    cancel: CancellationToken,
    collecting: JoinHandle<Result<(), NodeError>>,
}

impl Running {
    pub(super) async fn start(node: &Node) -> Self {
        Self::with(node, node.options()).await
    }

    async fn with(node: &Node, options: NodeOptions) -> Self {
        Self::of(node, options, node.collector().await)
    }

    fn of(node: &Node, options: NodeOptions, collector: NodeCollector) -> Self {
        let (status, published) = watch::channel(NodeStatus::default());
        let cancel = CancellationToken::new();
        let api = Api::from_clients(node.api.client(), ApiSettings::default(), WriteGate::open());
        let context = NodeContext { events: NodeEvents::new(api, NODE), status, cancel: cancel.clone() };
        let collecting = tokio::spawn(collect(context, options, collector));
        Self { status: published, cancel, collecting }
    }

    /// Waits until the status is like this.
    pub(super) async fn until(&mut self, is_it: impl FnMut(&NodeStatus) -> bool) -> NodeStatus {
        let found = tokio::time::timeout(Duration::from_secs(60), self.status.wait_for(is_it)).await;
        found.unwrap().unwrap().clone()
    }

    fn view(&self) -> NodeView {
        NodeView::new(self.status.clone())
    }

    pub(super) async fn stop(self) {
        self.cancel.cancel();
        self.collecting.await.unwrap().unwrap();
    }
}

async fn events(node: &Node) -> Vec<(String, String)> {
    let events: kube::Api<Event> = kube::Api::namespaced(node.api.client(), "default");
    let events = events.list(&kube::api::ListParams::default()).await.unwrap().items.into_iter();
    let mut found: Vec<_> = events
        .map(|event| {
            assert_eq!(event.involved_object.kind.as_deref(), Some("Node"));
            assert_eq!(event.involved_object.uid.as_deref(), Some(NODE));
            (event.reason.unwrap_or_default(), event.message.unwrap_or_default())
        })
        .collect();
    found.sort();
    found
}

#[tokio::test]
async fn one_outage_is_one_warning_though_its_error_and_what_it_is_about_change() {
    let mut node = Node::set_up();
    let living = node.pod_that_mounts("registry.example/data:1").await;
    let containers = node.containers(&living, 2, ContainerState::ContainerRunning);
    node.upgrade();
    let mut known = Vec::new();
    for (container, error, also, expected) in [
        (0, "no", None, 1),
        (1, "no: not now", None, 0),
        (0, "never", Some(Rpc::Status), 1),
        (1, "no", Some(Rpc::Status), 0),
    ] {
        let fail = || server::Effect::Fail(server::Code::Unknown, error.to_owned());
        node.server.clear_faults();
        node.server.fault(server::Fault::about(Rpc::ContainerStatus, &containers[container], fail()));
        also.into_iter().for_each(|rpc| node.server.fault(server::Fault::every(rpc, fail())));
        let notes = node.look().await.notes;
        let text: String = notes.iter().map(|note| note.text.as_str()).collect();
        assert!(text.contains(&containers[container]) && text.contains(error), "{text}");
        let new = notes.iter().filter(|note| is_new(note, &known)).count();
        assert_eq!(new, expected, "{notes:?} after {known:?}");
        known = notes;
    }
}

#[test]
fn another_cause_is_another_outage() {
    let silent = |detail: &str| {
        NodeError::Runtime(cri::Error::Connect { path: "/run/a".into(), detail: detail.into() })
    };
    let closed = NodeError::Runtime(cri::Error::NoPermission { path: "/run/a".into() });
    assert!(silent("one").is_like(&silent("other")));
    assert!(!closed.is_like(&silent("one")) && !closed.is_like(&NodeError::Ended));
}

#[actix::test]
async fn safety_4_what_a_limit_leaves_goes_in_the_next_pass_at_once() {
    let mut node = Node::set_up();
    node.pod().await;
    let gone = node.gone_pod();
    node.containers(&gone, 12, ContainerState::ContainerExited);
    node.rules.limits.containers = 5;
    node.rules.containers.period = HOUR;
    node.rules.images.period = HOUR;
    let mut running = Running::start(&node).await;
    assert!(!running.view().readiness().ready(), "before the first look");
    running.until(|status| status.report.is_some() && node.container_ids().is_empty()).await;
    assert!(running.view().readiness().ready());
    running.stop().await;
    assert_eq!(events(&node).await, []);
}

#[actix::test]
async fn b9_what_fails_becomes_events_on_the_node_by_the_kubelets_reasons() {
    // A single failure of images is no event.
    for (fails, image_event) in [(Some(1), None), (None, Some("ImageGCFailed"))] {
        let mut node = Node::set_up();
        node.pod().await;
        let gone = node.gone_pod();
        let containers = node.containers(&gone, 2, ContainerState::ContainerExited);
        let images = node.images(18, 50);
        node.rules.free = Some(99);
        node.rules.images.period = Duration::from_millis(200);
        let fail = || server::Effect::Fail(server::Code::Unknown, "device busy".to_owned());
        node.server.fault(server::Fault::about(Rpc::RemoveContainer, &containers[0], fail()));
        let of_image = server::Fault::about(Rpc::RemoveImage, &images[0], fail());
        node.server.fault(server::Fault { nth: fails, ..of_image });
        let mut running = Running::start(&node).await;
        let status = running.until(|status| status.report.is_some()).await;
        let page = running.view().readiness();
        let mut found = events(&node).await;
        while image_event.is_some_and(|event| found.iter().all(|(reason, _)| reason != event))
            || (fails.is_some() && node.image_ids().contains(&images[0]))
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
            found = events(&node).await;
        }
        running.stop().await;
        found = events(&node).await;
        let mut reasons: Vec<&str> = found.iter().map(|(reason, _)| reason.as_str()).collect();
        reasons.dedup();
        let expected = ["ContainerGCFailed", "FreeDiskSpaceFailed"].into_iter().chain(image_event);
        assert_eq!(reasons, expected.collect::<Vec<_>>());
        let first = format!("default/{}/web ({}): ", gone.name, containers[0]);
        assert!(found[0].1.contains(&first) && found[0].1.contains("device busy"), "{found:?}");
        let is_first =
            |message: &str| message.starts_with("Freed 850.0 MiB") && message.contains("still missing");
        assert!(found.iter().any(|(_, message)| is_first(message)), "{found:?}");
        // It is ready: a restart would not help.
        assert!(page.ready() && page.verbose("readyz").contains("could not be freed"), "{page:?}");
        let report = status.report.unwrap();
        assert!(report.result.as_ref().unwrap().failed == 2 && !report.is_complete());
    }
}

#[actix::test]
async fn a_dry_run_tells_no_events_and_shows_its_plan() {
    let mut node = Node::set_up();
    node.images(18, 50);
    node.rules.free = Some(99);
    node.rules.dry_run = true;
    let mut running = Running::start(&node).await;
    running.until(|status| status.report.is_some()).await;
    let page = running.view().last().unwrap().unwrap();
    let page: serde_json::Value = serde_json::from_str(&page).unwrap();
    assert_eq!((page["effects"].as_str(), page["result"].is_null()), (Some("nothing"), true));
    running.stop().await;
    assert!(node.changes().is_empty());
    assert_eq!(events(&node).await, []);
}

/// Also if a mistake in the search for a kubelet must not count as "no kubelet".
#[actix::test]
async fn safety_3_a_kubelet_that_comes_later_is_met_before_anything_is_removed() {
    type Detect = fn() -> Option<String>;
    let searches: [(Detect, &str); 2] =
        [(|| Some("it has come".to_owned()), "it has come"), (|| panic!("made by the test"), "is not known")];
    for (detect, said) in searches {
        let mut node = Node::set_up();
        let gone = node.gone_pod();
        node.containers(&gone, 3, ContainerState::ContainerExited);
        let mut running = Running::with(&node, NodeOptions { detect, ..node.options() }).await;
        let status = running.until(|status| status.report.is_some()).await;
        running.stop().await;
        assert!(status.report.unwrap().dry_run.as_ref().unwrap().contains(said));
        assert!(node.changes().is_empty());
    }
}

#[actix::test]
async fn safety_2_a_wrong_name_of_the_node_makes_it_unready() {
    let mut node = Node::set_up();
    let unknown = node.sandbox("aaaaaaaa-0000-4000-8000-000000000000", false);
    node.containers(&unknown, 1, ContainerState::ContainerRunning);
    let mut running = Running::start(&node).await;
    running.until(|status| status.report.is_some()).await;
    let page = running.view().readiness();
    assert!(!page.ready() && page.verbose("readyz").contains("node.name"), "{page:?}");
    running.stop().await;
}

#[actix::test]
async fn a_runtime_that_stops_and_comes_back_is_noticed() {
    let mut node = Node::set_up();
    node.rules.containers.period = Duration::from_millis(10);
    node.rules.images.period = HOUR;
    let mut running = Running::start(&node).await;
    running.until(|status| status.report.is_some()).await;
    let fail = server::Effect::Fail(server::Code::Unavailable, "starting".to_owned());
    node.server.fault(server::Fault::every(Rpc::ListContainers, fail));
    let status = running.until(|status| status.error.is_some()).await;
    assert!(status.report.is_some(), "the last plan stays");
    assert!(!running.view().readiness().ready());
    node.server.clear_faults();
    running.until(|status| status.error.is_none()).await;
    assert!(running.view().readiness().ready());
    // It ends although the runtime does not answer.
    let asked = node.server.calls(Rpc::ListContainers).len();
    node.server.fault(server::Fault::every(Rpc::ListContainers, server::Effect::Hang));
    while node.server.calls(Rpc::ListContainers).len() == asked {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::timeout(Duration::from_secs(20), running.stop()).await.unwrap();
}

#[actix::test]
async fn b9_a_file_system_that_cannot_be_measured_again_is_an_event() {
    let mut node = Node::set_up();
    node.rules.images.period = Duration::from_millis(10);
    // Something else that a pass does not know, before.
    fs::remove_dir(&node.rules.roots.pods).unwrap();
    fs::write(&node.rules.roots.pods, "").unwrap();
    let fail = server::Effect::Fail(server::Code::Internal, "made by the test".to_owned());
    node.server.fault(server::Fault::every(Rpc::ImageFsInfo, fail));
    let client = Client::connect(node.server.endpoint(), client::Settings::default()).await.unwrap();
    let collector = NodeCollector::new(client, node.rules.clone(), false, None, node.ledger.clone());
    let running = Running::of(&node, node.options(), collector);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    let mut found = Vec::new();
    while found.is_empty() && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
        found = events(&node).await;
    }
    running.stop().await;
    let [(reason, message)] = &found[..] else { panic!("{found:?}") };
    let said = "it is not known where images are stored: ";
    assert!(reason == "ImageGCFailed" && message.starts_with(said), "{found:?}");
}

/// Only a new process begins with what is known of the other runtime.
#[tokio::test]
async fn the_loop_ends_if_the_symlink_to_its_runtime_leads_to_another_one() {
    let (mut node, other) = (Node::set_up(), Node::set_up());
    node.rules.containers.period = Duration::from_millis(10);
    let link = node.directory.path().join("link.sock");
    symlink(node.server.endpoint().path(), &link).unwrap();
    let mut options = node.options();
    options.endpoint = Endpoint::parse(link.to_str().unwrap()).unwrap().resolved();
    let mut running = Running::with(&node, options).await;
    running.until(|status| status.report.is_some()).await;
    let fail = server::Effect::Fail(server::Code::Unavailable, "made by the test".to_owned());
    fs::remove_file(&link).unwrap();
    node.server.fault(server::Fault::every(Rpc::ListContainers, fail));
    // While it leads nowhere, the runtime may be about to start.
    running.until(|status| status.error.is_some()).await;
    symlink(other.server.endpoint().path(), &link).unwrap();
    let error = running.collecting.await.unwrap().unwrap_err().to_string();
    let now = other.server.endpoint().path().display();
    assert!(error.contains(&format!("{} leads to {now} now: start kube-gc", link.display())), "{error}");
}
