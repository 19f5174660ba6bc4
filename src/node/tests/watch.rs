//! The pods of the node are listed once and then watched, and what a watch says proves nothing.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Request;
use kube::api::DeleteParams;
use kube::client::Body;

use super::*;

/// Requests for pods, as `VERB path?query`.
#[derive(Clone, Debug, Default)]
struct Requests(Arc<Mutex<Vec<String>>>);

impl Requests {
    /// A client of the same server whose requests are noted.
    fn of(&self, client: &kube::Client) -> kube::Client {
        let (client, requests) = (client.clone(), self.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            requests.0.lock().unwrap().push(format!("{} {}", request.method(), request.uri()));
            let client = client.clone();
            async move { client.send(request).await }
        });
        kube::Client::new(service, "default")
    }

    fn count(&self, is_it: impl Fn(&str) -> bool) -> usize {
        self.0.lock().unwrap().iter().filter(|request| is_it(request)).count()
    }

    /// Lists from the cache, consistent lists, watches and live GETs.
    fn counts(&self) -> [usize; 4] {
        let is_watch = |request: &str| request.contains("watch=1");
        let is_cached = |request: &str| request.contains("resourceVersion=0");
        let is_list = |request: &str| request.starts_with("GET /api/v1/pods?") && !is_watch(request);
        [
            self.count(|request| is_list(request) && is_cached(request)),
            self.count(|request| is_list(request) && !is_cached(request)),
            self.count(is_watch),
            self.count(|request| request.starts_with("GET /api/v1/namespaces/default/pods/")),
        ]
    }
}

/// Waits until the source knows so many pods.
async fn knows(source: &PodSource, wanted: usize) {
    let knows = async || match source.view(false).await.unwrap() {
        kube_gc_node::PodView::Listed(listed) => listed.pods.len() == wanted,
        _ => false,
    };
    while !knows().await {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn the_pods_are_listed_once_and_then_watched() {
    let mut node = Node::set_up();
    let living = node.pod().await;
    node.containers(&living, 2, ContainerState::ContainerRunning);
    let requests = Requests::default();
    let source = source(requests.of(&node.api.client())).watched();
    let mut collector = node.collector_with(Some(source.clone())).await;
    for _ in 0..5 {
        collector.look(now()).await.unwrap();
    }
    let second = node.pod().await;
    let running = node.containers(&second, 1, ContainerState::ContainerRunning);
    knows(&source, 2).await;
    for _ in 0..5 {
        let look = collector.look(now()).await.unwrap();
        assert_eq!(rule(&look, What::Container, &running[0]), "C1");
    }
    assert_eq!(requests.counts(), [1, 0, 1, 0], "{requests:?}");
}

#[tokio::test]
async fn who_may_not_watch_pods_lists_them() {
    let node = Node::set_up();
    let requests = Requests::default();
    let source =
        source(requests.of(&refusing(&node.api.client(), |path| path.contains("watch=1")))).watched();
    let mut collector = node.collector_with(Some(source)).await;
    // The first list is that of the watch.
    while requests.counts()[0] < 2 {
        assert!(collector.look(now()).await.unwrap().api_error.is_none());
    }
}

#[tokio::test]
async fn safety_2_a_pod_that_the_watch_has_lost_is_gone_only_by_a_consistent_list_and_a_live_get() {
    let mut node = Node::set_up();
    let (living, deleted) = (node.pod().await, node.pod().await);
    node.containers(&living, 1, ContainerState::ContainerRunning);
    let dead = node.containers(&deleted, 1, ContainerState::ContainerExited);
    let requests = Requests::default();
    let source = source(requests.of(&node.api.client())).watched();
    let mut collector = node.collector_with(Some(source.clone())).await;
    knows(&source, 2).await;
    assert_eq!(rule(&collector.look(now()).await.unwrap(), What::Container, &dead[0]), "C5");
    assert_eq!(requests.counts()[1..], [0, 1, 0]);
    let pods: kube::Api<Pod> = kube::Api::namespaced(node.api.client(), "default");
    pods.delete(&deleted.name, &DeleteParams::default().grace_period(0)).await.unwrap();
    knows(&source, 1).await;
    assert_eq!(rule(&collector.look(now()).await.unwrap(), What::Container, &dead[0]), "C3");
    assert_eq!(requests.counts(), [1, 1, 1, 1], "{requests:?}");
}

/// Or while the runtime is asked for the image: what the watch hears then counts, too.
#[tokio::test(flavor = "multi_thread")]
async fn b2_the_image_of_a_pod_that_is_bound_between_two_removals_stays() {
    let at = [(Rpc::RemoveImage, 1), (Rpc::ImageStatus, 0)];
    for ((rpc, bound), may_watch) in at.into_iter().flat_map(|at| [(at, true), (at, false)]) {
        let mut node = Node::set_up();
        let images = node.images(18, 50);
        let requests = Requests::default();
        let client = refusing(&node.api.client(), move |path| !may_watch && path.contains("watch=1"));
        let source = source(requests.of(&client)).watched();
        while requests.counts()[2] == 0 || source.is_watched() != may_watch {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut collector = node.collector_with(Some(source.clone())).await;
        let look = collector.look(now()).await.unwrap();
        assert_eq!(requests.counts()[1], 0);
        // The call waits until the watch knows the pod.
        let (reached, mut at_call) = tokio::sync::mpsc::unbounded_channel();
        let (go_on, waits) = std::sync::mpsc::channel();
        let wait = server::Effect::before(move |_, _| {
            reached.send(()).unwrap();
            waits.recv().unwrap();
        });
        node.server.fault(server::Fault::nth(rpc, 1, wait));
        let late = async {
            at_call.recv().await.unwrap();
            bind(&node, &format!("registry.example/i00{bound}:1")).await;
            knows(&source, 1).await;
            go_on.send(()).unwrap();
        };
        let cancel = CancellationToken::new();
        let (carried, ()) = tokio::join!(collector.carry_out(&look, Scope::All, &cancel), late);
        assert_eq!((carried.unwrap().refused, node.image_ids().contains(&images[bound])), (1, true));
        assert!(!node.image_ids().contains(&images[1 - bound]));
        assert!(requests.counts()[1] >= 1, "a watch may be behind");
    }
}

/// It was listed before the first image went, and the watch does not hear of it.
#[tokio::test]
async fn b2_the_image_of_a_pod_that_the_last_consistent_list_has_stays() {
    let mut node = Node::set_up();
    let images = node.images(18, 50);
    let client = node.api.client();
    let deaf = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            if request.uri().to_string().contains("watch=1") {
                std::future::pending::<()>().await;
            }
            client.send(request).await
        }
    });
    let source = source(kube::Client::new(deaf, "default")).watched();
    let mut collector = node.collector_with(Some(source.clone())).await;
    let look = collector.look(now()).await.unwrap();
    bind(&node, "registry.example/i001:1").await;
    let carried = collector.carry_out(&look, Scope::All, &CancellationToken::new()).await.unwrap();
    assert_eq!((carried.refused, node.image_ids().contains(&images[1])), (1, true));
    assert!(!node.image_ids().contains(&images[0]));
}

