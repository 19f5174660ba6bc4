//! Collects all objects that a deletion may concern.
//!
//! The other questions are asked anew whenever a fact is learned. This one can be about a million
//! objects, so the walk keeps what it has learned, and takes each fact once.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use crate::plan::answer::{Cascade, Plan};
use kube_gc_core::graph::{Member, MemberPage, MembersOf, OwnerState, OwnerView, ReferenceSnapshot};
use kube_gc_core::object::{
    DeletionState, Finalizers, GroupResource, Identity, Key, Namespace, PropagationPolicy,
};

/// What is asked.
#[derive(Clone, Debug)]
pub struct PlanQuery {
    /// The objects that would be deleted, one or more.
    pub roots: Vec<Identity>,
    pub policy: PropagationPolicy,
    /// What a root takes along though it does not own it, with the place of the root: the pods of a node, the claims
    /// that a pod frees.
    pub others: Vec<(usize, Key)>,
    /// The most objects that are looked at.
    pub limit: usize,
}

/// The index of an object in the list of those that were visited.
pub(super) type Index = u32;

/// An object that was visited.
#[derive(Debug)]
pub(super) struct Visited {
    pub(super) identity: Identity,
    pub(super) deletion: DeletionState,
    /// How it is deleted, if that is asked for or has begun.
    pub(super) cascade: Option<Cascade>,
    pub(super) finalizers: Finalizers,
    pub(super) held_by_others: bool,
    pub(super) references: Vec<Reference>,
    /// The namespace that it is in, the definition of its type, and others that take it along, as far as they were
    /// visited and may go.
    pub(super) containers: Vec<Index>,
    /// References to owners that stay, as far as is known.
    kept_by: u32,
    /// References to owners that may go, and take it along.
    taken_by: u32,
    /// It may go, so its dependents matter.
    pub(super) is_open: bool,
    pub(super) has_dependents: bool,
    /// A namespace that nobody empties.
    pub(super) keeps_contents: bool,
}

/// An owner reference of an object that was visited.
#[derive(Debug)]
pub(super) struct Reference {
    pub(super) owner: Owner,
    pub(super) blocking: bool,
    /// An object with the uid of the owner and another name: it does not own the dependent, and
    /// waits for it all the same.
    pub(super) namesake: Option<Index>,
}

impl Reference {
    /// A reference to an owner that may be visited later.
    fn unknown(snapshot: ReferenceSnapshot) -> Self {
        let blocking = snapshot.reference.block_owner_deletion;
        Self { owner: Owner::Other(Box::new(snapshot)), blocking, namesake: None }
    }

    /// The owner, if it was visited.
    pub(super) fn visited(&self) -> Option<Index> {
        match self.owner {
            Owner::Visited(owner) => Some(owner),
            Owner::Other(_) => None,
        }
    }
}

/// What a reference refers to.
#[derive(Debug)]
pub(super) enum Owner {
    Visited(Index),
    Other(Box<ReferenceSnapshot>),
}

/// A walk from an object to all that its deletion may concern: its dependents, the contents of a
/// namespace, the objects of a definition, and what belongs to these. It follows the dependents of
/// an object only if the object may go.
#[derive(Debug)]
pub struct Walk {
    pub(super) query: PlanQuery,
    /// The roots first.
    pub(super) visited: Vec<Visited>,
    pub(super) roots: Index,
    /// Finds objects by the hash of their identity.
    places: HashMap<u64, Index>,
    hasher: RandomState,
    /// The objects that wait for an owner to open, by its hash: it may be visited later.
    waiting: HashMap<u64, Vec<Index>>,
    /// The namespaces and definitions whose contents were asked for.
    containers: HashMap<MembersOf, Index>,
    needs: Vec<MembersOf>,
    /// There are more objects than the limit.
    pub(super) truncated: bool,
}

/// An object that takes others along though it does not own them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Container {
    /// All that is in it goes before it.
    Namespace(Namespace),
    /// All objects of this type go before it.
    Definition(GroupResource),
    /// Its pods go after it.
    Node,
}

impl Container {
    /// Whether an object is one, and of what.
    pub(crate) fn of(identity: &Identity) -> Option<Self> {
        let GroupResource { group, resource } = &identity.resource.group_resource;
        match (&**group, &**resource) {
            ("", "namespaces") => Namespace::parse(&identity.name).map(Self::Namespace),
            ("", "nodes") => Some(Self::Node),
            ("apiextensions.k8s.io", "customresourcedefinitions") => {
                Some(Self::Definition(GroupResource::parse(&identity.name)))
            }
            _ => None,
        }
    }

