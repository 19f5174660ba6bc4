use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::{Actor, Addr, Context, Handler, System};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::child::{Panic, as_child, is_child};
use super::{in_system, key};
use crate::actors::messages::{AskParked, Close, Enqueue, Open, Wake, WakeUnresolved};
use crate::actors::pool::{
    AFTER_CONFLICT_AT_MOST, ASIDE_AT_MOST, AskPool, AskStuck, CLOSED_CAPACITY, Outcome, Place, Pool,
    PoolStatus, StuckKeys, Work,
};
use crate::actors::supervision::FATAL_EXIT_CODE;
use crate::telemetry::{DeletionLag, Exporter, Queue, StuckReason};
use kube_gc_core::mailbox::{Backoff, Completion};
use kube_gc_core::object::{GroupResource, HashSeed, Key, Namespace};

/// Does what the uid of its key says, and counts its tries.
#[derive(Debug, Default)]
struct Scripted {
    tries: watch::Sender<BTreeMap<String, usize>>,
    /// What "held" keys wait for.
    release: Notify,
    served: Mutex<bool>,
}

impl Work for Scripted {
    const QUEUE: Queue = Queue::AttemptToDelete;

    async fn work(&self, key: Key, place: Place) -> Outcome {
        let name = key.uid.to_string();
        self.tries.send_modify(|tries| *tries.entry(name.clone()).or_default() += 1);
        let retry = |reason, error: &str| Completion::Retry { reason, error: error.into() };
        match name.split('/').nth(1) {
            Some("panics") => panic!("boom over {name}"),
            Some("denied") => retry(StuckReason::Failed, "403 Forbidden: no, says the webhook"),
            Some("unresolved") if *self.served.lock().unwrap() => Completion::Done,
            Some("unresolved") => retry(StuckReason::Unresolved, "no such kind"),
            Some("waits") => {
                place.step_aside();
                self.release.notified().await;
                Completion::Done
            }
            Some("late") => {
                // The DELETE goes out at the second try.
                let lag = DeletionLag::current().expect("its owner's deletion has a moment");
                if tries(&self.tries.borrow(), &name) == 1 {
                    return retry(StuckReason::Unresolved, "another owner cannot be looked up");
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
                lag.deletion_sent();
                Completion::Done
            }
            Some("changing") => retry(StuckReason::Conflict, "it has changed"),
            Some("held") => {
                self.release.notified().await;
                Completion::Done
            }
            _ => Completion::Done,
        }
    }
}

fn start(workers: usize) -> (Arc<Scripted>, Addr<Pool<Scripted>>) {
    let work = Arc::new(Scripted::default());
    (Arc::clone(&work), Pool::new(work, workers, Backoff::default(), HashSeed::new(1)).start())
}

async fn tried(work: &Scripted, what: impl Fn(&BTreeMap<String, usize>) -> bool) {
    work.tries.subscribe().wait_for(|tries| what(tries)).await.unwrap();
}

fn tries(of: &BTreeMap<String, usize>, name: &str) -> usize {
    of.get(name).copied().unwrap_or_default()
}

/// Waits until the pool says so; each look lets the clock jump.
async fn until(pool: &Addr<Pool<Scripted>>, what: impl Fn(&PoolStatus) -> bool) -> PoolStatus {
    loop {
        let status = status(pool).await;
        if what(&status) {
            return status;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn status(pool: &Addr<Pool<Scripted>>) -> PoolStatus {
    pool.send(AskPool { failing: 10 }).await.unwrap()
}

#[test]
fn a_panic_and_an_item_that_always_fails_delay_nothing_else() {
    let (recorder, exporter) = Exporter::local().unwrap();
    let _recording = metrics::set_default_local_recorder(&recorder);
    in_system(async {
        // One worker: if the panic took it along, nothing would be done any more.
        let (work, pool) = start(1);
        pool.do_send(Open);
        let mut keys = vec![key("a", "panics"), key("a", "denied")];
        keys.extend((0..20).map(|number| key("a", &format!("fine-{number}"))));
        pool.do_send(Enqueue::from(keys));
        tried(&work, |tries| tries.keys().filter(|name| name.contains("fine")).count() == 20).await;
        let status = until(&pool, |status| {
            status.failing.len() == 2 && status.failing.iter().all(|item| item.attempts > 3)
        })
        .await;
        let failing: BTreeMap<_, _> =
            status.failing.iter().map(|item| (item.key.uid.to_string(), item)).collect();
        assert_eq!(failing.len(), 2, "the failing ones are named, and nothing else is");
        assert_eq!(failing["a/panics"].reason, StuckReason::Panicked);
        assert!(failing["a/panics"].error.contains("boom over a/panics"));
        assert!(failing["a/denied"].error.contains("says the webhook"), "in the server's own words");
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
        assert_eq!(status(&pool).await.ready, 1);
        assert!(work.tries.borrow().is_empty());
        pool.do_send(Open);
        tried(&work, |tries| tries.contains_key("a/fine")).await;
    });
}

/// An object that changed a hundred times a second was tried again ever more seldom.
#[test]
fn conflicts_do_not_make_an_object_wait_longer_and_longer_unless_there_is_no_end_to_them() {
    in_system(async {
        let (work, pool) = start(1);
        pool.do_send(Open);
        let begun = Instant::now();
        pool.do_send(Enqueue::from(vec![key("a", "changing")]));
        tried(&work, |of| tries(of, "a/changing") == 200).await;
        assert!(begun.elapsed() < AFTER_CONFLICT_AT_MOST * 201, "{:?}", begun.elapsed());
        tried(&work, |of| tries(of, "a/changing") == 268).await;
        assert!(begun.elapsed() > Duration::from_secs(600), "{:?}", begun.elapsed());
    });
}

/// It grew by every object that the leader collected.
#[test]
fn a_closed_pool_does_not_hold_more_and_more() {
    in_system(async {
        // Without workers nothing leaves it.
        let (_, pool) = start(0);
        let many = |namespace: &str| -> Vec<_> {
            (0..10_000).map(|number| key(namespace, &number.to_string())).collect()
        };
        for batch in 0..10 {
            pool.do_send(Enqueue::from(many(&format!("n{batch}"))));
        }
        assert_eq!(status(&pool).await.ready, CLOSED_CAPACITY);
        // One that is open holds all that there is.
        pool.do_send(Open);
        pool.do_send(Enqueue::from(many("open")));
        assert_eq!(status(&pool).await.ready, CLOSED_CAPACITY + 10_000);
    });
}

#[test]
fn closing_waits_for_what_is_being_worked_on() {
    in_system(async {
        let (work, pool) = start(1);
        pool.do_send(Open);
        pool.do_send(Enqueue::from(vec![key("a", "held"), key("a", "fine")]));
        tried(&work, |tries| tries.contains_key("a/held")).await;
        let mut closed = Box::pin(pool.send(Close));
        let early = tokio::time::timeout(Duration::from_secs(60), &mut closed).await;
        assert!(early.is_err(), "the held item is still being worked on");
        work.release.notify_one();
        closed.await.unwrap();
        let status = status(&pool).await;
        assert_eq!((status.ready, status.processing), (1, 0), "the other one stays queued");
    });
}

/// Rule 8.10.
#[test]
fn opening_forgets_all_backoff() {
    in_system(async {
        let (work, pool) = start(1);
        pool.do_send(Open);
        pool.do_send(Enqueue::from(vec![key("a", "denied")]));
        tried(&work, |of| tries(of, "a/denied") >= 17).await;
        pool.send(Close).await.unwrap();
        assert!(status(&pool).await.failing[0].next_retry > Duration::from_secs(100));
        let before = tokio::time::Instant::now();
        pool.do_send(Open);
        tried(&work, |of| tries(of, "a/denied") >= 18).await;
        assert_eq!(before.elapsed(), Duration::ZERO);
        let status = until(&pool, |status| status.delayed == 1).await;
        assert!(status.failing[0].attempts < 5, "and so are the failures");
    });
}

#[test]
fn a_discovery_change_wakes_what_is_unresolved_and_nothing_else() {
    in_system(async {
        let (work, pool) = start(1);
        pool.do_send(Open);
        pool.do_send(Enqueue::from(vec![key("a", "unresolved"), key("a", "denied")]));
        tried(&work, |of| tries(of, "a/unresolved") >= 17 && tries(of, "a/denied") >= 17).await;
        until(&pool, |status| (status.parked, status.delayed) == (1, 1)).await;
        *work.served.lock().unwrap() = true;
        let before = tokio::time::Instant::now();
        let earlier = work.tries.borrow().clone();
        pool.do_send(WakeUnresolved);
        tried(&work, |of| tries(of, "a/unresolved") > tries(&earlier, "a/unresolved")).await;
        assert_eq!(before.elapsed(), Duration::ZERO);
        until(&pool, |status| (status.parked, status.delayed, status.processing) == (0, 1, 0)).await;
        assert_eq!(tries(&work.tries.borrow(), "a/denied"), tries(&earlier, "a/denied"));
    });
}

#[test]
fn only_those_that_wait_for_a_type_are_woken_when_it_is_read() {
    in_system(async {
        let (work, pool) = start(1);
        pool.do_send(Open);
        let keys = ["unresolved", "unresolved/2", "denied"].map(|name| key("a", name));
        pool.do_send(Enqueue::from(keys.to_vec()));
        tried(&work, |of| of.len() == 3 && of.values().all(|tries| *tries >= 17)).await;
        until(&pool, |status| (status.parked, status.delayed) == (2, 1)).await;
        let mut parked = pool.send(AskParked).await.unwrap();
        parked.sort_by_key(|key| key.uid.to_string());
        assert_eq!(parked, keys[..2]);
        *work.served.lock().unwrap() = true;
        let earlier = work.tries.borrow().clone();
        pool.do_send(Wake(vec![keys[1].clone(), keys[2].clone(), key("a", "never heard of")]));
        tried(&work, |of| tries(of, "a/unresolved/2") > tries(&earlier, "a/unresolved/2")).await;
        until(&pool, |status| (status.parked, status.delayed, status.processing) == (1, 1, 0)).await;
        let now = work.tries.borrow().clone();
        for other in ["a/unresolved", "a/denied"] {
            assert_eq!(tries(&now, other), tries(&earlier, other), "{other} is left alone");
        }
    });
}

#[test]
fn one_that_steps_aside_keeps_nobody_waiting_and_takes_nobodys_place() {
    in_system(async {
        let (work, pool) = start(1);
        pool.do_send(Open);
        for namespace in ["x", "y", "z"] {
            pool.do_send(Enqueue::from(vec![key(namespace, "waits"), key(namespace, "fine")]));
            tried(&work, |tries| tries.contains_key(&format!("{namespace}/fine"))).await;
        }
        assert_eq!(until(&pool, |status| status.processing == 3).await.ready, 0);
        // The one place is taken by one that does not step aside.
        pool.do_send(Enqueue::from(vec![key("a", "held"), key("a", "last")]));
        tried(&work, |tries| tries.contains_key("a/held")).await;
        let status = until(&pool, |status| (status.ready, status.processing) == (1, 4)).await;
        assert_eq!(status.delayed, 0);
        work.release.notify_waiters();
        tried(&work, |tries| tries.contains_key("a/last")).await;
        until(&pool, |status| (status.ready, status.processing) == (0, 0)).await;
        // Those that came back are not more than the places that there are.
        pool.do_send(Enqueue::from(vec![key("b", "held"), key("b", "fine")]));
        tried(&work, |tries| tries.contains_key("b/held")).await;
        assert_eq!(until(&pool, |status| status.processing == 1).await.ready, 1);
        work.release.notify_one();
        tried(&work, |tries| tries.contains_key("b/fine")).await;
    });
}

#[test]
fn only_so_many_step_aside() {
    in_system(async {
        let (work, pool) = start(1);
        pool.do_send(Open);
        let namespaces = (0..ASIDE_AT_MOST + 2).map(|number| number.to_string());
        pool.do_send(Enqueue::from(namespaces.map(|of| key(&of, "waits")).collect::<Vec<_>>()));
        let status = until(&pool, |status| status.processing > ASIDE_AT_MOST).await;
        assert_eq!((status.processing, status.ready), (ASIDE_AT_MOST + 1, 1), "the last one keeps its place");
        work.release.notify_waiters();
        until(&pool, |status| (status.processing, status.ready) == (1, 0)).await;
        work.release.notify_waiters();
        until(&pool, |status| status.processing == 0).await;
    });
}

impl Handler<Panic> for Pool<Scripted> {
    type Result = ();

    fn handle(&mut self, _: Panic, _: &mut Context<Self>) {
        panic!("the mailbox is broken");
    }
}

/// actix drops an actor that panicked and goes on: without an end of the process
/// nothing would be collected any more, and nobody would know.
#[test]
fn a_panic_of_a_pool_ends_the_process() {
    if is_child() {
        System::new().block_on(async {
            let (_, pool) = start(1);
            pool.do_send(Open);
            let _ = pool.send(Panic).await;
            // The answer may come before the end does.
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

/// Fails if the moment of the owner's deletion is lost with a try that does not come to
/// a DELETE: the slowest deletions would be missing from the measure.
#[test]
fn a_deletion_that_takes_several_tries_is_as_late_as_that() {
    let (recorder, exporter) = Exporter::local().unwrap();
    let _recording = metrics::set_default_local_recorder(&recorder);
    in_system(async {
        let (work, pool) = start(1);
        pool.do_send(Open);
        let seen = tokio::time::Instant::now();
        tokio::time::sleep(Duration::from_millis(3)).await;
        let keys = vec![key("a", "fine"), key("a", "late")];
        pool.do_send(Enqueue { keys, bereaved: vec![(1..2, seen)] });
        tried(&work, |tries| tries.get("a/late") == Some(&2)).await;
        until(&pool, |status| status.failing.is_empty() && status.processing == 0).await;
        let page = exporter.render();
        let sum = page.lines().find_map(|line| line.strip_prefix("kube_gc_deletion_lag_seconds_sum "));
        let sum: f64 = sum.unwrap().parse().unwrap();
        // 3 ms until it was queued, 5 ms of backoff, 2 ms of work.
        assert!((0.0099..0.02).contains(&sum), "{sum}");
        assert!(page.contains("kube_gc_deletion_lag_seconds_count 1\n"), "{page}");
    });
}

/// How many keys are stuck for a reason, and all that is named.
async fn stuck(
    pool: &Addr<Pool<Scripted>>,
    ask: AskStuck,
    reason: StuckReason,
) -> (usize, Vec<(String, StuckReason)>) {
    let StuckKeys { tallies, named } = pool.send(ask).await.unwrap();
    let count = tallies.iter().find(|(of, _)| *of == reason).unwrap().1.count;
    (count, named.into_iter().map(|stuck| (stuck.key.uid.to_string(), stuck.reason)).collect())
}

#[test]
fn what_fails_for_a_moment_is_not_stuck_and_what_goes_on_failing_is_until_it_is_done() {
    in_system(async {
        let (work, pool) = start(1);
        pool.do_send(Open);
        let all = || AskStuck { limit: 10, ..AskStuck::default() };
        pool.do_send(Enqueue::from(vec![key("a", "denied"), key("b", "unresolved"), key("b", "fine")]));
        tried(&work, |of| tries(of, "b/unresolved") > 2 && tries(of, "b/fine") == 1).await;
        assert_eq!(stuck(&pool, all(), StuckReason::Failed).await, (0, Vec::new()), "a moment");
        tried(&work, |of| tries(of, "a/denied") > 12 && tries(of, "b/unresolved") > 12).await;
        until(&pool, |status| status.processing == 0).await;

        let named = |name: &str, reason| (name.to_owned(), reason);
        let (failed, unresolved) =
            (named("a/denied", StuckReason::Failed), named("b/unresolved", StuckReason::Unresolved));
        let (count, mut found) = stuck(&pool, all(), StuckReason::Failed).await;
        found.sort();
        assert_eq!((count, found), (1, vec![failed.clone(), unresolved.clone()]));
        let (count, found) = stuck(&pool, AskStuck { limit: 1, ..all() }, StuckReason::Unresolved).await;
        assert_eq!((count, found.len()), (1, 1), "all are counted, however few are named");
        let there = AskStuck { namespace: Namespace::parse("b"), ..all() };
        assert_eq!(stuck(&pool, there, StuckReason::Failed).await, (0, vec![unresolved]));
        let only = AskStuck { only: Some(StuckReason::Failed), ..all() };
        assert_eq!(stuck(&pool, only, StuckReason::Unresolved).await, (1, vec![failed]));
        let elsewhere = AskStuck { resource: Some(GroupResource::parse("pods")), ..all() };
        assert_eq!(stuck(&pool, elsewhere, StuckReason::Failed).await, (0, Vec::new()));

        *work.served.lock().unwrap() = true;
        pool.do_send(WakeUnresolved);
        until(&pool, |status| status.parked == 0 && status.processing == 0 && status.ready == 0).await;
        assert_eq!(stuck(&pool, all(), StuckReason::Unresolved).await.0, 0, "it is done");
    });
}
