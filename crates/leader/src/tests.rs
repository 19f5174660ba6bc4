//! Electors on a Lease in memory, on a clock that the tests move.

use std::time::Duration;

use proptest::prelude::*;
use tokio::time::{Instant, sleep};

use super::testing::{Delivery, Replica, Server, TIMING};
use kube_gc_client::{ReplicaRole, WriteGate};

const SECOND: Duration = Duration::from_secs(1);
/// A standby looks at least this often.
const LOOKS: Duration = Duration::from_millis(4400);

#[tokio::test(start_paused = true)]
async fn the_first_leads_and_the_second_stands_by_and_knows_who_leads() {
    let one = Replica::start("one", Server::default());
    one.leads().await;
    let first = one.server.spec();
    let two = Replica::start("two", one.server.again());
    let standby = ReplicaRole::Standby { holder: Some(one.me.shared()) };
    two.gate.role().wait_for(|role| *role == standby).await.unwrap();
    sleep(100 * SECOND).await;
    assert!(one.writes() && !two.writes());
    assert_eq!(one.role(), ReplicaRole::Leading { term: 1 }, "each renewal is of the same term");
    assert_eq!(two.role(), standby);
    let spec = one.server.spec();
    assert_eq!((spec.lease_transitions, spec.lease_duration_seconds), (Some(0), Some(15)));
    assert_eq!(spec.acquire_time, first.acquire_time, "renewing is not acquiring");

    Replica::start("three", one.server.again()).ended().await;
    assert!(one.server.is_held_by(&one.me), "a standby that ends leaves the lease alone");
    let age = |replica: &Replica| replica.gate.lease_age().unwrap();
    assert!(age(&one) <= TIMING.retry_period, "{:?}", age(&one));
    assert!(age(&two) <= TIMING.retry_period + LOOKS, "{:?}", age(&two));
    one.killed();
    sleep(9 * SECOND).await;
    assert!(age(&two) >= 4 * SECOND && age(&one) >= 9 * SECOND, "nobody renews: {:?}", age(&two));
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_a_killed_leader_is_taken_when_it_has_expired() {
    let one = Replica::start("one", Server::default());
    one.leads().await;
    let two = Replica::start("two", one.server.again());
    sleep(30 * SECOND).await;
    one.killed();
    let took = two.leads().await;
    let expires = TIMING.lease_duration - TIMING.retry_period..=TIMING.lease_duration + LOOKS;
    assert!(expires.contains(&took), "{took:?}");
    assert!(!one.writes(), "its gate has closed by itself");
    assert_eq!(two.server.spec().lease_transitions, Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_at_the_next_read() {
    let one = Replica::start("one", Server::default());
    one.leads().await;
    let two = Replica::start("two", one.server.again());
    sleep(30 * SECOND).await;
    let gate = one.gate.clone();
    one.ended().await;
    assert!(gate.permit().is_err());
    assert!(two.leads().await <= LOOKS);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_before_another_begins_and_becomes_a_standby() {
    for delivery in [Delivery::Refused, Delivery::Silent] {
        let one = Replica::start("one", Server::default());
        one.leads().await;
        let two = Replica::start("two", one.server.again());
        sleep(31 * SECOND).await;
        one.server.set_delivery(delivery);
        let start = Instant::now();
        one.stands_by().await;
        assert!(start.elapsed() <= TIMING.renew_deadline && !two.writes(), "{delivery:?}");
        two.leads().await;
        assert!(start.elapsed() <= TIMING.lease_duration + LOOKS, "{delivery:?}: {:?}", start.elapsed());
        one.server.set_delivery(Delivery::Open);
        let standby = ReplicaRole::Standby { holder: Some(two.me.shared()) };
        one.gate.role().wait_for(|role| *role == standby).await.unwrap();
        sleep(60 * SECOND).await;
        assert!(two.writes() && !one.writes(), "it does not take it back");
        two.ended().await;
        one.leads().await;
        assert_eq!(one.role(), ReplicaRole::Leading { term: 2 });
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_counts_from_before_the_renewal_was_sent() {
    let one = Replica::start("one", Server::default());
    one.server.set_delivery(Delivery::Slow(2 * SECOND));
    let began = Instant::now();
    one.leads().await;
    // Read, and written: four seconds each.
    assert_eq!(began.elapsed(), 8 * SECOND);
    assert_eq!(one.gate.time_left(), Some(TIMING.renew_deadline - 4 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_lease_whose_first_answer_was_lost_is_still_released() {
    let one = Replica::start("one", Server::default());
    sleep(SECOND).await;
    one.killed();
    let two = Replica::start("two", Server::default());
    two.server.set_delivery(Delivery::Slow(Duration::from_millis(2500)));
    // The replica has read and is writing. The write takes effect, and its answer comes too late.
    sleep(9 * SECOND).await;
    assert!(!two.writes());
    two.server.set_delivery(Delivery::Open);
    let server = two.server.clone();
    two.ended().await;
    assert_eq!(server.spec().holder_identity, None);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_created_again() {
    let one = Replica::start("one", Server::default());
    one.leads().await;
    one.server.stored.lock().unwrap().lease = None;
    sleep(3 * TIMING.retry_period).await;
    assert!(one.writes() && one.server.is_held_by(&one.me));
}

/// What happens to a replica.
#[derive(Clone, Debug)]
enum Fate {
    Goes(Delivery),
    IsKilled,
    Ends,
}

fn fates() -> impl Strategy<Value = Vec<(u64, usize, Fate)>> {
    let slow = (0..6000_u64).prop_map(|millis| Fate::Goes(Delivery::Slow(Duration::from_millis(millis))));
    let fate = prop_oneof![
        3 => Just(Fate::Goes(Delivery::Open)),
        2 => Just(Fate::Goes(Delivery::Refused)),
        2 => Just(Fate::Goes(Delivery::Silent)),
        2 => Just(Fate::Goes(Delivery::AnswerLost)),
        3 => slow,
        1 => Just(Fate::IsKilled),
        1 => Just(Fate::Ends),
    ];
    proptest::collection::vec((0..12_000_u64, 0..3_usize, fate), 1..25)
}

/// Three replicas go through this. At no time may two of them write; and when the
/// disturbances are over, one does.
async fn live_through(fates: Vec<(u64, usize, Fate)>) {
    let server = Server::default();
    let start = |number: usize| Replica::start(&number.to_string(), server.again());
    let mut replicas: Vec<_> = (0..3).map(start).collect();
    // The gate of a replica that is gone may still be open.
    let mut gates: Vec<_> = replicas.iter().map(|replica| replica.gate.clone()).collect();
    let exclusive = |gates: &[WriteGate]| {
        let writers = gates.iter().filter(|gate| gate.permit().is_ok()).count();
        assert!(writers <= 1, "{writers} write at the same time");
    };
    for (wait, number, fate) in fates {
        for _ in 0..wait / 50 {
            sleep(Duration::from_millis(50)).await;
            exclusive(&gates);
        }
        match fate {
            Fate::Goes(delivery) => replicas[number].server.set_delivery(delivery),
            Fate::IsKilled => {
                replicas[number].killed();
                replicas[number] = start(number);
                gates.push(replicas[number].gate.clone());
            }
            Fate::Ends => {
                let old = std::mem::replace(&mut replicas[number], start(number));
                gates.push(replicas[number].gate.clone());
                old.ending.cancel();
            }
        }
        exclusive(&gates);
    }
    for replica in &replicas {
        replica.server.set_delivery(Delivery::Open);
    }
    for _ in 0..400 {
        sleep(Duration::from_millis(100)).await;
        exclusive(&gates);
    }
    assert_eq!(replicas.iter().filter(|replica| replica.writes()).count(), 1, "nobody writes");
}

proptest! {
    /// Rule 8.11.
    #[test]
    fn two_replicas_never_write_and_finally_one_does(fates in fates()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(live_through(fates));
    }
}
