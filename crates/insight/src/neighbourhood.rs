//! What belongs to an object, and which dependents are shown where there is no room for all.

use std::collections::{BTreeSet, HashMap, VecDeque};

use indexmap::IndexSet;
use serde::{Deserialize, Serialize};

use crate::judge::{JudgedReference, classify, resolve};
use crate::knowledge::{Asker, Details, Live};
use crate::name::{ObjectName, Report};
use kube_gc_core::graph::{
    DependentSummary, NodePresence, NodeView, ReferenceSnapshot, TypeCount, ViewLimits,
};
use kube_gc_core::object::{DeletionState, GroupResource, Identity};
use kube_gc_core::verdict::ReferenceClass;

/// What a neighbourhood shows.
#[derive(Clone, Debug)]
pub struct NeighbourhoodQuery {
    pub root: Identity,
    /// How far up owners are shown.
    pub up: usize,
    /// How far down dependents are shown.
    pub down: usize,
    /// The most objects.
    pub limit: usize,
}

/// The state of an object, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// It exists and is not being deleted.
    Live,
    /// It is being deleted, and waits for finalizers or its grace period.
    Terminating,
    /// It is being deleted, and waits for its blocking dependents.
    DeletingDependents,
    /// It is being deleted, and its dependents are being released.
    Orphaning,
    /// It does not exist.
    Absent,
    /// Whether it exists is not known.
    #[default]
    Unknown,
    /// Its kind is not served.
    Unresolved,
    /// Only a cluster-scoped object names it, which can have no such owner.
    InvalidScope,
}

impl State {
    /// Whether it has a deletion timestamp.
    pub const fn is_being_deleted(self) -> bool {
        matches!(self, Self::Terminating | Self::DeletingDependents | Self::Orphaning)
    }

    /// For people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Terminating | Self::DeletingDependents | Self::Orphaning => "terminating",
            Self::Absent => "absent",
            Self::Unknown => "unknown",
            Self::Unresolved => "unresolved",
            Self::InvalidScope => "invalid scope",
        }
    }
}

impl From<DeletionState> for State {
    fn from(deletion: DeletionState) -> Self {
        match deletion {
            DeletionState::Live => Self::Live,
            DeletionState::Terminating => Self::Terminating,
            DeletionState::DeletingDependents => Self::DeletingDependents,
            DeletionState::Orphaning => Self::Orphaning,
        }
    }
}

/// What the graph does not keep of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeExtra {
    /// The cells of its row in the server's own table, by column.
    pub row: Vec<(String, String)>,
    /// Its finalizers, and when it was deleted; only of objects that are being deleted.
    pub details: Option<Details>,
}

/// An object of a neighbourhood.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    #[serde(flatten)]
    pub name: ObjectName,
    pub state: State,
    /// How many dependents block its deletion; 0 unless it waits for them.
    pub waits_for: usize,
    /// The distance from the root: negative for owners, positive for dependents.
    pub distance: i64,
    /// Its identity, if its kind resolves.
    #[serde(skip)]
    pub identity: Option<Identity>,
    #[serde(skip)]
    pub extra: NodeExtra,
}

/// An owner reference between two objects, by their places in the list of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Edge {
    pub dependent: usize,
    pub owner: usize,
    pub controller: bool,
    pub block_owner_deletion: bool,
    /// The class of the reference; `null` if it was not looked at.
    pub class: Option<ReferenceClass>,
}

/// Dependents that are not shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct More {
    /// The place of their owner in the list of nodes.
    pub owner: usize,
    pub kind: String,
    /// Resource and group as kubectl writes them.
    pub resource: String,
    pub count: usize,
    pub being_deleted: usize,
    /// Those of them that were looked at.
    #[serde(skip)]
    pub looked_at: Vec<Shown>,
}

impl Edge {
    /// The reference at the new places of its objects, unless one has none.
    pub(super) fn moved(&self, places: &HashMap<usize, usize>) -> Option<Self> {
        let (dependent, owner) = (*places.get(&self.dependent)?, *places.get(&self.owner)?);
        Some(Self { dependent, owner, ..self.clone() })
    }
}

impl More {
    /// The same at the new place of the owner, unless it has none.
    pub(super) fn moved(&self, places: &HashMap<usize, usize>) -> Option<Self> {
        Some(Self { owner: *places.get(&self.owner)?, ..self.clone() })
    }