    /// What it takes along, if the graph tells.
    fn contents(self) -> Option<MembersOf> {
        match self {
            Self::Namespace(namespace) => Some(MembersOf::Namespace(namespace)),
            Self::Definition(resource) => Some(MembersOf::Type(resource)),
            Self::Node => None,
        }
    }
}

impl Walk {
    /// A walk that begins at the roots of a question.
    pub fn new(mut query: PlanQuery) -> Self {
        let (roots, others) = (query.roots.clone(), std::mem::take(&mut query.others));
        let mut walk = Self {
            query,
            visited: Vec::new(),
            roots: 0,
            places: HashMap::new(),
            hasher: RandomState::new(),
            waiting: HashMap::new(),
            containers: HashMap::new(),
            needs: Vec::new(),
            truncated: false,
        };
        for identity in roots {
            walk.needs.push(MembersOf::Object(identity.key()));
            let root = Member {
                identity,
                deletion: DeletionState::Live,
                finalizers: Finalizers::default(),
                held_by_others: false,
                // Its owners have no say, but it may block one that goes with it.
                references: Vec::new(),
                has_dependents: true,
            };
            walk.meet(root, None);
        }
        walk.roots = Index::try_from(walk.visited.len()).unwrap_or(Index::MAX);
        let asked = Some(walk.query.policy.into());
        walk.visited.iter_mut().for_each(|root| root.cascade = asked);
        (0..walk.roots).for_each(|root| walk.open(root));
        for (root, other) in others {
            let other = MembersOf::Object(other);
            walk.needs.push(other.clone());
            walk.containers.extend(Index::try_from(root).map(|root| (other, root)));
        }
        walk
    }

    /// Whether somebody deletes the object, whatever its owners do.
    pub(super) const fn is_root(&self, place: Index) -> bool {
        place < self.roots
    }

    /// Takes what a plan has found out: which roots are being deleted already, which keep what is in them, and which
    /// objects go though an owner of them was taken for one that stays. Returns whether that changes the plan.
    pub fn follow(&mut self, plan: &Plan) -> bool {
        let mut is_new = false;
        for (root, new) in self.visited.iter_mut().zip(&plan.states) {
            is_new |= (root.deletion, root.cascade, root.keeps_contents) != *new;
            (root.deletion, root.cascade, root.keeps_contents) = *new;
        }
        let takes: Vec<bool> = self.visited.iter().map(|container| !container.keeps_contents).collect();
        self.visited.iter_mut().for_each(|of| of.containers.retain(|of| takes[*of as usize]));
        plan.unfollowed.iter().for_each(|place| self.open(*place));
        is_new || !self.needs.is_empty()
    }

    /// What the walk needs next; nothing if it is at its end. All pages of each answer go to
    /// [`learn`](Self::learn).
    pub fn needs(&mut self) -> Vec<MembersOf> {
        std::mem::take(&mut self.needs)
    }

    /// Takes a page of an answer.
    pub fn learn(&mut self, of: &MembersOf, page: MemberPage) {
        let container = self.containers.get(of).copied();
        self.needs.extend(page.elsewhere.into_iter().map(MembersOf::Object));
        for member in page.members {
            self.meet(member, container);
        }
    }

    /// The end of the walk. References to objects that were visited later are found now.
    pub fn finish(&mut self) {
        for place in 0..self.visited.len() {
            let mut references = std::mem::take(&mut self.visited[place].references);
            for reference in &mut references {
                let Owner::Other(snapshot) = &reference.owner else { continue };
                let Some(identity) = snapshot.owner.identity() else { continue };
                match self.find(identity) {
                    Some(owner) => reference.owner = Owner::Visited(owner),
                    None => reference.namesake = self.find_uid(identity),
                }
            }
            self.visited[place].references = references;
        }
        for root in self.visited.iter_mut().take(self.roots as usize) {
            root.references.retain(|reference| reference.visited().or(reference.namesake).is_some());
        }
    }

    /// Two resources can serve one object; then kind, namespace, name and uid are the same.
    fn hash(&self, identity: &Identity) -> u64 {
        let Identity { resource, namespace, name: _, uid } = identity;
        self.hasher.hash_one((uid, namespace, &resource.kind))
    }

    /// The object with this uid, whatever its name.
    fn find_uid(&self, identity: &Identity) -> Option<Index> {
        let place = *self.places.get(&self.hash(identity))?;
        // One that is just being added is not found.
        let visited = &self.visited.get(place as usize)?.identity;
        let is_same = visited.uid == identity.uid
            && visited.namespace == identity.namespace
            && visited.resource.kind == identity.resource.kind;
        is_same.then_some(place)
    }

