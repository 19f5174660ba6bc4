//! Circles in a graph.

/// A node that is in a component already. It is more than every number.
const DONE: usize = usize::MAX;

/// The strongly connected components of a graph, of which each node has the numbers of those that its
/// arcs lead to. This is Tarjan's algorithm without recursion, because a chain may be very long.
#[must_use]
pub fn components(arcs: &[Vec<usize>]) -> Vec<Vec<usize>> {
    // The least number of a node that is reached from a node; 0 before the first visit.
    let mut least = vec![0; arcs.len()];
    let (mut components, mut open, mut visited) = (Vec::new(), Vec::new(), 0);
    // Where the search is: a node, its number, and the arc that is next.
    let mut path: Vec<(usize, usize, usize)> = Vec::new();
    for start in 0..arcs.len() {
        let mut enter = (least[start] == 0).then_some(start);
        loop {
            if let Some(node) = enter.take() {
                visited += 1;
                least[node] = visited;
                open.push(node);
                path.push((node, visited, 0));
            }
            let Some((node, number, next)) = path.last_mut() else { break };
            let (node, number) = (*node, *number);
            if let Some(&to) = arcs[node].get(*next) {
                *next += 1;
                match least[to] {
                    0 => enter = Some(to),
                    reached => least[node] = least[node].min(reached),
                }
                continue;
            }
            path.pop();
            if let Some(&(parent, ..)) = path.last() {
                least[parent] = least[parent].min(least[node]);
            }
            if least[node] == number {
                let first = open.iter().rposition(|&other| other == node).unwrap_or_default();
                let component = open.split_off(first);
                component.iter().for_each(|&member| least[member] = DONE);
                components.push(component);
            }
        }
    }
    components
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::components;

    proptest! {
        /// By the definition: two nodes are in one component if each reaches the other.
        #[test]
        fn nodes_that_reach_each_other_are_in_one_component(
            arcs in (1_usize..9).prop_flat_map(|count| {
                prop::collection::vec(prop::collection::vec(0..count, 0..3), count)
            })
        ) {
            let count = arcs.len();
            let mut reaches: Vec<Vec<bool>> = (0..count).map(|one| (0..count).map(|other| one == other).collect()).collect();
            for _ in 0..count {
                for (from, to) in arcs.iter().enumerate().flat_map(|(from, all)| all.iter().map(move |to| (from, *to))) {
                    for row in &mut reaches {
                        row[to] |= row[from];
                    }
                }
            }
            let found = components(&arcs);
            let mut all: Vec<usize> = found.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..count).collect::<Vec<_>>(), "each node is in one component");
            let of = |node| found.iter().position(|component| component.contains(&node));
            for (one, other) in (0..count).flat_map(|one| (0..count).map(move |other| (one, other))) {
                prop_assert_eq!(of(one) == of(other), reaches[one][other] && reaches[other][one], "{} {}", one, other);
            }
        }
    }

    #[test]
    fn a_long_chain_does_not_overflow_the_stack() {
        let chain: Vec<Vec<usize>> = (0..200_000).map(|node| vec![(node + 1) % 200_000]).collect();
        assert_eq!(components(&chain).len(), 1);
        assert_eq!(components(&[chain, vec![vec![0]]].concat()).len(), 2);
    }
}
