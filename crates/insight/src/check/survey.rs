//! A first look at all objects, and the circles of objects that own each other.

use std::collections::{HashMap, HashSet};

use indexmap::IndexSet;

use crate::check::object::is_same;
use crate::local::LocalGraph;
use kube_gc_core::circles::components;
use kube_gc_core::graph::{ObjectSnapshot, OwnerState, OwnerView, SearchQuery};
use kube_gc_core::object::{DeletionState, Identity, Key, Uid};

/// The most objects with one uid that are looked at.
const HOLDERS: usize = 8;

/// What a first look at all objects has found.
#[derive(Debug, Default)]
pub struct Survey {
    pub objects: usize,
    pub references: usize,
    /// The objects that may have something wrong. All others have not.
    pub suspects: Vec<Key>,
    pub circles: Circles,
}

/// An object that may have something wrong.
#[derive(Debug)]
pub struct Suspect {
    pub object: ObjectSnapshot,
    /// For each of its references, the observed objects that have the uid.
    pub holders: Vec<Vec<Identity>>,
}

impl Survey {
    /// Looks at all objects of a graph, for what is wrong with those that are selected, or with all.
    pub fn of(graph: &mut LocalGraph, selected: Option<&HashSet<Uid>>) -> Self {
        let mut survey = Self::default();
        let mut edges = Vec::new();
        let is_selected = |uid: &Uid| selected.is_none_or(|uids| uids.contains(uid));
        for (identity, _) in graph.search(&SearchQuery::default()) {
            if let Some(object) = graph.object(&identity.key()) {
                survey.see(graph, &object, is_selected(&identity.uid), &mut edges);
            }
        }
        survey.circles = Circles::of(edges);
        // An object that is suspect for two reasons is looked at once.
        let known: HashSet<&Key> = survey.suspects.iter().collect();
        let members = survey.circles.0.keys().filter(|key| is_selected(&key.uid) && !known.contains(key));
        let members: Vec<Key> = members.cloned().collect();
        survey.suspects.extend(members);
        survey
    }

    fn see(
        &mut self,
        graph: &LocalGraph,
        object: &ObjectSnapshot,
        is_selected: bool,
        edges: &mut Vec<(Key, Key)>,
    ) {
        if is_selected {
            self.objects += 1;
            self.references += object.references.len();
        }
        if object.deletion.is_being_deleted() {
            // It goes already.
            return;
        }
        let key = object.identity.key();
        let mut uids: HashSet<&Uid> = HashSet::new();
        let mut is_suspect = false;
        for seen in &object.references {
            let exists = |state: &OwnerState| matches!(state, OwnerState::Observed { .. });
            is_suspect |= match &seen.owner {
                OwnerView::Local { state, identity } => is_same(identity, &object.identity) || !exists(state),
                OwnerView::Remote(identity) => !exists(&graph.owner_state(identity)),
                OwnerView::Unresolved | OwnerView::InvalidScope => true,
            };
            is_suspect |= !uids.insert(&seen.reference.uid);
            is_suspect |= graph.holders(&seen.reference.uid, 2).len() > 1;
            // Only what owns something and is owned can be in a circle.
            if let OwnerView::Local { identity, state: OwnerState::Observed { deletion, .. } } = &seen.owner
                && object.has_dependents
                && *deletion == DeletionState::Live
            {
                edges.push((key.clone(), identity.key()));
            }
        }
        if is_suspect && is_selected {
            self.suspects.push(key);
        }
    }
}

impl Suspect {
    /// An object of a graph, unless it is gone.
    pub fn of(graph: &mut LocalGraph, key: &Key) -> Option<Self> {
        let object = graph.object(key)?;
        let uids = object.references.iter().map(|seen| &seen.reference.uid);
        let holders = uids.map(|uid| graph.holders(uid, HOLDERS)).collect();
        Some(Self { object, holders })
    }
}

/// The objects that are in circles: of each, the number of its circle, and how many objects are in it.
#[derive(Debug, Default)]
pub struct Circles(HashMap<Key, (usize, usize)>);

impl Circles {
    /// Finds the circles among dependents and owners.
    fn of(edges: Vec<(Key, Key)>) -> Self {
        let mut keys: IndexSet<Key> = IndexSet::new();
        let mut arcs: Vec<Vec<usize>> = Vec::new();
        for (one, other) in edges {
            let (one, other) = (keys.insert_full(one).0, keys.insert_full(other).0);
            arcs.resize_with(keys.len(), Vec::new);
            arcs[one].push(other);
        }
        let circles = components(&arcs).into_iter();
        let circles = circles.filter(|members| members.len() > 1).enumerate();
        let of_members = circles.flat_map(|(number, members)| {
            let of_circle = (number, members.len());
            let keys = &keys;
            members.into_iter().map(move |place| (keys[place].clone(), of_circle))
        });
        Self(of_members.collect())
    }

    /// The number of objects in the circle that has both of these.
    pub fn with_both(&self, one: &Key, other: &Key) -> Option<usize> {
        let (one, other) = (self.0.get(one)?, self.0.get(other)?);
        (one == other).then_some(one.1)
    }
}
