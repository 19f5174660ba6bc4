//! Circles of objects that own each other.

use std::collections::HashMap;

use kube_gc_core::object::Key;

/// References between objects that own something and are owned. Only they can be in a circle.
#[derive(Debug, Default)]
pub struct Edges {
    places: HashMap<Key, usize>,
    /// Dependent and owner.
    edges: Vec<(usize, usize)>,
}

/// The objects that are in circles.
#[derive(Debug, Default)]
pub struct Circles {
    /// The number of each object's circle.
    of: HashMap<Key, usize>,
    /// The number of objects in each circle.
    sizes: Vec<usize>,
}

impl Edges {
    pub fn add(&mut self, dependent: &Key, owner: &Key) {
        let edge = (self.place(dependent), self.place(owner));
        self.edges.push(edge);
    }

    fn place(&mut self, key: &Key) -> usize {
        let next = self.places.len();
        *self.places.entry(key.clone()).or_insert(next)
    }

    /// Finds the circles.
    #[must_use]
    pub fn circles(self) -> Circles {
        let Self { places, mut edges } = self;
        edges.sort_unstable();
        let components = components(places.len(), &edges);
        let mut members = vec![0; places.len()];
        for &component in &components {
            members[component] += 1;
        }
        let mut circles = Circles::default();
        let mut numbers: HashMap<usize, usize> = HashMap::new();
        for (key, place) in places {
            let component = components[place];
            if members[component] > 1 {
                let number = *numbers.entry(component).or_insert(circles.sizes.len());
                if number == circles.sizes.len() {
                    circles.sizes.push(members[component]);
                }
                circles.of.insert(key, number);
            }
        }
        circles
    }
}

impl Circles {
    /// The number of objects in the circle that has both of these.
    #[must_use]
    pub fn with_both(&self, one: &Key, other: &Key) -> Option<usize> {
        let (one, other) = (self.of.get(one)?, self.of.get(other)?);
        if one == other { self.sizes.get(*one).copied() } else { None }
    }

    /// All objects that are in circles.
    pub fn members(&self) -> impl Iterator<Item = &Key> {
        self.of.keys()
    }
}

/// The strongly connected component of each node (Tarjan). Works on a stack of its own, because a
/// chain can be as long as there are objects.
fn components(nodes: usize, sorted: &[(usize, usize)]) -> Vec<usize> {
    const UNSEEN: usize = usize::MAX;
    let mut firsts = vec![0; nodes + 1];
    for &(from, _) in sorted {
        firsts[from + 1] += 1;
    }
    for node in 0..nodes {
        firsts[node + 1] += firsts[node];
    }
    let mut numbers = vec![UNSEEN; nodes];
    let mut lowest = vec![0; nodes];
    let mut component = vec![UNSEEN; nodes];
    let mut open: Vec<usize> = Vec::new();
    // A node, and its next edge.
    let mut path: Vec<(usize, usize)> = Vec::new();
    let (mut next_number, mut next_component) = (0, 0);
    for start in 0..nodes {
        if numbers[start] == UNSEEN {
            path.push((start, firsts[start]));
        }
        while let Some((node, edge)) = path.pop() {
            if numbers[node] == UNSEEN {
                numbers[node] = next_number;
                lowest[node] = next_number;
                next_number += 1;
                open.push(node);
            }
            if edge < firsts[node + 1] {
                path.push((node, edge + 1));
                let to = sorted[edge].1;
                if numbers[to] == UNSEEN {
                    path.push((to, firsts[to]));
                } else if component[to] == UNSEEN {
                    lowest[node] = lowest[node].min(numbers[to]);
                }
                continue;
            }
            if let Some(&(before, _)) = path.last() {
                lowest[before] = lowest[before].min(lowest[node]);
            }
            if lowest[node] == numbers[node] {
                while let Some(member) = open.pop() {
                    component[member] = next_component;
                    if member == node {
                        break;
                    }
                }
                next_component += 1;
            }
        }
    }
    component
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Which nodes a node reaches, by going on until nothing is new.
    fn reaches(nodes: usize, edges: &[(usize, usize)]) -> Vec<Vec<bool>> {
        let mut reached = vec![vec![false; nodes]; nodes];
        for _ in 0..nodes {
            for &(from, to) in edges {
                reached[from][to] = true;
                let further = reached[to].clone();
                for (here, there) in reached[from].iter_mut().zip(further) {
                    *here |= there;
                }
            }
        }
        reached
    }

    proptest! {
        #[test]
        fn nodes_are_together_if_each_reaches_the_other(
            mut edges in prop::collection::vec((0..7_usize, 0..7_usize), 0..16),
        ) {
            edges.sort_unstable();
            let (components, reached) = (components(7, &edges), reaches(7, &edges));
            for one in 0..7 {
                for other in 0..7 {
                    let together = one == other || (reached[one][other] && reached[other][one]);
                    prop_assert_eq!(components[one] == components[other], together);
                }
            }
        }
    }

    #[test]
    fn a_long_chain_and_a_long_circle_need_no_deep_stack() {
        const LONG: usize = 1_000_000;
        let mut edges: Vec<(usize, usize)> = (1..LONG).map(|node| (node - 1, node)).collect();
        let chain = components(LONG, &edges);
        assert!(chain.windows(2).all(|pair| pair[0] != pair[1]));
        edges.push((LONG - 1, 0));
        edges.sort_unstable();
        assert!(components(LONG, &edges).iter().all(|&component| component == 0));
    }
}
