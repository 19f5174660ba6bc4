mod scripted;

use std::collections::BTreeMap;
use std::time::Duration;

use actix::{Addr, Context, Handler, System};
use tokio::time::Instant;

use self::scripted::{Scripted, start, status, tried, tries, until, working};
use super::child::{Panic, as_child, is_child};
use super::{in_system, key};
use crate::actors::pool::{
    AFTER_CONFLICT_AT_MOST, AskParked, AskStuck, CLOSED_CAPACITY, Close, Enqueue, MAX_WITHOUT_SLOT, Pool,
    PoolCommand, StuckKey, StuckKeys,
};
use crate::actors::supervision::FATAL_EXIT_CODE;
use kube_gc_core::graph::StuckFilter;
use kube_gc_core::object::{GroupResource, Namespace};
use kube_gc_observe::telemetry::{Exporter, Queue, StuckReason};

fn attempts(item: &StuckKey) -> u32 {
    item.failure.as_ref().unwrap().0
}

fn error(item: &StuckKey) -> &str {
    &item.failure.as_ref().unwrap().1
}

#[test]
fn a_panic_or_a_key_that_always_fails_delays_no_other_key() {
    let (recorder, exporter) = Exporter::local();
    let _recording = metrics::set_default_local_recorder(&recorder);
    in_system(async {
        // With one worker, nothing would be done any more if a panic ended it.
        let mut keys = vec![key("a", "panics"), key("a", "denied")];
        keys.extend((0..20).map(|number| key("a", &format!("fine-{number}"))));
        let (work, pool) = working(1, &keys);
        tried(&work, |tries| tries.keys().filter(|name| name.contains("fine")).count() == 20).await;
        let status = until(&pool, |status| {
            status.failing.len() == 2 && status.failing.iter().all(|item| attempts(item) > 3)
        })
        .await;
        let failing: BTreeMap<_, _> =
            status.failing.iter().map(|item| (item.key.uid.to_string(), item)).collect();
        assert_eq!(failing.len(), 2, "exactly the failing keys are named");
        assert_eq!(failing["a/panics"].reason, StuckReason::Panicked);
        assert!(error(failing["a/panics"]).contains("boom over a/panics"));
        assert!(error(failing["a/denied"]).contains("says the webhook"), "the error of the server is quoted");
    });
    let page = exporter.render();
    let restarts = page
        .lines()
        .find(|line| line.starts_with("kube_gc_worker_restarts_total") && line.contains("to_delete"))
        .unwrap();
    assert!(!restarts.ends_with(" 0"), "{restarts}");
}

/// Rule 8.9.
#[test]
fn a_closed_pool_queues_and_does_not_work() {
    in_system(async {
        let (work, pool) = start(2);
        pool.do_send(Enqueue::from(vec![key("a", "fine")]));
        assert_eq!(status(&pool).await.sample.ready, 1);
        assert!(work.tries.borrow().is_empty());
        pool.do_send(PoolCommand::Open);
        tried(&work, |tries| tries.contains_key("a/fine")).await;
    });
}

/// Fails if backoff grows with each conflict: an object that changes a hundred times a second would
/// be tried ever more rarely.
#[test]
fn conflicts_do_not_increase_backoff_until_there_are_very_many() {
    in_system(async {
        let begun = Instant::now();
        let (work, _pool) = working(1, &[key("a", "changing")]);
        tried(&work, |of| tries(of, "a/changing") == 200).await;
        assert!(begun.elapsed() < AFTER_CONFLICT_AT_MOST * 201, "{:?}", begun.elapsed());
        tried(&work, |of| tries(of, "a/changing") == 268).await;
        assert!(begun.elapsed() > Duration::from_secs(600), "{:?}", begun.elapsed());
    });
}

/// Fails if the queue of a standby grows with every object that the leader collects.
#[test]
fn a_closed_pool_keeps_a_limited_number_of_keys() {
    in_system(async {
        // Without workers, no key leaves the pool.
        let (_, pool) = start(0);
        let many = |namespace: &str| -> Vec<_> {
            (0..10_000).map(|number| key(namespace, &number.to_string())).collect()
        };
        for batch in 0..10 {
            pool.do_send(Enqueue::from(many(&format!("n{batch}"))));
        }
        assert_eq!(status(&pool).await.sample.ready, CLOSED_CAPACITY);
        // An open pool keeps all keys.
        pool.do_send(PoolCommand::Open);
        pool.do_send(Enqueue::from(many("open")));
        assert_eq!(status(&pool).await.sample.ready, CLOSED_CAPACITY + 10_000);
    });
}

#[test]
fn closing_waits_for_the_keys_in_progress() {
    in_system(async {
        let (work, pool) = working(1, &[key("a", "blocks"), key("a", "fine")]);
        tried(&work, |tries| tries.contains_key("a/blocks")).await;
        let mut closed = Box::pin(pool.send(Close));
        let early = tokio::time::timeout(Duration::from_secs(60), &mut closed).await;
        assert!(early.is_err(), "the blocked key is still in progress");
        work.release.notify_one();
        closed.await.unwrap();
        let status = status(&pool).await;
        assert_eq!((status.sample.ready, status.sample.processing), (1, 0), "the other key stays queued");
    });
}

