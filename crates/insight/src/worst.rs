//! Which dependents are shown where there is no room for all: the worst.

use std::collections::{HashMap, HashSet, VecDeque};

use super::neighbourhood::{Edge, More, Neighbourhood};

/// How an object is doing, the worst first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Standing {
    /// It was deleted long ago.
    Stuck,
    /// It is being deleted.
    Terminating,
    /// It says that it is not ready.
    NotReady,
    /// All others.
    #[default]
    Other,
}

/// A part of a neighbourhood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Worst {
    pub shown: Neighbourhood,
    /// The earlier place of each object.
    pub places: Vec<usize>,
    /// The earlier places of the objects behind each entry of `more`, as far as they had one.
    pub left_out: Vec<Vec<usize>>,
}

impl Neighbourhood {
    /// The worst `most` dependents of each owner and type, the worst first, with what is below
    /// them. Those that are alike stay in order. The others are counted.
    #[must_use]
    pub fn worst(&self, standing: impl Fn(usize) -> Standing, most: usize) -> Worst {
        let mut of_owner: HashMap<usize, Vec<Vec<&Edge>>> = HashMap::new();
        for edge in self.edges.iter().filter(|edge| edge.class.is_none()) {
            let types = of_owner.entry(edge.owner).or_default();
            let resource = |edge: &Edge| &self.nodes[edge.dependent].name.resource;
            let is_alike =
                |of_type: &Vec<&Edge>| of_type.first().map(|one| resource(one)) == Some(resource(edge));
            match types.iter_mut().find(|of_type| is_alike(of_type)) {
                Some(of_type) => of_type.push(edge),
                None => types.push(vec![edge]),
            }
        }
        // Owners stay, whatever their distance.
        let is_above = |place: &usize| *place == 0 || self.nodes[*place].distance < 0;
        let mut open: VecDeque<usize> = (0..self.nodes.len()).filter(is_above).collect();
        let mut kept: HashSet<usize> = open.iter().copied().collect();
        let (mut edges, mut dropped) = (Vec::new(), Vec::new());
        while let Some(owner) = open.pop_front() {
            for mut of_type in of_owner.remove(&owner).unwrap_or_default() {
                of_type.sort_by_key(|edge| standing(edge.dependent));
                dropped.extend(of_type.iter().skip(most).map(|edge| (owner, edge.dependent)));
                for edge in of_type.into_iter().take(most) {
                    edges.push(edge);
                    if kept.insert(edge.dependent) {
                        open.push_back(edge.dependent);
                    }
                }
            }
        }
        self.part(&kept, &edges, dropped)
    }

    fn part(&self, kept: &HashSet<usize>, below: &[&Edge], dropped: Vec<(usize, usize)>) -> Worst {
        let places: Vec<usize> = (0..self.nodes.len()).filter(|place| kept.contains(place)).collect();
        let now: HashMap<usize, usize> = places.iter().enumerate().map(|(new, &old)| (old, new)).collect();
        let above = self.edges.iter().filter(|edge| edge.class.is_some());
        let edges = above.chain(below.iter().copied()).filter_map(|edge| {
            let (dependent, owner) = (*now.get(&edge.dependent)?, *now.get(&edge.owner)?);
            Some(Edge { dependent, owner, ..edge.clone() })
        });
        let more =
            self.more.iter().filter_map(|more| Some(More { owner: *now.get(&more.owner)?, ..more.clone() }));
        let mut more: Vec<More> = more.collect();
        let mut left_out = vec![Vec::new(); more.len()];
        for (owner, dependent) in dropped {
            let Some(&owner) = now.get(&owner) else { continue };
            let node = &self.nodes[dependent];
            let resource = node.name.resource.clone().unwrap_or_default();
            let is_it = |more: &More| more.owner == owner && more.resource == resource;
            let place = more.iter().position(is_it).unwrap_or(more.len());
            if place == more.len() {
                let kind = node.name.kind.clone();
                more.push(More { owner, kind, resource, count: 0, being_deleted: 0 });
                left_out.push(Vec::new());
            }
            more[place].count += 1;
            more[place].being_deleted += usize::from(node.state.is_being_deleted());
            left_out[place].push(dependent);
        }
        let nodes = places.iter().map(|&place| self.nodes[place].clone()).collect();
        let shown = Neighbourhood { nodes, edges: edges.collect(), more, truncated: self.truncated };
        Worst { shown, places, left_out }
    }
}