    pub(super) fn find(&self, identity: &Identity) -> Option<Index> {
        self.find_uid(identity).filter(|&place| self.visited[place as usize].identity.name == identity.name)
    }

    fn meet(&mut self, member: Member, container: Option<Index>) {
        let Member { identity, deletion, finalizers, held_by_others, references, has_dependents } = member;
        if let Some(place) = self.find(&identity) {
            if self.is_root(place) && self.visited[place as usize].references.is_empty() {
                let root = &mut self.visited[place as usize];
                root.deletion = deletion;
                root.references = references.into_iter().map(Reference::unknown).collect();
            }
            if let Some(container) = container
                && place != container
            {
                self.visited[place as usize].containers.push(container);
                self.open(place);
            }
            return;
        }
        let Ok(place) = Index::try_from(self.visited.len()) else { return };
        if self.visited.len() >= self.query.limit.max(1) {
            self.truncated = true;
            return;
        }
        let hash = self.hash(&identity);
        self.places.insert(hash, place);
        let (mut kept_by, mut taken_by) = (0, 0);
        let references = references.into_iter().map(Reference::unknown).map(|mut reference| {
            let Owner::Other(snapshot) = &reference.owner else { return reference };
            let owner = snapshot.owner.identity();
            let found = owner.and_then(|owner| self.find(owner));
            let keeps = match (found, &snapshot.owner) {
                (Some(found), _) => !self.visited[found as usize].is_open,
                (None, OwnerView::InvalidScope) => true,
                (None, OwnerView::Local { state: OwnerState::Observed { deletion, .. }, .. }) => {
                    *deletion == DeletionState::Live
                }
                // Whether these exist is found out later.
                (None, OwnerView::Unresolved | OwnerView::Remote(_) | OwnerView::Local { .. }) => false,
            };
            if keeps {
                kept_by += 1;
                if let Some(hash) = owner.map(|owner| self.hash(owner)) {
                    self.waiting.entry(hash).or_default().push(place);
                }
            } else {
                taken_by += u32::from(!found.is_some_and(|found| self.orphans(found)));
            }
            if let Some(found) = found {
                reference.owner = Owner::Visited(found);
            }
            reference
        });
        let references = references.collect();
        self.visited.push(Visited {
            identity,
            deletion,
            cascade: Cascade::begun(deletion),
            finalizers,
            held_by_others,
            references,
            containers: container.into_iter().filter(|&container| container != place).collect(),
            kept_by,
            taken_by,
            is_open: false,
            has_dependents,
            keeps_contents: false,
        });
        if container.is_some() || deletion.is_being_deleted() || (kept_by == 0 && taken_by > 0) {
            self.open(place);
        }
    }

    /// Whether the dependents of an object lose their reference to it when it goes.
    pub(super) fn orphans(&self, place: Index) -> bool {
        let is_asked = self.visited[place as usize].finalizers.orphan;
        self.cascade(place).map_or(is_asked, |cascade| cascade == Cascade::Orphan)
    }

    /// How an object goes, unless its finalizers or its owners decide. The namespace controller deletes in the
    /// background, whatever was asked for before.
    pub(super) fn cascade(&self, place: Index) -> Option<Cascade> {
        let visited = &self.visited[place as usize];
        let is_namespace = |place: &Index| {
            matches!(Container::of(&self.visited[*place as usize].identity), Some(Container::Namespace(_)))
        };
        if visited.containers.iter().any(is_namespace) { Some(Cascade::Background) } else { visited.cascade }
    }

    /// An object may go. Works on a stack of its own, because a chain can be as long as there are
    /// objects.
    fn open(&mut self, place: Index) {
        let mut opening = vec![place];
        while let Some(place) = opening.pop() {
            let visited = &mut self.visited[place as usize];
            if std::mem::replace(&mut visited.is_open, true) {
                continue;
            }
            if visited.has_dependents {
                self.needs.push(MembersOf::Dependents(visited.identity.key()));
            }
            if let Some(contents) = Container::of(&visited.identity).and_then(Container::contents) {
                self.needs.push(contents.clone());
                self.containers.insert(contents, place);
            }
            let takes = u32::from(!self.orphans(place));
            let hash = self.hash(&self.visited[place as usize].identity);
            for waiting in self.waiting.remove(&hash).unwrap_or_default() {
                let visited = &mut self.visited[waiting as usize];
                visited.kept_by -= 1;
                visited.taken_by += takes;
                if visited.kept_by == 0 && visited.taken_by > 0 {
                    opening.push(waiting);
                }
            }
        }
    }
}
