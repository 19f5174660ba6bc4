//! Which objects go, by the collector's own verdict.
//!
//! The collector works on many objects at once, in any order. An object surely goes if it does in
//! every order, and may go if it does in some. The two differ only below objects that carry the
//! finalizer `orphan`, and where an owner could not be looked at.

use std::sync::Arc;

use crate::knowledge::Asker;
use kube_gc_core::graph::{ForegroundProgress, Generation, ObjectSnapshot, OwnerView, ReferenceSnapshot};
use kube_gc_core::object::{DeletionState, OwnerReference};
use kube_gc_core::verdict::{Decision, ReferenceClass, decide};

use super::outside::{Outside, outside};
use super::walk::{Index, Owner, Visited, Walk};

/// The references between the objects that were visited, by owner.
#[derive(Debug)]
pub(super) struct Dependents {
    starts: Vec<usize>,
    entries: Vec<(Index, bool)>,
}

impl Dependents {
    fn of(walk: &Walk) -> Self {
        let mut starts = vec![0; walk.visited.len() + 1];
        let owners = |visited: &Visited| {
            let of_visited = visited.references.iter().filter_map(|reference| match reference.owner {
                Owner::Visited(owner) => Some((owner as usize, reference.blocking)),
                Owner::Other(_) => None,
            });
            of_visited.collect::<Vec<_>>()
        };
        for visited in &walk.visited {
            for (owner, _) in owners(visited) {
                starts[owner + 1] += 1;
            }
        }
        for place in 1..starts.len() {
            starts[place] += starts[place - 1];
        }
        let mut next = starts.clone();
        let mut entries = vec![(0, false); starts.last().copied().unwrap_or_default()];
        for (place, visited) in (0..).zip(&walk.visited) {
            for (owner, blocking) in owners(visited) {
                entries[next[owner]] = (place, blocking);
                next[owner] += 1;
            }
        }
        Self { starts, entries }
    }

    /// The dependents of an object, once for each reference, and whether it blocks.
    pub(super) fn of_owner(&self, owner: Index) -> &[(Index, bool)] {
        let owner = owner as usize;
        &self.entries[self.starts[owner]..self.starts[owner + 1]]
    }
}

/// What happens to each object that was visited, by its place.
#[derive(Debug)]
pub(super) struct Outcomes {
    pub(super) dependents: Dependents,
    /// The objects in each namespace, and of each definition.
    pub(super) contents: Vec<(Index, Index)>,
    /// Goes in every order.
    pub(super) sure: Vec<bool>,
    /// Goes in some order.
    pub(super) may: Vec<bool>,
    /// Of each object, the classes of its references to owners that were not visited.
    pub(super) outside: Vec<Vec<Outside>>,
}

impl Outcomes {
    /// Decides about all objects. `None` if the question needs more facts.
    pub(super) fn of(asker: &mut Asker<'_>, walk: &Walk) -> Option<Self> {
        let mut complete = true;
        let mut all = Vec::with_capacity(walk.visited.len());
        for visited in &walk.visited {
            let mut classes = Vec::new();
            for reference in &visited.references {
                if let Owner::Other(snapshot) = &reference.owner {
                    match outside(asker, snapshot) {
                        Some(class) => classes.push(class),
                        None => complete = false,
                    }
                }
            }
            all.push(classes);
        }
        if !complete {
            return None;
        }
        let mut contents: Vec<(Index, Index)> = (0..)
            .zip(&walk.visited)
            .filter_map(|(place, visited)| Some((visited.container?, place)))
            .collect();
        contents.sort_unstable();
        let mut outcomes = Self {
            dependents: Dependents::of(walk),
            contents,
            sure: Vec::new(),
            may: Vec::new(),
            outside: all,
        };
        outcomes.sure = outcomes.spread(walk, true);
        outcomes.may = outcomes.spread(walk, false);
        Some(outcomes)
    }

