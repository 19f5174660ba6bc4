//! Random histories: neither the order across objects nor repetitions matter.

use proptest::prelude::*;

use crate::graph::dump::Dump;
use crate::graph::testing::histories::*;
use crate::graph::testing::world::*;
use crate::graph::*;

/// Another order that keeps the order of each object's own events.
fn interleave(script: &[(usize, Obj, WatchEvent)], picks: &[usize]) -> Vec<(usize, Obj, WatchEvent)> {
    let mut queues: Vec<std::collections::VecDeque<_>> = vec![Default::default(); OBJECTS];
    for entry in script {
        queues[entry.0].push_back(entry.clone());
    }
    let mut picks = picks.iter().copied().cycle();
    let mut mixed = Vec::new();
    while mixed.len() < script.len() {
        let pick = picks.next().unwrap_or(0);
        let index = (0..OBJECTS).map(|n| (n + pick) % OBJECTS).find(|&n| !queues[n].is_empty());
        mixed.extend(index.and_then(|index| queues[index].pop_front()));
    }
    mixed
}

/// The state without what depends on the order of dependents and on earlier look-ups: the identities
/// of virtual nodes and the remembered absences.
fn essence(world: &World) -> Dump {
    let mut dump = world.dump();
    for node in dump.nodes.values_mut().filter(|node| node.is_virtual || node.missing) {
        (node.missing, node.is_virtual) = (false, false);
        (node.label, node.name, node.namespace) = Default::default();
    }
    dump
}

proptest! {
    /// Rule 3.21.
    #[test]
    fn any_interleaving_and_repetition_gives_the_same_graph(
        steps in steps(false),
        picks in prop::collection::vec(0..OBJECTS, 1..30),
        from in any::<prop::sample::Index>(),
        namespaced in 1..4_u16,
    ) {
        let script = script(&steps);
        let mut straight = World::new(namespaced);
        run(&mut straight, &script, &[0]);
        let mut mixed = World::new(namespaced);
        mixed.delayed = true;
        let order = interleave(&script, &picks);
        run(&mut mixed, &order, &picks);
        prop_assert_eq!(essence(&straight), essence(&mixed));
        run(&mut mixed, &order[from.index(order.len())..], &picks);
        prop_assert_eq!(essence(&straight), essence(&mixed), "after a repetition");
    }
}