/// Rule 8.10.
#[test]
fn opening_resets_all_backoff() {
    in_system(async {
        let (work, pool) = working(1, &[key("a", "denied")]);
        tried(&work, |of| tries(of, "a/denied") >= 17).await;
        pool.send(Close).await.unwrap();
        assert!(status(&pool).await.failing[0].next_retry > Duration::from_secs(100));
        let before = tokio::time::Instant::now();
        pool.do_send(PoolCommand::Open);
        tried(&work, |of| tries(of, "a/denied") >= 18).await;
        assert_eq!(before.elapsed(), Duration::ZERO);
        let status = until(&pool, |status| status.sample.delayed == 1).await;
        assert!(attempts(&status.failing[0]) < 5, "the failure count is reset, too");
    });
}

/// A type that can be listed again wakes only the keys that wait for it, and a change of discovery all
/// that wait for types.
#[test]
fn a_discovery_change_wakes_unresolved_keys_and_no_others() {
    in_system(async {
        let keys = ["unresolved", "unresolved/2", "denied"].map(|name| key("a", name));
        let (work, pool) = working(1, &keys);
        tried(&work, |of| of.len() == 3 && of.values().all(|tries| *tries >= 17)).await;
        until(&pool, |status| (status.sample.parked, status.sample.delayed) == (2, 1)).await;
        let mut parked = pool.send(AskParked).await.unwrap();
        parked.sort_by_key(|key| key.uid.to_string());
        assert_eq!(parked, keys[..2]);
        *work.served.lock().unwrap() = true;
        let (before, earlier) = (Instant::now(), work.tries.borrow().clone());
        pool.do_send(PoolCommand::Wake([keys[1].clone(), keys[2].clone(), key("a", "unknown")].into()));
        tried(&work, |of| tries(of, "a/unresolved/2") > tries(&earlier, "a/unresolved/2")).await;
        until(&pool, |status| {
            (status.sample.parked, status.sample.delayed, status.sample.processing) == (1, 1, 0)
        })
        .await;
        assert_eq!(tries(&work.tries.borrow(), "a/unresolved"), tries(&earlier, "a/unresolved"));
        pool.do_send(PoolCommand::WakeUnresolved);
        tried(&work, |of| tries(of, "a/unresolved") > tries(&earlier, "a/unresolved")).await;
        until(&pool, |status| {
            (status.sample.parked, status.sample.delayed, status.sample.processing) == (0, 1, 0)
        })
        .await;
        assert_eq!(tries(&work.tries.borrow(), "a/denied"), tries(&earlier, "a/denied"));
        assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
    });
}

#[test]
fn a_worker_that_releases_its_slot_delays_no_key_and_adds_no_slot() {
    in_system(async {
        let (work, pool) = working(1, &[]);
        for namespace in ["x", "y", "z"] {
            pool.do_send(Enqueue::from(vec![key(namespace, "waits"), key(namespace, "fine")]));
            tried(&work, |tries| tries.contains_key(&format!("{namespace}/fine"))).await;
        }
        assert_eq!(until(&pool, |status| status.sample.processing == 3).await.sample.ready, 0);
        // A worker that keeps its slot occupies the only one.
        pool.do_send(Enqueue::from(vec![key("a", "blocks"), key("a", "last")]));
        tried(&work, |tries| tries.contains_key("a/blocks")).await;
        let status = until(&pool, |status| (status.sample.ready, status.sample.processing) == (1, 4)).await;
        assert_eq!(status.sample.delayed, 0);
        work.release.notify_waiters();
        tried(&work, |tries| tries.contains_key("a/last")).await;
        until(&pool, |status| (status.sample.ready, status.sample.processing) == (0, 0)).await;
        // Workers that finished without a slot do not add slots.
        pool.do_send(Enqueue::from(vec![key("b", "blocks"), key("b", "fine")]));
        tried(&work, |tries| tries.contains_key("b/blocks")).await;
        assert_eq!(until(&pool, |status| status.sample.processing == 1).await.sample.ready, 1);
        work.release.notify_one();
        tried(&work, |tries| tries.contains_key("b/fine")).await;
    });
}

#[test]
fn a_limited_number_of_workers_release_their_slot() {
    in_system(async {
        assert_eq!(MAX_WITHOUT_SLOT, 128, "the documented limit");
        let keys: Vec<_> =
            (0..MAX_WITHOUT_SLOT + 2).map(|number| key(&number.to_string(), "waits")).collect();
        let (work, pool) = working(1, &keys);
        let status = until(&pool, |status| status.sample.processing > MAX_WITHOUT_SLOT).await;
        // The last worker keeps its slot.
        assert_eq!((status.sample.processing, status.sample.ready), (MAX_WITHOUT_SLOT + 1, 1));
        work.release.notify_waiters();
        until(&pool, |status| (status.sample.processing, status.sample.ready) == (1, 0)).await;
        work.release.notify_waiters();
        until(&pool, |status| status.sample.processing == 0).await;
    });
}