    /// Counts a dependent that is not shown, and returns the place of its entry.
    pub fn count_in(all: &mut Vec<Self>, owner: usize, dependent: &Shown) -> usize {
        let resource = dependent.name.resource.clone().unwrap_or_default();
        let known = all.iter().position(|more| more.owner == owner && more.resource == resource);
        let place = known.unwrap_or(all.len());
        if known.is_none() {
            let kind = dependent.name.kind.clone();
            all.push(Self { owner, kind, resource, count: 0, being_deleted: 0, looked_at: Vec::new() });
        }
        all[place].count += 1;
        all[place].being_deleted += usize::from(dependent.state.is_being_deleted());
        place
    }
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Neighbourhood {
    /// The objects; the first one is the root.
    pub nodes: Vec<Shown>,
    pub edges: Vec<Edge>,
    pub more: Vec<More>,
    /// Whether owners or dependents were left out without being counted.
    pub truncated: bool,
}

/// Collects a neighbourhood.
struct Collecting {
    found: Neighbourhood,
    places: HashMap<ObjectName, usize>,
    limit: usize,
}

/// What is known of one object.
struct Look<'a> {
    state: State,
    references: Vec<ReferenceSnapshot>,
    reference_count: usize,
    view: Option<&'a NodeView>,
}

/// The neighbourhood of an object. An incomplete one is returned if more facts are needed.
pub fn neighbourhood(asker: &mut Asker<'_>, query: &NeighbourhoodQuery) -> Neighbourhood {
    let mut collecting =
        Collecting { found: Neighbourhood::default(), places: HashMap::new(), limit: query.limit.max(1) };
    collecting.place(ObjectName::from(&query.root), Some(&query.root), State::Unknown, 0);
    collecting.climb(asker, query.up);
    collecting.descend(asker, query.down);
    collecting.found
}

impl Collecting {
    /// The place of an object, and whether it is new. `None` if there is no room for it.
    fn place(
        &mut self,
        name: ObjectName,
        identity: Option<&Identity>,
        state: State,
        distance: i64,
    ) -> Option<(usize, bool)> {
        if let Some(&place) = self.places.get(&name) {
            return Some((place, false));
        }
        let place = self.found.nodes.len();
        if place == self.limit {
            return None;
        }
        self.places.insert(name.clone(), place);
        let identity = identity.cloned();
        self.found.nodes.push(Shown { name, state, distance, identity, ..Shown::default() });
        Some((place, true))
    }

    /// Notes what is known of the object at a place.
    fn look<'a>(&mut self, asker: &mut Asker<'a>, place: usize) -> Option<Look<'a>> {
        let identity = self.found.nodes[place].identity.clone()?;
        let look = look(asker, &identity)?;
        let shown = &mut self.found.nodes[place];
        shown.state = look.state;
        if let Some(view) = look.view
            && look.state == State::DeletingDependents
        {
            shown.waits_for = view.blocking;
        }
        Some(look)
    }

    /// Adds owners, level by level. Of the last level it is shown what they are, but not what they
    /// belong to.
    fn climb(&mut self, asker: &mut Asker<'_>, levels: usize) {
        let mut open = VecDeque::from([0]);
        while let Some(dependent) = open.pop_front() {
            let Some(look) = self.look(asker, dependent) else { continue };
            let distance = self.found.nodes[dependent].distance - 1;
            if distance.unsigned_abs() > levels as u64 {
                continue;
            }
            self.found.truncated |= look.references.len() < look.reference_count;
            for reference in &look.references {
                let Some(judged) = classify(asker, reference) else { continue };
                open.extend(self.add_owner(dependent, &judged, distance));
            }
        }
    }

    fn add_owner(&mut self, dependent: usize, judged: &JudgedReference, distance: i64) -> Option<usize> {
        let JudgedReference { owner, controller, block_owner_deletion, class, identity, .. } = judged;
        let state = match class {
            ReferenceClass::Solid => State::Live,
            ReferenceClass::Waiting => State::DeletingDependents,
            ReferenceClass::Absent | ReferenceClass::Orphaned => State::Absent,
            ReferenceClass::Unresolved if identity.is_some() => State::Unknown,
            ReferenceClass::Unresolved => State::Unresolved,
            ReferenceClass::InvalidScope => State::InvalidScope,
        };
        let Some((place, is_new)) = self.place(owner.clone(), identity.as_ref(), state, distance) else {
            self.found.truncated = true;
            return None;
        };
        self.found.edges.push(Edge {
            dependent,
            owner: place,
            controller: *controller,
            block_owner_deletion: *block_owner_deletion,
            class: Some(*class),
        });
        // Nothing more can be found out about one that is not there.
        let exists = matches!(class, ReferenceClass::Solid | ReferenceClass::Waiting);
        (is_new && exists).then_some(place)
    }

    /// Adds dependents, level by level. Those of the last level are counted.
    fn descend(&mut self, asker: &mut Asker<'_>, levels: usize) {
        let mut open = VecDeque::from([0]);
        while let Some(owner) = open.pop_front() {
            let Some(Look { view: Some(view), .. }) = self.look(asker, owner) else { continue };
            let distance = self.found.nodes[owner].distance + 1;
            if distance.unsigned_abs() > levels as u64 {
                self.count_rest(owner, view, &HashMap::new());
            } else {
                open.extend(self.add_dependents(owner, view, distance));
            }
        }
    }

    fn add_dependents(&mut self, owner: usize, view: &NodeView, distance: i64) -> Vec<usize> {
        let mut new = Vec::new();
        let mut shown: HashMap<&GroupResource, (usize, usize)> = HashMap::new();
        for dependent in &view.dependents {
            let &DependentSummary { ref identity, deletion, blocking, controller } = dependent;
            let name = ObjectName::from(identity);
            let Some((place, is_new)) = self.place(name, Some(identity), State::from(deletion), distance)
            else {
                continue;
            };
            let (dependent, block_owner_deletion) = (place, blocking);
            self.found.edges.push(Edge { dependent, owner, controller, block_owner_deletion, class: None });
            let (count, deleted) = shown.entry(&identity.resource.group_resource).or_default();
            *count += 1;
            *deleted += usize::from(deletion.is_being_deleted());
            if is_new {
                new.push(place);
            }
        }
        self.count_rest(owner, view, &shown);
        self.found.truncated |= !view.is_complete;
        new
    }

    /// Counts the dependents that are not shown: of each type, how many are, and how many of those are
    /// being deleted.
    fn count_rest(&mut self, owner: usize, view: &NodeView, shown: &HashMap<&GroupResource, (usize, usize)>) {
        for TypeCount { resource, total, being_deleted } in &view.by_type {
            let (of_type, deleted) = shown.get(&resource.group_resource).copied().unwrap_or_default();
            if *total > of_type {
                let (kind, resource) = (resource.kind.to_string(), resource.group_resource.to_string());
                let (count, being_deleted) = (total - of_type, being_deleted.saturating_sub(deleted));
                let looked_at = Vec::new();
                self.found.more.push(More { owner, kind, resource, count, being_deleted, looked_at });
            }
        }
    }
}

