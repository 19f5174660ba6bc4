//! What is known, and what a question still needs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use kube_gc_core::graph::{NodeView, ObjectSnapshot, OwnerState};
use kube_gc_core::object::{Catalog, Identity, Key, Namespace, ObjectFacts, Uid};

/// Something that a question has to know.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Need {
    /// The node of a key and its edges: [`Partition::view`](kube_gc_core::graph::Partition::view).
    Node(Key),
    /// The object of a key, for a verdict:
    /// [`Partition::inspect_object`](kube_gc_core::graph::Partition::inspect_object).
    Object(Key),
    /// What the owner's partition knows of it:
    /// [`Partition::owner_state`](kube_gc_core::graph::Partition::owner_state).
    Owner(Identity),
    /// What a live read of exactly this identity shows.
    Live(Identity),
}

impl Need {
    /// The namespace of what it is about, which tells the partition.
    #[must_use]
    pub const fn namespace(&self) -> Option<&Namespace> {
        match self {
            Self::Node(key) | Self::Object(key) => key.namespace.as_ref(),
            Self::Owner(identity) | Self::Live(identity) => identity.namespace.as_ref(),
        }
    }
}

/// The answer to a [`Need`].
#[derive(Clone, Debug)]
pub enum Fact {
    Node(Key, Option<NodeView>),
    Object(Key, Option<ObjectSnapshot>),
    Owner(Identity, OwnerState),
    Live(Identity, Live),
}

/// What a live read shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Live {
    /// The object exists.
    Found(Box<LiveObject>),
    /// The object is proved absent.
    Absent(AbsenceEvidence),
    /// The read failed, which proves nothing; the message is the server's.
    Failed(String),
    /// It was not read, because the question has used up its requests.
    NotAsked,
}

/// What proves that an object is absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AbsenceEvidence {
    /// The server answered with the object's own 404.
    NotFound,
    /// Another object has the name.
    OtherUid(Uid),
}

/// An object that was read live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveObject {
    pub facts: ObjectFacts,
    pub details: Details,
}

/// What people want to know of an object, and the graph does not keep. Times are in RFC 3339, as
/// the server writes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// When it was created.
    pub created: Option<String>,
    /// When it was deleted.
    pub deleted: Option<String>,
    /// All its finalizers, in order.
    pub finalizers: Vec<String>,
    /// Who set which finalizer, as far as `managedFields` say.
    pub setters: Vec<FinalizerSetter>,
}

/// A field manager that owns a finalizer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FinalizerSetter {
    #[serde(skip)]
    pub finalizer: String,
    pub manager: String,
    /// When it last wrote the fields that the finalizer is among.
    pub time: Option<String>,
    /// When it last wrote anything of the object, its status included.
    #[serde(skip)]
    pub last_write: Option<String>,
}

/// The facts that were found out so far. They are of about one moment: a question is asked again
/// from the beginning, not continued later.
#[derive(Debug, Default)]
pub struct Knowledge {
    nodes: HashMap<Key, Option<NodeView>>,
    objects: HashMap<Key, Option<ObjectSnapshot>>,
    owners: HashMap<Identity, OwnerState>,
    live: HashMap<Identity, Live>,
}

impl Knowledge {
    pub fn learn(&mut self, fact: Fact) {
        match fact {
            Fact::Node(key, view) => drop(self.nodes.insert(key, view)),
            Fact::Object(key, object) => drop(self.objects.insert(key, object)),
            Fact::Owner(identity, state) => drop(self.owners.insert(identity, state)),
            Fact::Live(identity, live) => drop(self.live.insert(identity, live)),
        }
    }

    /// Forgets what the graph said, because it has grown since.
    pub fn forget_graph(&mut self) {
        self.nodes.clear();
        self.objects.clear();
        self.owners.clear();
    }

    /// Whether anything is known from a live read.
    #[must_use]
    pub fn has_reads(&self) -> bool {
        !self.live.is_empty()
    }

