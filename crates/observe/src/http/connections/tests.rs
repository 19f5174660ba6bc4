use std::net::{IpAddr, Ipv4Addr};

use tokio::sync::Semaphore;

use super::*;

fn address(number: u32) -> Source {
    Source::from(IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 | number)))
}

/// The connection slot of the kubelet's probe.
fn probe(connections: &Arc<Connections>) -> Arc<ConnectionSlot> {
    connections.admit(Source::from(IpAddr::V4(Ipv4Addr::LOCALHOST)))
}

fn is_evicted(slot: &ConnectionSlot) -> bool {
    slot.eviction.is_cancelled()
}

fn permit() -> OwnedSemaphorePermit {
    Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap()
}

#[test]
fn one_source_evicts_its_own_connections_oldest_first() {
    let connections = Connections::new(Listener::Health);
    let probe = probe(&connections);
    let mut slots = Vec::new();
    for number in 1..=10_000 {
        slots.push(connections.admit(address(1)));
        assert!(connections.table().open.len() <= MAX_CONNECTIONS);
        let evicted = (number + 1_usize).saturating_sub(MAX_CONNECTIONS);
        let oldest = slots.get(evicted).is_none_or(|slot| !is_evicted(slot));
        assert!(oldest && slots[..evicted].last().is_none_or(|slot| is_evicted(slot)), "{number}");
    }
    assert!(slots[..10_000 + 1 - MAX_CONNECTIONS].iter().all(|slot| is_evicted(slot)));
    assert!(!is_evicted(&probe), "it is another source's");
}

#[test]
fn a_new_connection_is_evicted_after_as_many_others_as_there_are_places() {
    let connections = Connections::new(Listener::Health);
    let mut held: Vec<_> = (0..10_000).map(|number| connections.admit(address(number))).collect();
    let probe = probe(&connections);
    for number in 10_000..10_000 + MAX_CONNECTIONS as u32 - 1 {
        held.push(connections.admit(address(number)));
        assert!(!is_evicted(&probe), "{number}");
    }
    held.push(connections.admit(address(20_000)));
    assert!(is_evicted(&probe));
    assert_eq!(connections.table().open.len(), MAX_CONNECTIONS);
}

#[test]
fn the_connection_with_the_oldest_activity_is_evicted() {
    let connections = Connections::new(Listener::Health);
    let slots: Vec<_> =
        (0..MAX_CONNECTIONS as u32).map(|number| connections.admit(address(number))).collect();
    slots[0].request_begins();
    slots[1].request_begins();
    slots[1].answer_ends();
    slots[1].flushed();
    let _further = [1000, 1001].map(|number| connections.admit(address(number)));
    let evicted: Vec<_> = (0..MAX_CONNECTIONS).filter(|&number| is_evicted(&slots[number])).collect();
    assert_eq!(evicted, [2, 3]);
}

#[test]
fn a_connection_is_not_evicted_before_its_answer_is_sent() {
    let connections = Connections::new(Listener::Health);
    let scrape = connections.admit(address(1));
    scrape.request_begins();
    assert!(scrape.hold(permit()));
    let mut held: Vec<_> = (0..1000).map(|_| connections.admit(address(1))).collect();
    scrape.answer_ends();
    held.extend((0..1000).map(|_| connections.admit(address(1))));
    assert!(!is_evicted(&scrape), "it is on its way");
    scrape.flushed();
    held.extend((0..1000).map(|_| connections.admit(address(1))));
    assert!(is_evicted(&scrape));
}

#[test]
fn a_source_has_a_limited_number_of_requests_in_flight() {
    let connections = Connections::new(Listener::Health);
    let slots: Vec<_> = (0..=MAX_REQUESTS_PER_SOURCE).map(|_| connections.admit(address(1))).collect();
    let (last, others) = slots.split_last().unwrap();
    assert!(others.iter().all(|slot| slot.hold(permit())));
    assert!(!last.hold(permit()), "one too many");
    assert!(connections.admit(address(2)).hold(permit()), "of another source");
    assert!(others[0].hold(permit()), "the next one of the same connection is none more");
    others[0].answer_ends();
    assert!(!last.hold(permit()), "its answer is not handed over");
    others[0].flushed();
    assert!(last.hold(permit()));
    drop(slots);
    assert!(connections.table().open.is_empty());
}

#[test]
fn a_connection_is_closed_when_file_descriptors_run_out() {
    let connections = Connections::new(Listener::Debug);
    connections.make_room();
    let slots = [1, 1, 2].map(|number| connections.admit(address(number)));
    connections.make_room();
    assert_eq!(slots.each_ref().map(|slot| is_evicted(slot)), [true, false, false]);
}

#[test]
fn an_ipv6_network_is_one_source() {
    let source = |text: &str| Source::from(text.parse::<IpAddr>().unwrap());
    assert_eq!(source("2001:db8:1:2::1"), source("2001:db8:1:2:ffff::9"));
    assert_ne!(source("2001:db8:1:2::1"), source("2001:db8:1:3::1"));
    assert_eq!(source("::ffff:10.0.0.1"), source("10.0.0.1"));
    assert_ne!(source("::ffff:10.0.0.1"), source("::ffff:10.0.0.2"));
}