/// What the graph, or else a live read, knows of an object.
fn look<'a>(asker: &mut Asker<'a>, identity: &Identity) -> Option<Look<'a>> {
    let view = asker.node(&identity.key())?.filter(|view| view.identity == *identity);
    let without = |state| Look { state, references: Vec::new(), reference_count: 0, view };
    match view.map(|view| (&view.presence, view)) {
        Some((NodePresence::Observed, view)) => {
            let references = view.references.clone();
            let reference_count = view.reference_count;
            return Some(Look { references, reference_count, ..without(view.deletion.into()) });
        }
        Some((NodePresence::Absent, _)) => return Some(without(State::Absent)),
        _ => {}
    }
    Some(match asker.live(identity)? {
        Live::Found(live) => {
            let (facts, catalog) = (&live.facts, asker.catalog());
            let shown = facts.owners.iter().take(ViewLimits::default().references);
            let references = shown.map(|owner| resolve(catalog, facts.namespace.as_ref(), owner)).collect();
            let reference_count = facts.owners.len();
            Look { references, reference_count, ..without(facts.deletion_state().into()) }
        }
        Live::Absent(_) => without(State::Absent),
        Live::Failed(_) | Live::NotAsked => without(State::Unknown),
    })
}

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

impl Report for Neighbourhood {}

impl Neighbourhood {
    /// The worst `most` dependents of each owner and type, the worst first, with what is below
    /// them. Those that are alike stay in order. The others are counted.
    pub fn worst(&self, standing: impl Fn(&Shown) -> Standing, most: usize) -> Self {
        let resource = |edge: &Edge| &self.nodes[edge.dependent].name.resource;
        // Owners stay, whatever their distance.
        let is_above = |place: &usize| *place == 0 || self.nodes[*place].distance < 0;
        let mut open: VecDeque<usize> = (0..self.nodes.len()).filter(is_above).collect();
        let mut kept: BTreeSet<usize> = open.iter().copied().collect();
        let mut edges: Vec<&Edge> = self.edges.iter().filter(|edge| edge.class.is_some()).collect();
        let mut dropped = Vec::new();
        while let Some(owner) = open.pop_front() {
            let types: IndexSet<_> = self.below(owner).map(resource).collect();
            for of in types {
                let mut of_type: Vec<&Edge> = self.below(owner).filter(|edge| resource(edge) == of).collect();
                of_type.sort_by_key(|edge| standing(&self.nodes[edge.dependent]));
                let rest = of_type.split_off(most.min(of_type.len()));
                dropped.extend(rest.into_iter().map(|edge| (owner, &self.nodes[edge.dependent])));
                for edge in of_type {
                    edges.push(edge);
                    if kept.insert(edge.dependent) {
                        open.push_back(edge.dependent);
                    }
                }
            }
        }
        let now: HashMap<usize, usize> = kept.iter().enumerate().map(|(new, &old)| (old, new)).collect();
        let mut more: Vec<More> = self.more.iter().filter_map(|more| more.moved(&now)).collect();
        for (owner, node) in dropped {
            let place = More::count_in(&mut more, now[&owner], node);
            more[place].looked_at.push(node.clone());
        }
        Self {
            nodes: kept.iter().map(|&place| self.nodes[place].clone()).collect(),
            edges: edges.into_iter().filter_map(|edge| edge.moved(&now)).collect(),
            more,
            truncated: self.truncated,
        }
    }
}