#[tokio::test]
async fn b2_if_pods_cannot_be_listed_again_what_the_watch_knows_counts() {
    let mut node = Node::set_up();
    let images = node.images(18, 50);
    let is_consistent = |path: &str| path.starts_with("/api/v1/pods?") && !path.contains("resourceVersion=");
    let source = source(refusing(&node.api.client(), is_consistent)).watched();
    let mut collector = node.collector_with(Some(source.clone())).await;
    let look = collector.look(now()).await.unwrap();
    bind(&node, "registry.example/i000:1").await;
    knows(&source, 1).await;
    let carried = collector.carry_out(&look, Scope::All, &CancellationToken::new()).await.unwrap();
    assert_eq!((carried.refused, node.image_ids().contains(&images[0])), (1, true));
}

/// Their images stay, and others go.
#[tokio::test]
async fn b2_while_pods_cannot_be_read_those_known_last_hold_their_images() {
    let mut node = Node::set_up();
    let images = node.images(18, 50);
    let is_down = Arc::new(AtomicBool::new(false));
    let refuses = Arc::clone(&is_down);
    let source = source(refusing(&node.api.client(), move |_| refuses.load(Ordering::Relaxed)));
    let mut collector = node.collector_with(Some(source)).await;
    bind(&node, "registry.example/i000:1").await;
    collector.look(now()).await.unwrap();
    is_down.store(true, Ordering::Relaxed);
    for _ in 0..2 {
        let look = collector.look(now()).await.unwrap();
        assert_eq!(rule(&look, What::Image, &images[0]), "B2");
        assert!(
            look.api_error.is_some() && look.notes[0].text.contains("those known last"),
            "{:?}",
            look.notes
        );
        collector.carry_out(&look, Scope::All, &CancellationToken::new()).await.unwrap();
        assert!(node.image_ids().contains(&images[0]) && !node.image_ids().contains(&images[1]));
    }
}

/// An answer that did not come would take as long again.
#[tokio::test]
async fn b2_an_api_server_that_does_not_answer_is_not_asked_again_in_a_pass() {
    let mut node = Node::set_up();
    let images = node.images(18, 50);
    let (hangs, client, requests) =
        (Arc::new(AtomicBool::new(false)), node.api.client(), Requests::default());
    let is_hanging = Arc::clone(&hangs);
    let hanging = tower::service_fn(move |request: Request<Body>| {
        let (client, hangs) = (client.clone(), is_hanging.load(Ordering::Relaxed));
        async move { if hangs { std::future::pending().await } else { client.send(request).await } }
    });
    let settings = ApiSettings { request_timeout: Duration::from_millis(200), ..ApiSettings::default() };
    let client = requests.of(&kube::Client::new(hanging, "default"));
    let source = PodSource::new(Api::from_clients(client, settings, WriteGate::open()), NODE);
    let mut collector = node.collector_with(Some(source)).await;
    bind(&node, "registry.example/i000:1").await;
    let look = collector.look(now()).await.unwrap();
    let [cached, ..] = requests.counts();
    hangs.store(true, Ordering::Relaxed);
    let carried = collector.carry_out(&look, Scope::All, &CancellationToken::new()).await.unwrap();
    assert!(carried.removed > 1 && node.image_ids().contains(&images[0]), "{carried:?}");
    assert_eq!(requests.counts()[..2], [cached, 1]);
    assert!(carried.note.is_some_and(|note| note.text.contains("could not be listed before each image")));
}

/// Binds a pod with this image to the node.
async fn bind(node: &Node, image: &str) {
    let pods: kube::Api<Pod> = kube::Api::namespaced(node.api.client(), "default");
    let pod = json!({
        "metadata": { "name": "late" },
        "spec": { "nodeName": NODE, "containers": [{ "name": "web", "image": image }] },
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
}
