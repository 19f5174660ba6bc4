use http::{Request, Response};
use kube::client::Body;

use super::*;
use crate::testing::{Part, Reply, Server, order, widget, widget_json};
use crate::{Clock, ErrorClass, EventType, ReplicaRole};
use kube_gc_observe::telemetry::DeletionLag;

#[tokio::test(start_paused = true)]
async fn every_call_ends_in_time() {
    for reply in [Reply::never(), Reply::stream([Part::Data("{".into()), Part::Hang])] {
        let server = Server::replying([reply]);
        let begun = Instant::now();
        let error = server.api().look_up(&widget()).await.unwrap_err();
        assert_eq!((error.class, error.code), (ErrorClass::Transient, None));
        assert_eq!(begun.elapsed(), Duration::from_secs(30));
    }
}

/// Rule 6.7.
#[tokio::test]
async fn no_write_passes_a_closed_gate() {
    for (gate, class) in
        [(WriteGate::dry_run(), ErrorClass::DryRun), (WriteGate::open(), ErrorClass::GateClosed)]
    {
        gate.pause();
        let server = Server::replying([Reply::ok(widget_json(""))]);
        let api = server.api_with(ApiSettings::default(), gate);
        let widget = widget();
        let error = api.delete(&order(&widget), None).await.unwrap_err();
        assert_eq!(error.class, class);
        assert_eq!(api.tell(&widget, EventType::Warning, "r", "m").await.unwrap_err().class, class);
        assert!(server.seen().is_empty());
        assert!(api.look_up(&widget).await.is_ok(), "reads need no gate");
    }
}

