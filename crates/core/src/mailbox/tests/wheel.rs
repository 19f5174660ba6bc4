//! Compares the timer wheel with an ordered map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::mailbox::list::{Linked, Links, swap_remove};
use crate::mailbox::wheel::{Timed, Wheel};

#[derive(Debug, Default)]
struct Node {
    number: u64,
    due: u64,
    links: Links,
}

impl Linked for Node {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl Timed for Node {
    fn due(&self) -> u64 {
        self.due
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u64),
    Cancel(prop::sample::Index),
    Advance(u64),
    AdvanceToNext,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Times of every order of magnitude, many of which share a slot.
    let span =
        || prop_oneof![1..70_u64, 1..5_000_u64, (0..60_u32).prop_map(|bit| 1 << bit), 1..u64::MAX / 1000];
    let step = prop_oneof![
        4 => span().prop_map(Step::Insert),
        1 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        2 => span().prop_map(Step::Advance),
        2 => Just(Step::AdvanceToNext),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

    #[test]
    fn the_wheel_is_an_ordered_map(steps in steps()) {
        let (mut wheel, mut nodes, mut now) = (Wheel::default(), Vec::<Node>::new(), 0_u64);
        // Ties keep the order of insertion.
        let mut model = BTreeMap::new();
        for (number, step) in (0_u64..).zip(steps) {
            let mut advance_to = now;
            match step {
                Step::Insert(delay) => {
                    let due = now.saturating_add(delay);
                    let slot = u32::try_from(nodes.len()).unwrap();
                    nodes.push(Node { number, due, links: Links::default() });
                    wheel.insert(&mut nodes, slot);
                    model.insert((due, number), ());
                }
                Step::Cancel(index) if !nodes.is_empty() => {
                    let slot = u32::try_from(index.index(nodes.len())).unwrap();
                    wheel.remove(&mut nodes, slot);
                    let node = drop_node(&mut wheel, &mut nodes, slot);
                    model.remove(&(node.due, node.number));
                }
                Step::Cancel(_) => {}
                Step::Advance(span) => advance_to = now.saturating_add(span),
                Step::AdvanceToNext => advance_to = wheel.next_due().unwrap_or(now),
            }
            now = advance_to;
            while let Some(slot) = wheel.pop(&mut nodes, now) {
                let node = drop_node(&mut wheel, &mut nodes, slot);
                let ((due, number), ()) = model.pop_first().unwrap();
                prop_assert_eq!((node.due, node.number), (due, number));
                prop_assert!(due <= now);
            }
            let earliest = model.keys().next().map(|(due, _)| *due);
            prop_assert!(earliest.is_none_or(|due| due > now || now == u64::MAX));
            prop_assert_eq!(wheel.next_due().is_some(), earliest.is_some());
            prop_assert!(wheel.next_due().is_none_or(|next| next > now && Some(next) <= earliest));
        }
    }
}

/// Removes a node that is not in the wheel, and updates the wheel for the node that took its slot.
fn drop_node(wheel: &mut Wheel, nodes: &mut Vec<Node>, slot: u32) -> Node {
    let node = swap_remove(nodes, slot);
    if (slot as usize) < nodes.len() {
        wheel.moved(nodes, slot);
    }
    node
}

#[test]
fn a_delay_is_reached_in_few_steps_however_long_it_is() {
    let (mut wheel, mut nodes) = (Wheel::default(), vec![Node { due: u64::MAX, ..Node::default() }]);
    wheel.insert(&mut nodes, 0);
    let (mut now, mut wakes) = (0, 0);
    while now < u64::MAX {
        now = wheel.next_due().unwrap();
        wakes += 1;
        assert_eq!(wheel.pop(&mut nodes, now), (now == u64::MAX).then_some(0));
    }
    assert!(wakes <= 11, "{wakes}");
    assert_eq!(wheel.next_due(), None);
}

#[test]
fn its_memory_does_not_grow() {
    assert!(size_of::<Wheel>() <= 16);
}