impl Handler<Panic> for Pool<Scripted> {
    type Result = ();

    fn handle(&mut self, _: Panic, _: &mut Context<Self>) {
        panic!("the mailbox is broken");
    }
}

/// actix drops an actor that panicked and continues. Unless the process ends, nothing would be
/// collected any more, unnoticed.
#[test]
fn a_panic_of_a_pool_ends_the_process() {
    if is_child() {
        System::new().block_on(async {
            let (_, pool) = start(1);
            pool.do_send(Panic);
            std::future::pending::<()>().await;
        });
        return;
    }
    let (code, said) = as_child("actors::tests::pool::a_panic_of_a_pool_ends_the_process");
    assert_eq!(code, Some(FATAL_EXIT_CODE), "{said}");
    assert!(said.contains("the mailbox is broken"), "{said}");
    let name = Queue::AttemptToDelete.name();
    assert!(said.contains(&format!("kube-gc: {name} panicked")), "{said}");
}

/// Fails if a try without a DELETE discards the moment of the owner's deletion: the metric would
/// miss the slowest deletions.
#[test]
fn the_deletion_lag_includes_all_tries() {
    let (recorder, exporter) = Exporter::local();
    let _recording = metrics::set_default_local_recorder(&recorder);
    in_system(async {
        let (work, pool) = working(1, &[]);
        let seen = tokio::time::Instant::now();
        tokio::time::sleep(Duration::from_millis(3)).await;
        let keys = vec![(key("a", "fine"), None), (key("a", "late"), Some(seen))];
        pool.do_send(Enqueue(keys));
        tried(&work, |tries| tries.get("a/late") == Some(&2)).await;
        until(&pool, |status| status.failing.is_empty() && status.sample.processing == 0).await;
        let page = exporter.render();
        let sum = page.lines().find_map(|line| line.strip_prefix("kube_gc_deletion_lag_seconds_sum "));
        let sum: f64 = sum.unwrap().parse().unwrap();
        // 3 ms until it was queued, 5 ms of backoff, 2 ms of work.
        assert!((0.0099..0.02).contains(&sum), "{sum}");
        assert!(page.contains("kube_gc_deletion_lag_seconds_count 1\n"), "{page}");
    });
}

/// The number of keys that are stuck for a reason, and all named keys.
async fn stuck(
    pool: &Addr<Pool<Scripted>>,
    filter: StuckFilter,
    only: Option<StuckReason>,
    reason: StuckReason,
) -> (usize, Vec<(String, StuckReason)>) {
    let StuckKeys { tallies, named } = pool.send(AskStuck { filter, only }).await.unwrap();
    let count = tallies.iter().find(|(of, _)| *of == reason).unwrap().1.count;
    (count, named.into_iter().map(|stuck| (stuck.key.uid.to_string(), stuck.reason)).collect())
}

#[test]
fn a_key_that_keeps_failing_is_stuck_until_it_is_done() {
    in_system(async {
        let all = || StuckFilter { limit: 10, ..StuckFilter::default() };
        let (work, pool) = working(1, &[key("a", "denied"), key("b", "unresolved"), key("b", "fine")]);
        tried(&work, |of| tries(of, "b/unresolved") > 2 && tries(of, "b/fine") == 1).await;
        assert_eq!(
            stuck(&pool, all(), None, StuckReason::Failed).await,
            (0, Vec::new()),
            "failing for a moment only"
        );
        tried(&work, |of| tries(of, "a/denied") > 12 && tries(of, "b/unresolved") > 12).await;
        until(&pool, |status| status.sample.processing == 0).await;

        let named = |name: &str, reason| (name.to_owned(), reason);
        let failed = named("a/denied", StuckReason::Failed);
        let unresolved = named("b/unresolved", StuckReason::Unresolved);
        let (namespace, pods) = (Namespace::parse("b"), GroupResource::parse("pods"));
        for (filter, only, of, count, expected) in [
            (StuckFilter { namespace, ..all() }, None, StuckReason::Failed, 0, vec![unresolved]),
            // All are counted, even if fewer are named.
            (all(), Some(StuckReason::Failed), StuckReason::Unresolved, 1, vec![failed]),
            (StuckFilter { limit: 0, ..all() }, None, StuckReason::Unresolved, 1, Vec::new()),
            (StuckFilter { resource: Some(pods), ..all() }, None, StuckReason::Failed, 0, Vec::new()),
        ] {
            assert_eq!(stuck(&pool, filter, only, of).await, (count, expected));
        }

        *work.served.lock().unwrap() = true;
        pool.do_send(PoolCommand::WakeUnresolved);
        until(&pool, |status| {
            status.sample.parked == 0 && status.sample.processing == 0 && status.sample.ready == 0
        })
        .await;
        assert_eq!(stuck(&pool, all(), None, StuckReason::Unresolved).await.0, 0, "it is done");
    });
}
