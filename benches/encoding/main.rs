//! Measures lists in JSON and in protobuf, with and without compression, in kube-gc and in a real
//! kube-apiserver: `cargo bench --bench encoding -- [OBJECTS [ROUNDS [LISTS]]]`.
//!
//! The contestants take turns. In a round, each one gets this many lists of all ConfigMaps, in
//! one piece from the server's cache, as at startup. The table has the minimum, the median and
//! the maximum of each figure over the rounds, per list. The CPU time of the server is that of
//! the whole process, in hundredths of a second, including garbage collection. The CPU time of
//! the client is that of reading the list, including TLS and decoding. The last column is
//! decoding alone, of a body in memory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod server;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, StreamBody};
use kube::client::Body;
use kube_gc::internals::api::{
    Api, ApiSettings, Encoding, HighWater, Step, WatchStart, WriteGate, load_config,
};
use kube_gc_core::object::{GroupResource, ResourceType, Scope};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use server::Server;

/// A way to request a list.
struct Contestant {
    name: &'static str,
    encoding: Encoding,
    compressed: bool,
}

const CONTESTANTS: [Contestant; 4] = [
    Contestant { name: "JSON", encoding: Encoding::Json, compressed: false },
    Contestant { name: "JSON, gzip", encoding: Encoding::Json, compressed: true },
    Contestant { name: "protobuf", encoding: Encoding::Protobuf, compressed: false },
    Contestant { name: "protobuf, gzip", encoding: Encoding::Protobuf, compressed: true },
];

/// The cost of one list.
struct Cost {
    wall: Duration,
    client: Duration,
    server: Duration,
    decoding: Duration,
}

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let of = |index: usize, default: usize| numbers.get(index).copied().unwrap_or(default);
    let (objects, rounds, lists) = (of(0, 20_000), of(1, 5), of(2, 3));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(run(objects, rounds, lists));
}

async fn run(objects: usize, rounds: usize, lists: usize) {
    let server = Server::start();
    let config = load_config(Some(&server.kubeconfig), None).await.unwrap();
    fill(&config, objects).await;
    let mut bodies = Vec::new();
    for contestant in &CONTESTANTS {
        bodies.push(body(&config, contestant).await);
    }
    let mut costs: [Vec<Cost>; 4] = Default::default();
    for _ in 0..rounds {
        for (index, contestant) in CONTESTANTS.iter().enumerate() {
            // The uncompressed body of the pair.
            let plain = &bodies[index & !1];
            costs[index].push(cost(&config, &server, contestant, plain, objects, lists).await);
        }
    }
    println!(
        "{objects} ConfigMaps with an annotation of 300 bytes, kube-apiserver {}; {rounds} rounds of {lists} lists each; \
         milliseconds per list, min/median/max\n",
        server.version
    );
    println!("| | bytes | wall | client CPU | server CPU | decoding alone |\n|---|---|---|---|---|---|");
    for ((contestant, costs), body) in CONTESTANTS.iter().zip(&costs).zip(&bodies) {
        let figure = |of: fn(&Cost) -> Duration| {
            let mut sorted: Vec<f64> = costs.iter().map(|cost| of(cost).as_secs_f64() * 1000.0).collect();
            sorted.sort_by(f64::total_cmp);
            format!("{:.0}/{:.0}/{:.0}", sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1])
        };
        println!(
            "| {} | {} | {} | {} | {} | {} |",
            contestant.name,
            body.len(),
            figure(|cost| cost.wall),
            figure(|cost| cost.client),
            figure(|cost| cost.server),
            figure(|cost| cost.decoding),
        );
    }
}

/// Creates the objects, fifty at a time.
async fn fill(config: &kube::Config, objects: usize) {
    use futures::StreamExt as _;
    let client = kube::Client::try_from(config.clone()).unwrap();
    let create = |number: usize| {
        let client = client.clone();
        async move {
            let object = json!({"metadata": {
                "name": format!("settings-{number:06}"),
                "labels": {"app": "bench"},
                "annotations": {"note": "0123456789".repeat(30)},
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "controller": true,
                    "uid": "0b1e5c1e-9b1a-4b58-8b7e-000000000001", "blockOwnerDeletion": true,
                }],
            }});
            let request = Request::post("/api/v1/namespaces/default/configmaps")
                .header("content-type", "application/json")
                .body(object.to_string().into_bytes())
                .unwrap();
            client.request::<serde_json::Value>(request).await.unwrap();
        }
    };
    futures::stream::iter(0..objects).map(create).buffer_unordered(50).for_each(|()| async {}).await;
}

