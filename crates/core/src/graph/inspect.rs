//! Read-only views of nodes, for the questions of people (`kube-gc-insight`). Asking queues
//! nothing and counts as no evaluation.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::object::{
    DeletionState, Finalizers, GroupResource, Identity, Key, KeyedMap, Namespace, ResourceType,
};

use super::node::{NodeId, Presence};
use super::{Cursor, ObjectSnapshot, Partition, ReferenceSnapshot};

/// How much of a node a view shows. All of it is counted, up to `visits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewLimits {
    /// The most owner references.
    pub references: usize,
    /// The most dependents of each type.
    pub dependents_of_a_type: usize,
    /// The most references of dependents that are visited, because a partition has other work.
    pub visits: usize,
}

impl Default for ViewLimits {
    fn default() -> Self {
        Self { references: 64, dependents_of_a_type: 20, visits: 50_000 }
    }
}

/// How a partition knows an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodePresence {
    /// A monitor or a list shows it.
    Observed,
    /// Only references name it, and nothing is proved about it.
    Named,
    /// Only references name it, and it was proved absent.
    Absent,
}

/// A node and its edges in both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// The object; for one that is not observed, as a reference names it.
    pub identity: Identity,
    pub presence: NodePresence,
    pub deletion: DeletionState,
    pub finalizers: Finalizers,
    /// Its first references, in order.
    pub references: Vec<ReferenceSnapshot>,
    /// The number of all its references.
    pub reference_count: usize,
    /// Some dependents of each type: first those that are being deleted, then those that block,
    /// then by name.
    pub dependents: Vec<DependentSummary>,
    /// All its dependents by type, ordered by group and resource.
    pub by_type: Vec<TypeCount>,
    /// The number of dependents that block a foreground deletion of it.
    pub blocking: usize,
    /// Whether all dependents were counted. If not, there are more than the limit of visits.
    pub is_complete: bool,
}

/// A dependent, as the view of its owner shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DependentSummary {
    pub identity: Identity,
    pub deletion: DeletionState,
    /// Whether a foreground deletion of the owner waits for it.
    pub blocking: bool,
    /// Whether the owner is its managing controller.
    pub controller: bool,
}

/// The dependents of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeCount {
    pub resource: Arc<ResourceType>,
    pub total: usize,
    pub being_deleted: usize,
}

/// What a search looks for. `None` matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchQuery {
    /// A part of the kind or name, or PART-OF-KIND/BEGINNING-OF-NAME, in any case.
    pub text: String,
    pub namespace: Option<Namespace>,
    pub resource: Option<GroupResource>,
    /// Only objects that are being deleted.
    pub being_deleted: bool,
    /// Also absent owners that references still name.
    pub or_absent: bool,
}

impl SearchQuery {
    /// Whether an object fits, unless it matters that it is being deleted.
    pub fn fits(&self, object: &Identity) -> bool {
        let Identity { resource, namespace, name, .. } = object;
        self.resource.as_ref().is_none_or(|wanted| resource.group_resource == *wanted)
            && self.namespace.as_ref().is_none_or(|wanted| namespace.as_ref() == Some(wanted))
            && self.is_in(&resource.kind, name, &self.text.to_ascii_lowercase())
    }

    /// Whether the text, which is given in lower case, is a part of the name or kind, or one of the kind,
    /// a slash and the beginning of the name. If the type is known, a part of its kind says nothing.
    fn is_in(&self, kind: &str, name: &str, wanted: &str) -> bool {
        match wanted.split_once('/') {
            Some((part, beginning)) => has(kind, part) && begins(name, beginning),
            None => has(name, wanted) || self.resource.is_none() && has(kind, wanted),
        }
    }
}

/// Whether a text has a part, in any case. A search asks this of every object, so it allocates nothing.
fn has(text: &str, part: &str) -> bool {
    let Some(first) = part.bytes().next() else { return true };
    let mut places = text.as_bytes().windows(part.len());
    places.any(|at| at[0].to_ascii_lowercase() == first && at.eq_ignore_ascii_case(part.as_bytes()))
}

fn begins(text: &str, part: &str) -> bool {
    text.as_bytes().get(..part.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(part.as_bytes()))
}

/// How well an object fits searches, the best first: by search, by name, and owners before others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fit {
    /// The place of the first search that it fits.
    pub search: usize,
    by_name: NameFit,
    is_no_owner: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NameFit {
    Whole,
    Beginning,
    Part,
}

/// An object that a search found, with its place in the order of all that it found.
pub type Ranked = (Fit, Identity, DeletionState);

/// A dependent, its place in the order, and its flags.
struct Seen {
    id: NodeId,
    deletion: DeletionState,
    blocking: bool,
    controller: bool,
}

impl Partition {
    /// The object of a key, exactly as a worker would see it; `None` if no monitor shows it.
    /// Unlike [`snapshot_and_queue`](Self::snapshot_and_queue), asking queues nothing.
    pub fn inspect_object(&mut self, key: &Key) -> Option<ObjectSnapshot> {
        let id = self.store.find_key(key)?;
        let id = self.primary(id);
        (self.store.nodes[id].presence == Presence::Observed).then(|| self.read_object(id).0)
    }