    /// The objects in a namespace, or of a definition.
    pub(super) fn contents(&self, container: Index) -> impl Iterator<Item = Index> {
        let start = self.contents.partition_point(|&(of, _)| of < container);
        self.contents[start..].iter().take_while(move |&&(of, _)| of == container).map(|&(_, place)| place)
    }

    /// The objects that go. Each is decided on when the last of its owners is known to go.
    fn spread(&self, walk: &Walk, surely: bool) -> Vec<bool> {
        let mut goes = vec![false; walk.visited.len()];
        let mut left: Vec<u32> = walk
            .visited
            .iter()
            .map(|visited| {
                visited
                    .references
                    .iter()
                    .map(|reference| u32::from(matches!(reference.owner, Owner::Visited(_))))
                    .sum()
            })
            .collect();
        let mut going: Vec<Index> = vec![0];
        let deleted = (0..).zip(&walk.visited).filter(|(_, visited)| visited.deletion.is_being_deleted());
        going.extend(deleted.map(|(place, _)| place));
        while let Some(place) = going.pop() {
            if std::mem::replace(&mut goes[place as usize], true) {
                continue;
            }
            going.extend(self.contents(place));
            for &(dependent, _) in self.dependents.of_owner(place) {
                left[dependent as usize] -= 1;
                if left[dependent as usize] == 0
                    && !goes[dependent as usize]
                    && self.is_deleted(walk, dependent, surely)
                {
                    going.push(dependent);
                }
            }
        }
        goes
    }

    /// Whether the collector deletes an object when all its owners that were visited have gone.
    fn is_deleted(&self, walk: &Walk, place: Index, surely: bool) -> bool {
        let visited = &walk.visited[place as usize];
        let mut outside = self.outside[place as usize].iter();
        let classes = visited.references.iter().filter_map(|reference| {
            let class = match reference.owner {
                Owner::Visited(owner) if walk.orphans(owner) => ReferenceClass::Orphaned,
                Owner::Visited(_) => ReferenceClass::Absent,
                Owner::Other(_) => of_outside(*outside.next()?, surely),
            };
            // In some order, the references to orphaning owners have gone before it is decided on.
            (surely || class != ReferenceClass::Orphaned).then_some((reference.blocking, class))
        });
        let (blocking, classes): (Vec<bool>, Vec<ReferenceClass>) = classes.collect();
        matches!(verdict(visited, &blocking, &classes), Decision::Delete { .. })
    }
}

/// The class of a reference to an owner that was not visited, after all that goes has gone.
pub(super) const fn of_outside(outside: Outside, surely: bool) -> ReferenceClass {
    match outside {
        Outside::Known(class) => class,
        Outside::Leaving => ReferenceClass::Absent,
        Outside::Orphaning => ReferenceClass::Orphaned,
        Outside::Unseen if surely => ReferenceClass::Unresolved,
        Outside::Unseen => ReferenceClass::Absent,
    }
}

/// The collector's verdict on an object with references of these classes.
pub(super) fn verdict(visited: &Visited, blocking: &[bool], classes: &[ReferenceClass]) -> Decision {
    let nothing: Arc<str> = "".into();
    let references = blocking.iter().map(|&block_owner_deletion| ReferenceSnapshot {
        reference: OwnerReference {
            api_version: Arc::clone(&nothing),
            kind: Arc::clone(&nothing),
            name: Arc::clone(&nothing),
            uid: visited.identity.uid.clone(),
            controller: false,
            block_owner_deletion,
        },
        // The classes say all that is known of the owners.
        owner: OwnerView::Unresolved,
    });
    let snapshot = ObjectSnapshot {
        identity: visited.identity.clone(),
        resource_version: None,
        generation: Generation(0),
        deletion: DeletionState::Live,
        finalizers: visited.finalizers,
        references: references.collect(),
        has_dependents: false,
        has_dependent_deleting_dependents: false,
        foreground: ForegroundProgress::Unblocked,
    };
    decide(&snapshot, classes)
}
