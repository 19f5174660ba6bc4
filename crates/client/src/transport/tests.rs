//! A server of TLS that counts its connections, and what watches make of it.

mod server;

use std::time::Duration;

use http::Request;
use http_body_util::BodyExt as _;
use kube::client::Body;
use tokio::time::timeout;

use super::*;
use server::{Manners, Server};

/// The time limit for events that are certain to follow.
const SOON: Duration = Duration::from_secs(30);

/// The other end has closed the connection. Or it has vanished, or a device in between drops all packets.
/// Then nobody closes the connection: fails if it is not probed.
#[tokio::test]
async fn watches_on_a_broken_or_dead_connection_end_and_are_replaced() {
    for end in [Server::cut, Server::freeze] {
        let server = Server::start(Manners::default()).await;
        let connection = Connection::new(server.config()).unwrap();
        let pings = Pings { interval: Duration::from_millis(50), timeout: Duration::from_millis(500) };
        let transport = Transport::shared(&connection, &ApiSettings::default(), pings).unwrap();
        let client = with_layers(&connection, transport.service(), Some(WriteGate::open())).unwrap();
        for connections in [1, 2] {
            let mut open = watches(&client, "/hello", 20).await;
            for watch in &mut open {
                assert_eq!(next(watch).await.unwrap(), "hello");
            }
            assert_eq!(server.connections(), connections);
            end(&server);
            for watch in &mut open {
                next(watch).await.unwrap_err();
            }
        }
    }
}

/// Where HTTP/1.1 is spoken there are no pings, and where nothing is sent nothing shows.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_kernel_probes_every_connection() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let config = kube::Config::new(url.parse().unwrap());
    let connection = tower::ServiceExt::oneshot(tcp(&config), url.parse().unwrap()).await.unwrap();
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let [local, remote] = [connection.inner().local_addr(), listener.local_addr()]
        .map(|address| format!("0100007F:{:04X}", address.unwrap().port()));
    let is_it = |row: &&str| row.split_whitespace().skip(1).take(2).eq([&*local, &*remote]);
    let row = table.lines().find(is_it).unwrap();
    // Kind 2 is the timer of keepalive; what is left of it comes in hundredths of a second.
    let (kind, left) = row.split_whitespace().nth(5).unwrap().split_once(':').unwrap();
    let left = u64::from_str_radix(left, 16).unwrap();
    assert_eq!(kind, "02", "{row}");
    assert!((1..=KEEPALIVE_AFTER.as_secs() * 100).contains(&left), "{row}");
}

fn connect(config: &kube::Config, request_timeout: Duration) -> kube::Client {
    let settings = ApiSettings { request_timeout, ..ApiSettings::default() };
    super::watches(&Connection::new(config.clone()).unwrap(), &settings, WriteGate::open()).unwrap()
}

async fn watch(client: &kube::Client, path: &str) -> Response<Body> {
    let request = Request::get(path).body(Body::empty()).unwrap();
    timeout(SOON, client.send(request)).await.expect("an answer").unwrap()
}

async fn watches(client: &kube::Client, path: &str, count: usize) -> Vec<Response<Body>> {
    futures::future::join_all((0..count).map(|_| watch(client, path))).await
}

/// The next part of a watch, or that it broke.
async fn next(watch: &mut Response<Body>) -> Result<Bytes, kube::Error> {
    let frame = timeout(SOON, watch.body_mut().frame()).await.expect("something to come");
    frame.expect("no end").map(|frame| frame.into_data().expect("data"))
}

#[tokio::test]
async fn many_watches_share_few_connections() {
    let server = Server::start(Manners::default()).await;
    let client = connect(&server.config(), SOON);
    let mut open = watches(&client, "/hello", 2 * STREAMS as usize + 1).await;
    assert_eq!(server.connections(), 3);
    for watch in &mut open {
        assert_eq!(next(watch).await.unwrap(), "hello");
    }
    // An end makes room.
    open.truncate(10);
    open.extend(watches(&client, "/hello", 70).await);
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn an_answer_by_http1_has_its_own_connection_and_ends_with_it() {
    let server = Server::start(Manners { http2: false, ..Manners::default() }).await;
    let client = connect(&server.config(), SOON);
    let mut open = watches(&client, "/flood", 3).await;
    for watch in &mut open {
        let mut size = 0;
        while size < 1 << 20 {
            size += next(watch).await.unwrap().len();
        }
    }
    assert_eq!(server.connections(), 4, "it was asked for HTTP/2 once");
    // That which showed the server to be one of HTTP/1.1 is gone; one that is dropped goes.
    server.until_open(3).await;
    open.truncate(2);
    server.until_open(2).await;
    server.cut();
    for watch in &mut open {
        while next(watch).await.is_ok() {}
    }
}

#[tokio::test]
async fn a_watch_that_is_not_read_delays_no_other() {
    let server = Server::start(Manners::default()).await;
    let client = connect(&server.config(), SOON);
    let _unread = watches(&client, "/flood", STREAMS as usize - 1).await;
    server.until_flooded(STREAMS as usize - 1).await;
    let mut read = watch(&client, "/flood").await;
    assert_eq!(server.connections(), 1);
    let mut size = 0;
    while size < 2 * CONNECTION_WINDOW as usize {
        size += next(&mut read).await.unwrap().len();
    }
}

#[tokio::test]
async fn a_server_that_admits_fewer_streams_gets_more_connections() {
    let server = Server::start(Manners { streams: 4, ..Manners::default() }).await;
    let patience = Duration::from_secs(2);
    let client = connect(&server.config(), patience);
    let open = watches(&client, "/hello", 4).await;
    let request = || Request::get("/hello").body(Body::empty()).unwrap();
    let mut fifth = Box::pin(client.send(request()));
    // It has its slot before its time counts: on a busy machine, it might be given up too early to
    // show anything. No network is needed for that.
    for _ in 0..10 {
        assert!(futures::poll!(&mut fifth).is_pending());
        tokio::task::yield_now().await;
    }
    timeout(patience, fifth).await.expect_err("it waits in silence");
    let mut more = watches(&client, "/hello", 4).await;
    for watch in &mut more {
        assert_eq!(next(watch).await.unwrap(), "hello");
    }
    assert_eq!((server.connections(), open.len()), (2, 4));
}

#[tokio::test]
async fn nothing_is_written_past_the_gate() {
    let server = Server::start(Manners::default()).await;
    let connection = Connection::new(server.config()).unwrap();
    let client = super::watches(&connection, &ApiSettings::default(), WriteGate::dry_run()).unwrap();
    let request = Request::delete("/hello").body(Body::empty()).unwrap();
    client.send(request).await.map(|answer| answer.status()).unwrap_err();
    assert_eq!(server.connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_hanging_handshake_is_cancelled() {
    let error = timely(std::future::pending::<Result<(), BoxError>>(), Some(SOON)).await.unwrap_err();
    assert_eq!(error.to_string(), "no connection within 30s");
}