    /// The node of a key and its edges; `None` if this partition has no node for it.
    pub fn view(&self, key: &Key, limits: ViewLimits) -> Option<NodeView> {
        let id = self.store.find_key(key)?;
        let id = self.primary(id);
        let node = &self.store.nodes[id];
        let presence = match node.presence {
            Presence::Observed => NodePresence::Observed,
            Presence::Virtual => NodePresence::Named,
            Presence::Absent => NodePresence::Absent,
            // Stubs of what another partition knows better, or of what no key names.
            Presence::Remote | Presence::Unresolved | Presence::InvalidScope | Presence::Linked => {
                return None;
            }
        };
        let (seen, is_complete) = self.see_dependents(id, limits.visits);
        let blocking = seen.iter().filter(|seen| seen.blocking).count();
        let mut by_type: BTreeMap<&GroupResource, (TypeCount, Vec<Seen>)> = BTreeMap::new();
        for seen in seen {
            let resource = self.store.resource(seen.id);
            let (count, list) = by_type.entry(&resource.group_resource).or_insert_with(|| {
                (TypeCount { resource: Arc::clone(resource), total: 0, being_deleted: 0 }, Vec::new())
            });
            count.total += 1;
            count.being_deleted += usize::from(seen.deletion.is_being_deleted());
            list.push(seen);
        }
        let mut dependents = Vec::new();
        for (_, list) in by_type.values_mut() {
            list.sort_by_key(|&Seen { id, deletion, blocking, .. }| {
                (Reverse(deletion), !blocking, self.store.namespace(id), self.store.name(id), id)
            });
            dependents.extend(list.iter().take(limits.dependents_of_a_type).map(|seen| DependentSummary {
                identity: self.store.identity(seen.id),
                deletion: seen.deletion,
                blocking: seen.blocking,
                controller: seen.controller,
            }));
        }
        Some(NodeView {
            identity: self.store.identity(id),
            presence,
            deletion: node.deletion,
            finalizers: node.finalizers,
            references: self.references(id, limits.references),
            reference_count: self.store.owners(id).count(),
            dependents,
            by_type: by_type.into_values().map(|(count, _)| count).collect(),
            blocking,
            is_complete,
        })
    }

    /// The dependents of an object, each once, and whether these are all.
    fn see_dependents(&self, id: NodeId, visits: usize) -> (Vec<Seen>, bool) {
        let mut places = KeyedMap::with_hasher(self.store.hasher);
        let mut seen: Vec<Seen> = Vec::new();
        let mut edges = self.counted_dependents(id);
        for edge in edges.by_ref().take(visits) {
            let edge = &self.store.edges[edge];
            let place = *places.entry(edge.dependent).or_insert(seen.len());
            if place == seen.len() {
                let deletion = self.store.nodes[edge.dependent].deletion;
                seen.push(Seen { id: edge.dependent, deletion, blocking: false, controller: false });
            }
            seen[place].blocking |= edge.blocking;
            seen[place].controller |= edge.controller;
        }
        (seen, edges.next().is_none())
    }

    /// The observed objects of this partition that a search finds, in no particular order.
    pub fn found_by(&self, query: &SearchQuery) -> impl Iterator<Item = (Identity, DeletionState)> {
        let wanted = query.text.to_ascii_lowercase();
        let found = self.store.nodes.iter().filter(move |(id, _)| self.fits(query, &wanted, *id));
        found.map(|(id, node)| (self.store.identity(id), node.deletion))
    }

    /// The `most` best of what the first of these searches finds that finds anything, the best first,
    /// and where to go on; some of what others find may follow. Visits at most this many slots, so that
    /// the partition soon returns to its work. An empty page may have successors.
    pub fn page_of_search(
        &self,
        queries: &[SearchQuery],
        after: Option<Cursor>,
        slots: usize,
        most: usize,
    ) -> (Vec<Ranked>, Option<Cursor>) {
        let start = after.unwrap_or_default();
        let wanted: Vec<_> = queries.iter().map(|query| query.text.to_ascii_lowercase()).collect();
        let mut searches = queries.len();
        let mut best = Vec::new();
        for (id, _) in self.store.nodes.iter_from(start.0, slots) {
            let mut asked = queries.iter().zip(&wanted).take(searches);
            let Some(search) = asked.position(|(query, wanted)| self.fits(query, wanted, id)) else {
                continue;
            };
            searches = search + 1;
            let (name, wanted) = (self.store.name(id), &wanted[search]);
            let beginning = wanted.rsplit('/').next().unwrap_or_default();
            let by_name = match begins(name, beginning) {
                true if name.len() == beginning.len() => NameFit::Whole,
                true => NameFit::Beginning,
                false => NameFit::Part,
            };
            let is_no_owner = self.counted_dependents(id).next().is_none();
            best.push((Fit { search, by_name, is_no_owner }, name, self.store.namespace(id), id));
        }
        if best.len() > most {
            best.select_nth_unstable(most);
            best.truncate(most);
        }
        best.sort_unstable();
        let found = best.into_iter();
        let found = found.map(|(fit, .., id)| (fit, self.store.identity(id), self.store.nodes[id].deletion));
        (found.collect(), self.next_places(start, slots))
    }

    /// Whether an object is observed and fits a search, whose text is given in lower case.
    fn fits(&self, query: &SearchQuery, wanted: &str, id: NodeId) -> bool {
        let node = &self.store.nodes[id];
        // No object has a longer name, but references may.
        let is_absent = node.presence == Presence::Absent && node.name.len() <= 253;
        // What else is not observed may have no type.
        if !(node.is_observed() || query.or_absent && is_absent) || self.is_alias(id) {
            return false;
        }
        let resource = self.store.resource(id);
        (!query.being_deleted || node.deletion.is_being_deleted())
            && query.resource.as_ref().is_none_or(|wanted| resource.group_resource == *wanted)
            && query.namespace.as_ref().is_none_or(|wanted| self.store.namespace(id) == Some(wanted))
            && query.is_in(&resource.kind, self.store.name(id), wanted)
    }
}