    /// The object that a live read has found.
    #[must_use]
    pub fn found(&self, identity: &Identity) -> Option<&LiveObject> {
        match self.live.get(identity)? {
            Live::Found(live) => Some(live),
            Live::Absent(_) | Live::Failed(_) | Live::NotAsked => None,
        }
    }

    /// The live reads that failed, in no particular order.
    pub fn failed_reads(&self) -> impl Iterator<Item = (&Identity, &str)> {
        self.live.iter().filter_map(|(identity, live)| match live {
            Live::Failed(why) => Some((identity, why.as_str())),
            Live::Found(_) | Live::Absent(_) | Live::NotAsked => None,
        })
    }
}

/// Reads the knowledge for a question, and notes what is missing. A question goes on without what
/// is missing, so that it finds out as much as possible of what it needs at once.
#[derive(Debug)]
pub struct Asker<'a> {
    known: &'a Knowledge,
    catalog: &'a Arc<Catalog>,
    /// The live reads that may still be asked for.
    reads_left: usize,
    needs: Vec<Need>,
    noted: HashSet<Need>,
}

/// Asks a question. Either it can be answered, or the caller has to find out what it needs.
///
/// `reads` limits the live reads of the whole question. What exceeds it counts as
/// [`Live::NotAsked`].
///
/// # Errors
///
/// What the question needs, without duplicates. It is never empty.
pub fn ask<A>(
    known: &Knowledge,
    catalog: &Arc<Catalog>,
    reads: usize,
    question: impl FnOnce(&mut Asker<'_>) -> A,
) -> Result<A, Vec<Need>> {
    let reads_left = reads.saturating_sub(known.live.len());
    let mut asker = Asker { known, catalog, reads_left, needs: Vec::new(), noted: HashSet::new() };
    let answer = question(&mut asker);
    if asker.needs.is_empty() { Ok(answer) } else { Err(asker.needs) }
}

impl<'a> Asker<'a> {
    /// The types that the API server serves.
    #[must_use]
    pub const fn catalog(&self) -> &'a Arc<Catalog> {
        self.catalog
    }

    /// The node of a key. The outer `None` means that it is not known yet.
    pub fn node(&mut self, key: &Key) -> Option<Option<&'a NodeView>> {
        let known = self.known.nodes.get(key).map(Option::as_ref);
        self.unless_known(known, || Need::Node(key.clone()))
    }

    /// The object of a key. The outer `None` means that it is not known yet.
    pub fn object(&mut self, key: &Key) -> Option<Option<&'a ObjectSnapshot>> {
        let known = self.known.objects.get(key).map(Option::as_ref);
        self.unless_known(known, || Need::Object(key.clone()))
    }

    /// What the graph knows of an identity; `None` means that this is not known yet.
    pub fn owner(&mut self, identity: &Identity) -> Option<&'a OwnerState> {
        let known = self.known.owners.get(identity);
        self.unless_known(known, || Need::Owner(identity.clone()))
    }

    /// What a live read shows; `None` means that this is not known yet.
    pub fn live(&mut self, identity: &Identity) -> Option<&'a Live> {
        const NOT_ASKED: &Live = &Live::NotAsked;
        if let Some(live) = self.known.live.get(identity) {
            return Some(live);
        }
        let need = Need::Live(identity.clone());
        if self.noted.contains(&need) {
            return None;
        }
        if self.reads_left == 0 {
            return Some(NOT_ASKED);
        }
        self.reads_left -= 1;
        self.note(need);
        None
    }

    fn unless_known<T>(&mut self, known: Option<T>, need: impl FnOnce() -> Need) -> Option<T> {
        if known.is_none() {
            self.note(need());
        }
        known
    }

    fn note(&mut self, need: Need) {
        if self.noted.insert(need.clone()) {
            self.needs.push(need);
        }
    }
}
