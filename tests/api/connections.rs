//! Watches share connections, and continue after connections break.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use kube_gc_client::{
    Api, ApiSettings, HighWater, ListWatch, Step, WatchProtocol, WatchSettings, WatchStart, WriteGate,
    load_config,
};
use kube_gc_core::graph::WatchEvent;
use kube_gc_core::object::Uid;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::{Bench, next};

/// The ALPN protocols that a client offers, in clear text, if it supports HTTP/2.
const HTTP_2: &[u8] = b"\x02h2\x08http/1.1";

/// More watches than share one connection.
const WATCHES: usize = 100;

/// Forwards bytes, and counts connections of clients that offer HTTP/2.
struct Relay {
    address: SocketAddr,
    seen: Arc<Counters>,
}

#[derive(Default)]
struct Counters {
    http2: AtomicUsize,
    cut: Mutex<CancellationToken>,
}

impl Relay {
    async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let relay = Self { address: listener.local_addr().unwrap(), seen: Arc::default() };
        let seen = Arc::clone(&relay.seen);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let cut = seen.cut.lock().unwrap().clone();
                let handing_on = hand_on(client, server, Arc::clone(&seen));
                tokio::spawn(async move { cut.run_until_cancelled(handing_on).await });
            }
        });
        relay
    }

    /// Ends all connections.
    fn cut(&self) {
        std::mem::take(&mut *self.seen.cut.lock().unwrap()).cancel();
    }

    /// The number of connections so far that offered HTTP/2.
    fn count(&self) -> usize {
        self.seen.http2.load(Ordering::SeqCst)
    }
}

async fn hand_on(mut client: TcpStream, server: SocketAddr, seen: Arc<Counters>) {
    let mut hello = [0; 2048];
    let length = client.peek(&mut hello).await.unwrap_or(0);
    let is_http2 = hello[..length].windows(HTTP_2.len()).any(|window| window == HTTP_2);
    seen.http2.fetch_add(usize::from(is_http2), Ordering::SeqCst);
    let mut server = TcpStream::connect(server).await.unwrap();
    // Either side may end the connection in any way.
    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
}

/// Compares both watch protocols.
pub async fn are_shared(bench: &Bench) {
    assert_eq!(follow(bench, WatchProtocol::Http2).await, [2, 4]);
    assert_eq!(follow(bench, WatchProtocol::Http1).await, [0, 0]);
}

/// Opens watches, receives an event on each, cuts all connections, and receives another event on
/// each. Returns how many connections had offered HTTP/2 by then.
async fn follow(bench: &Bench, watch_protocol: WatchProtocol) -> [usize; 2] {
    let mut config = load_config(Some(bench.server.kubeconfig()), None).await.unwrap();
    let server = config.cluster_url.authority().unwrap().as_str().parse().unwrap();
    let relay = Relay::to(server).await;
    config.cluster_url = format!("https://{}", relay.address).parse().unwrap();
    let settings = ApiSettings {
        watch_protocol,
        watch: WatchSettings { least_backoff: Duration::from_millis(50), ..WatchSettings::default() },
        ..ApiSettings::default()
    };
    let api = Api::connect(config, settings, WriteGate::open()).unwrap();
    let resource = bench.resource("v1", "ConfigMap");
    let mut watches: Vec<ListWatch> = (0..WATCHES)
        .map(|_| {
            let start = WatchStart { high_water: HighWater::default(), aggregated: false };
            api.watch(Arc::clone(&resource), start)
        })
        .collect();
    join_all(
        watches
            .iter_mut()
            .map(|watch| async { while !matches!(next(watch).await, Step::InitDone { .. }) {} }),
    )
    .await;

    let mut counts = [0; 2];
    for count in &mut counts {
        let (created, _) = bench.create("v1", "ConfigMap", json!({})).await;
        join_all(watches.iter_mut().map(|watch| until_seen(watch, &created.uid))).await;
        *count = relay.count();
        relay.cut();
    }
    counts
}

async fn until_seen(watch: &mut ListWatch, uid: &Uid) {
    let is_it = |event: &WatchEvent| matches!(event, WatchEvent::Apply(facts) if facts.uid == *uid);
    loop {
        if let Step::Events(events) = next(watch).await
            && events.iter().any(is_it)
        {
            return;
        }
    }
}