/// The bytes of a list as they arrive.
async fn body(config: &kube::Config, contestant: &Contestant) -> Bytes {
    let mut config = config.clone();
    config.disable_compression = true;
    let client = kube::Client::try_from(config).unwrap();
    let media_type = match contestant.encoding {
        Encoding::Json => "application/json",
        Encoding::Protobuf => "application/vnd.kubernetes.protobuf",
    };
    let request = Request::get("/api/v1/configmaps?resourceVersion=0")
        .header("accept", format!("{media_type};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"))
        .header("accept-encoding", if contestant.compressed { "gzip" } else { "identity" })
        .body(Body::empty())
        .unwrap();
    let response = client.send(request).await.unwrap();
    let text = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(text("content-type").as_deref(), Some(media_type));
    assert_eq!(text("content-encoding").is_some(), contestant.compressed);
    response.into_body().collect().await.unwrap().to_bytes()
}

async fn cost(
    config: &kube::Config,
    server: &Server,
    contestant: &Contestant,
    plain: &Bytes,
    objects: usize,
    lists: usize,
) -> Cost {
    let settings = ApiSettings {
        encoding: contestant.encoding,
        compressed_lists: contestant.compressed,
        ..ApiSettings::default()
    };
    let api = Api::connect(config.clone(), settings.clone(), WriteGate::open()).unwrap();
    // The TLS handshake is not part of the list.
    api.probe().await.unwrap();
    let replayed = replay(plain, contestant.encoding, settings);
    let share = u32::try_from(lists).unwrap();
    let (began, client, there) = (Instant::now(), own_time(), server.processor_time());
    for _ in 0..lists {
        list(&api, objects).await;
    }
    let (wall, client, there) = (began.elapsed(), own_time() - client, server.processor_time() - there);
    let began = own_time();
    for _ in 0..lists {
        list(&replayed, objects).await;
    }
    let decoding = own_time() - began;
    Cost { wall: wall / share, client: client / share, server: there / share, decoding: decoding / share }
}

/// Reads the whole list, and frees each part of it at once.
async fn list(api: &Api, objects: usize) {
    let resource = Arc::new(ResourceType {
        group_resource: GroupResource::parse("configmaps"),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        scope: Scope::Namespaced,
    });
    let mut watch = api.watch(resource, WatchStart { high_water: HighWater::default(), aggregated: false });
    let mut seen = 0;
    loop {
        match watch.next().await.expect("it goes on") {
            Step::Init { .. } => {}
            Step::InitApply(items) => seen += items.len(),
            Step::InitDone { .. } => break,
            step => panic!("{step:?}"),
        }
    }
    assert!(seen >= objects, "{seen}");
}

/// A server that answers this list from memory, in chunks like those of a socket.
fn replay(body: &Bytes, encoding: Encoding, settings: ApiSettings) -> Api {
    const CHUNK: usize = 16 << 10;
    let content_type = match encoding {
        Encoding::Json => "application/json",
        Encoding::Protobuf => "application/vnd.kubernetes.protobuf",
    };
    let body = body.clone();
    let service = tower::service_fn(move |_: Request<Body>| {
        let body = body.clone();
        let chunks = (0..body.len().div_ceil(CHUNK)).map(move |index| {
            let chunk = body.slice(index * CHUNK..body.len().min((index + 1) * CHUNK));
            Ok::<_, std::convert::Infallible>(http_body::Frame::data(chunk))
        });
        let response = Response::builder().header("content-type", content_type);
        let response = response.body(StreamBody::new(futures::stream::iter(chunks))).unwrap();
        async move { Ok::<_, std::convert::Infallible>(response) }
    });
    let client = kube::Client::new(service, "default");
    Api::from_clients(client, settings, WriteGate::open())
}

/// The CPU time of this process.
fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}
