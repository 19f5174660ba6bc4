//! Compares the delays with an ordered map from which single nodes are removed.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use crate::mailbox::Time;
use crate::mailbox::delays::Delays;
use crate::mailbox::list::{Linked, Links, swap_remove};

#[derive(Debug, Default)]
struct Node {
    number: u64,
    due: Time,
    links: Links,
}

impl Linked for Node {
    fn links(&mut self) -> &mut Links {
        &mut self.links
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
    // Times of every order of magnitude, many of which are equal.
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
    fn the_delays_are_an_ordered_map(steps in steps()) {
        let (mut delays, mut nodes, mut now) = (Delays::default(), Vec::<Node>::new(), Time::ZERO);
        // Ties keep the order of insertion.
        let mut model = BTreeMap::new();
        for (number, step) in (0_u64..).zip(steps) {
            match step {
                Step::Insert(millis) => {
                    let due = now + Duration::from_millis(millis);
                    let slot = u32::try_from(nodes.len()).unwrap();
                    nodes.push(Node { number, due, links: Links::default() });
                    delays.insert(&mut nodes, slot, due);
                    model.insert((due, number), ());
                }
                Step::Cancel(index) if !nodes.is_empty() => {
                    let slot = u32::try_from(index.index(nodes.len())).unwrap();
                    let due = nodes[slot as usize].due;
                    delays.remove(&mut nodes, slot, due);
                    let node = drop_node(&mut delays, &mut nodes, slot);
                    model.remove(&(node.due, node.number));
                }
                Step::Cancel(_) => {}
                Step::Advance(millis) => now = now + Duration::from_millis(millis),
                Step::AdvanceToNext => now = delays.next_due().unwrap_or(now),
            }
            while let Some(slot) = delays.pop(&mut nodes, now) {
                let node = drop_node(&mut delays, &mut nodes, slot);
                let ((due, number), ()) = model.pop_first().unwrap();
                prop_assert_eq!((node.due, node.number), (due, number));
                prop_assert!(due <= now);
            }
            let earliest = model.keys().next().map(|(due, _)| *due);
            prop_assert!(earliest.is_none_or(|due| due > now));
            prop_assert_eq!(delays.next_due(), earliest);
        }
    }
}

/// Removes a node that is not among the delays, and updates them for the node that took its slot.
fn drop_node(delays: &mut Delays, nodes: &mut Vec<Node>, slot: u32) -> Node {
    let node = swap_remove(nodes, slot);
    if let Some(moved) = nodes.get(slot as usize).map(|node| node.due) {
        delays.moved(nodes, slot, moved);
    }
    node
}