/// Rule 6.8.
#[tokio::test(start_paused = true)]
async fn the_gate_is_checked_after_the_wait_for_the_rate_limit() {
    let server = Server::answering(|_| Reply::ok(widget_json("")));
    let gate = WriteGate::open();
    let settings = ApiSettings { qps: 1, burst: 1, ..ApiSettings::default() };
    let api = server.api_with(settings, gate.clone());
    let widget = widget();
    api.look_up(&widget).await.unwrap();
    let order = order(&widget);
    let (deleted, ()) = tokio::join!(api.delete(&order, None), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        gate.pause();
    });
    assert_eq!(deleted.unwrap_err().class, ErrorClass::GateClosed);
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn only_requests_about_single_objects_wait_for_the_rate_limit() {
    let server = Server::answering(|seen| {
        let list = r#"{"kind":"List","metadata":{"resourceVersion":"1"},"items":[]}"#;
        Reply::ok(if seen.path.contains("limit=") { list.into() } else { widget_json("") })
    });
    let settings = ApiSettings { qps: 1, burst: 1, ..ApiSettings::default() };
    let api = server.api_with(settings, WriteGate::open());
    let (widget, start) = (widget(), Instant::now());
    api.look_up(&widget).await.unwrap();
    for _ in 0..10 {
        api.list(&widget.resource, None, None, |_| ()).await.unwrap();
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    api.look_up(&widget).await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(900), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_gate_that_closes_in_the_clients_queue_is_reported_as_closed() {
    use tower::Layer as _;

    let below = WriteGate::open();
    below.pause();
    let transport = tower::service_fn(|_: Request<Body>| async {
        Ok::<_, tower::BoxError>(Response::new(Body::empty()))
    });
    let client = || {
        let layer = crate::write_gate::gate_layer(below.clone());
        kube::Client::new(layer.layer(transport), "default")
    };
    let api = Api::from_clients(client(), ApiSettings::default(), WriteGate::open());
    let error = api.delete(&order(&widget()), None).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::GateClosed);
}

#[tokio::test(start_paused = true)]
async fn a_write_in_flight_is_cancelled_when_the_lease_is_lost() {
    for is_withdrawn in [true, false] {
        let clock = Clock::runtime();
        let gate = WriteGate::leased(clock);
        gate.grant(clock.now() + Duration::from_secs(if is_withdrawn { 10 } else { 3 }));
        gate.announce(ReplicaRole::Leading { term: 1 });
        let server = Server::replying([Reply::never()]);
        let api = server.api_with(ApiSettings::default(), gate.clone());
        let start = Instant::now();
        let lost = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            if is_withdrawn {
                gate.withdraw();
                gate.announce(ReplicaRole::Standby { holder: None });
            }
        };
        let widget = widget();
        let order = order(&widget);
        let (deleted, ()) = tokio::join!(api.delete(&order, None), lost);
        let error = deleted.unwrap_err();
        assert_eq!(error.class, ErrorClass::Transient, "it may have taken effect");
        assert_eq!(start.elapsed(), Duration::from_secs(3), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_lag_of_a_deletion_ends_only_with_a_delete_that_was_sent() {
    let server = Server::answering(|seen| match seen.method.as_str() {
        "DELETE" => Reply::ok(r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#),
        _ => Reply::ok(widget_json("")),
    });
    let gate = WriteGate::open();
    let api = server.api_with(ApiSettings::default(), gate.clone());
    let (widget, lag) = (widget(), DeletionLag::since(Instant::now()));
    gate.pause();
    let order = order(&widget);
    let attempt = api.delete(&order, None);
    DeletionLag::scope(Some(lag.clone()), attempt).await.unwrap_err();
    DeletionLag::scope(Some(lag.clone()), api.look_up(&widget)).await.unwrap();
    assert!(lag.open_since().is_some(), "nothing was deleted");
    gate.resume();
    let attempt = api.delete(&order, None);
    DeletionLag::scope(Some(lag.clone()), attempt).await.unwrap();
    assert_eq!(lag.open_since(), None);
}

/// The API server's own words, which are no `Status`.
fn too_many() -> Reply {
    Reply::code(429, "Too many requests, please try again later.\n").header("retry-after", "1")
}

/// A server that takes 10 ms for each request about an object, and rejects further ones when it
/// has this many.
fn small_server(bears: usize) -> Server {
    let mut busy = std::collections::VecDeque::new();
    Server::answering(move |seen| {
        busy.retain(|until| *until > seen.at);
        if busy.len() >= bears {
            return too_many();
        }
        busy.push_back(seen.at + Duration::from_millis(10));
        Reply::stream([Part::Pause(Duration::from_millis(10)), Part::Data(widget_json("").into())])
    })
}

/// 20 workers, each with 100 objects, and a server that accepts 4 requests at a time
/// (rule 8.7). Fails if each worker finds out by itself, again and again, that the server
/// is overloaded.
#[tokio::test(start_paused = true)]
async fn a_429_halves_the_shared_limit() {
    let server = small_server(4);
    let api = server.api();
    let (widget, start) = (widget(), Instant::now());
    let worker = async || {
        for _ in 0..100 {
            while let Err(error) = api.look_up(&widget).await {
                assert!(matches!(error.class, ErrorClass::Throttled { retry_after: Some(_) }), "{error}");
            }
        }
    };
    futures::future::join_all((0..20).map(|_| worker())).await;
    let refused = server.seen().len() - 2000;
    // 16, 6 and 1 of the first groups; then one for each increase, which takes 64 requests.
    assert!(refused <= 23 + 2000 / 64, "{refused} refusals");
    // 5 s if four are always under way.
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
}

/// Rule 8.6.
#[tokio::test(start_paused = true)]
async fn a_429_about_one_object_delays_no_other() {
    let denial = r#"admission webhook "x.y" denied the request: come back later"#;
    for (reply, class, elapsed) in
        [(Reply::status(429, denial, "{}"), "Denied", 0), (too_many(), "Throttled", 100)]
    {
        let server = Server::answering(move |_| reply.clone());
        let (api, widget) = (server.api(), widget());
        let start = Instant::now();
        for _ in 0..3 {
            let error = api.delete(&order(&widget), None).await.unwrap_err();
            assert!(format!("{:?}", error.class).starts_with(class), "{error}");
        }
        assert_eq!(start.elapsed(), Duration::from_millis(elapsed));
    }
}

#[tokio::test(start_paused = true)]
async fn the_gate_is_checked_after_the_wait_for_a_slot() {
    let server = Server::replying([too_many(), too_many(), Reply::ok(widget_json(""))]);
    let gate = WriteGate::open();
    let api = server.api_with(ApiSettings::default(), gate.clone());
    let widget = widget();
    for _ in 0..2 {
        api.look_up(&widget).await.unwrap_err();
    }
    let order = order(&widget);
    let (deleted, ()) = tokio::join!(api.delete(&order, None), async {
        // It waits for the end of a pause.
        tokio::time::sleep(Duration::from_millis(10)).await;
        gate.pause();
    });
    assert_eq!(deleted.unwrap_err().class, ErrorClass::GateClosed);
    assert_eq!(server.seen().len(), 2);
}

/// Fails if a server that has much to do looks as if it hung.
#[tokio::test(start_paused = true)]
async fn the_wait_for_a_slot_does_not_count_towards_the_timeout() {
    let slow = || Reply::stream([Part::Pause(Duration::from_secs(3)), Part::Data(widget_json("").into())]);
    let mut replies = vec![slow(), slow(), slow(), too_many()];
    let server = Server::answering(move |_| replies.pop().unwrap_or_else(slow));
    let api = server.api().within(Duration::from_millis(3500));
    let widget = widget();
    api.look_up(&widget).await.unwrap_err();
    let start = Instant::now();
    let answers = futures::future::join_all((0..3).map(|_| api.look_up(&widget))).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    // The others begin when the first one hangs.
    assert!(start.elapsed() >= Duration::from_secs(4), "one after the other: {:?}", start.elapsed());
    let late = server.api().within(Duration::from_secs(2)).look_up(&widget).await.unwrap_err();
    assert_eq!((late.class, &*late.message), (ErrorClass::Transient, "no answer within 2s"));
}
