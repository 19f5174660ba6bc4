//! Reads an owner's dependents page by page.

use std::collections::BTreeSet;

use crate::object::Key;

use super::keyed::KeyedMap;
use super::node::{EdgeId, NodeId, Role};
use super::snapshot::Mark;
use super::state::Scan;
use super::{Bookmark, DependentView, Partition};

/// How many references a page visits per dependent that it may return. An object can name one
/// owner thousands of times, and is returned once.
const REFERENCES_PER_DEPENDENT: usize = 64;

impl Partition {
    /// A page of an object's dependents without duplicates, through any of its views, and the
    /// bookmark of the next page if there may be one.
    ///
    /// Every dependent that exists from the first page to the last is returned. All pages
    /// together take time linear in the number of references to the object, and memory for one
    /// page. If two callers read at the same time, one of them starts over.
    pub fn dependents(
        &mut self,
        owner: &Key,
        after: Option<Bookmark>,
        limit: usize,
    ) -> (Vec<DependentView>, Option<Bookmark>) {
        let Some(id) = self.store.find_key(owner) else { return (Vec::new(), None) };
        if self.store.nodes[id].role != Role::Single {
            let after = match after {
                Some(Bookmark(Mark::Node(after))) => after,
                _ => 0,
            };
            return self.dependents_of_group(id, after, limit);
        }
        let known = self.store.scans.get(&id).copied();
        let known = known.filter(|scan| after == Some(Bookmark(Mark::Pages(scan.pages))));
        let beginning = Scan { next: self.store.nodes[id].first_dependent, pages: 0 };
        let Scan { mut next, pages } = known.unwrap_or(beginning);
        let mut firsts = KeyedMap::with_hasher(self.store.node_hasher);
        let (mut page, mut looked_at) = (Vec::new(), 0);
        while let Some(edge) = next
            && page.len() < limit
            && looked_at < limit.saturating_mul(REFERENCES_PER_DEPENDENT)
        {
            #[cfg(test)]
            crate::object::steps::count();
            looked_at += 1;
            next = self.store.edges[edge].next_dependent;
            let dependent = self.store.edges[edge].dependent;
            let first = firsts.entry(dependent).or_insert_with(|| self.first_reference(dependent, id));
            if *first == Some(edge) {
                page.push(self.dependent_view(dependent, edge));
            }
        }
        if next.is_none() {
            self.store.scans.remove(&id);
            return (page, None);
        }
        let pages = pages.wrapping_add(1);
        self.store.scans.insert(id, Scan { next, pages });
        (page, Some(Bookmark(Mark::Pages(pages))))
    }

    /// The same for an object that is served twice. Each page visits all dependents; this is
    /// rare, and a user who may only create objects cannot cause it.
    fn dependents_of_group(
        &self,
        id: NodeId,
        after: u32,
        limit: usize,
    ) -> (Vec<DependentView>, Option<Bookmark>) {
        let mut page: BTreeSet<NodeId> = BTreeSet::new();
        let mut more = false;
        for edge in self.counted_dependents(id) {
            let dependent = self.store.edges[edge].dependent;
            if dependent.number() <= after {
                continue;
            }
            page.insert(dependent);
            if page.len() > limit {
                page.pop_last();
                more = true;
            }
        }
        let last = page.last().filter(|_| more);
        let next = last.map(|id| Bookmark(Mark::Node(id.number())));
        let view = |dependent| Some(self.dependent_view(dependent, self.first_reference(dependent, id)?));
        (page.into_iter().filter_map(view).collect(), next)
    }

    /// The first of a dependent's references to an owner that [counts](Self::counts_as_dependent).
    fn first_reference(&self, dependent: NodeId, owner: NodeId) -> Option<EdgeId> {
        let is = |&edge: &EdgeId| {
            self.same_object(self.store.edges[edge].owner, owner) && self.counts_as_dependent(edge)
        };
        self.store.owners(dependent).find(is)
    }

    fn dependent_view(&self, dependent: NodeId, edge: EdgeId) -> DependentView {
        DependentView {
            identity: self.store.identity(dependent),
            reference: self.store.reference(edge),
            shares_uid: self.shares_uid(edge),
            reference_count: self.store.owners(dependent).count(),
        }
    }
}
