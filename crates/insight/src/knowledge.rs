//! Facts, needs, and what asks a question until nothing is missing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexSet;
use serde::{Deserialize, Serialize};

use crate::contents::NamespaceCondition;
use crate::name::{LeftOut, ObjectName, Outside, Unseen};
use kube_gc_core::graph::{NodeView, ObjectSnapshot, OwnerState};
use kube_gc_core::object::{
    Catalog, DeletionState, GroupResource, Identity, Key, Namespace, ObjectFacts, Uid, seconds,
};

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
    /// Which pods use this claim.
    Users(Identity),
    /// In which other namespace the object is that has this uid.
    Elsewhere(Identity),
}

impl Need {
    /// The namespace of what it is about, which tells the partition.
    pub const fn namespace(&self) -> Option<&Namespace> {
        match self {
            Self::Node(key) | Self::Object(key) => key.namespace.as_ref(),
            Self::Owner(identity)
            | Self::Live(identity)
            | Self::Users(identity)
            | Self::Elsewhere(identity) => identity.namespace.as_ref(),
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
    /// The first pods, or why they cannot be read.
    Users(Identity, Result<Vec<ObjectName>, String>),
    /// `None` if nobody knows one.
    Elsewhere(Identity, Option<ObjectName>),
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

impl Live {
    /// The state of the object, if it was found.
    pub fn deletion(&self) -> Option<DeletionState> {
        self.found().map(|live| live.facts.deletion_state())
    }

    pub fn found(&self) -> Option<&LiveObject> {
        if let Self::Found(live) = self { Some(live) } else { None }
    }
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
    /// When the server answered, by its own clock.
    pub read: Option<String>,
    /// When somebody deleted it, which is before its grace period.
    pub deleted: Option<String>,
    /// The seconds of its grace period, as far as the server has not confirmed that it has ended.
    pub grace: u64,
    /// All its finalizers, in order.
    pub finalizers: Vec<String>,
    /// Who set which finalizer, as far as `managedFields` say.
    pub setters: Vec<FinalizerSetter>,
    /// What only the whole object says.
    pub particulars: Particulars,
}

impl Details {
    /// What a namespace or a definition says of its own deletion.
    pub(super) fn condition(&self) -> Option<&NamespaceCondition> {
        let Particulars::Container { conditions, .. } = &self.particulars else { return None };
        conditions.iter().find(|condition| !condition.says_what_is_left()).or(conditions.first())
    }

    /// Why a namespace or a definition does not go, other than that something is left.
    pub(super) fn failure(&self) -> Option<&NamespaceCondition> {
        self.condition().filter(|condition| !condition.says_what_is_left())
    }

    /// Whether it was deleted, with its grace period, longer ago than this. The server's times have no fractions of a
    /// second.
    pub fn is_stuck(&self, older: Duration) -> bool {
        let overdue = self.overdue().and_then(|seconds| u64::try_from(seconds).ok());
        overdue.is_some_and(|seconds| seconds > older.as_secs())
    }

    /// The seconds since its grace period has ended; negative before that. `None` if it is not being deleted,
    /// or if the time is not known.
    pub fn overdue(&self) -> Option<i64> {
        let seconds = |time: &Option<String>| i64::try_from(seconds(time.as_ref()?)?).ok();
        (seconds(&self.read)? - seconds(&self.deleted)?).checked_sub_unsigned(self.grace)
    }
}

/// What the whole objects of some types say about why they are still there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Particulars {
    #[default]
    None,
    Pod {
        node: Option<String>,
    },
    /// As its kubelet or the control plane says.
    Node(NodeState),
    /// A namespace or a definition.
    Container {
        /// Those in the spec of a namespace.
        finalizers: Vec<String>,
        /// Of a definition, only that the API server fails to delete its objects.
        conditions: Vec<NamespaceCondition>,
    },
    Volume {
        /// Namespace and name of the claim that it is bound to.
        claim: Option<(String, String)>,
        /// What becomes of it without that.
        reclaim: Option<String>,
    },
    Claim {
        /// The name of the volume that it is bound to.
        volume: Option<String>,
    },
}

/// How a node is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    Absent,
    Ready,
    Unready,
    /// It could not be read, or nobody has said.
    Unknown,
}

/// A field manager that owns a finalizer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FinalizerSetter {
    #[serde(skip)]
    pub finalizer: String,
    pub manager: String,
    /// When it last wrote the fields that the finalizer is among.
    pub time: Option<String>,
}

/// The facts that were found out so far. They are of about one moment: a question is asked again
/// from the beginning, not continued later.
#[derive(Debug, Default)]
pub struct Knowledge {
    outside: Outside,
    nodes: HashMap<Key, Option<NodeView>>,
    objects: HashMap<Key, Option<ObjectSnapshot>>,
    owners: HashMap<Identity, OwnerState>,
    live: HashMap<Identity, Live>,
    users: HashMap<Identity, Result<Vec<ObjectName>, String>>,
    elsewhere: HashMap<Identity, Option<ObjectName>>,
}

impl Knowledge {
    /// Nothing yet, of a source that cannot see this.
    pub fn new(outside: Outside) -> Self {
        Self { outside, ..Self::default() }
    }

    /// What the source cannot see.
    pub const fn outside(&self) -> &Outside {
        &self.outside
    }

    /// These types were left out.
    pub const fn leave_out(&mut self, types: LeftOut) {
        self.outside.left_out = types;
    }

    /// A type could not be listed. If the API server fails to, a namespace waits for what is silent, too.
    pub fn miss(&mut self, unseen: Unseen, silent: Option<Unseen>) {
        self.outside.silent_apis.extend(silent);
        self.outside.types.push(unseen);
    }

    pub fn learn(&mut self, fact: Fact) {
        match fact {
            Fact::Node(key, view) => drop(self.nodes.insert(key, view)),
            Fact::Object(key, object) => drop(self.objects.insert(key, object)),
            Fact::Owner(identity, state) => drop(self.owners.insert(identity, state)),
            Fact::Live(identity, live) => drop(self.live.insert(identity, live)),
            Fact::Users(identity, users) => drop(self.users.insert(identity, users)),
            Fact::Elsewhere(identity, holder) => drop(self.elsewhere.insert(identity, holder)),
        }
    }

    /// Forgets what the graph said, because it has grown since.
    pub fn forget_graph(&mut self) {
        self.nodes.clear();
        self.objects.clear();
        self.owners.clear();
    }

    /// The live reads that failed.
    pub fn unseen(&self) -> Vec<Unseen> {
        let failed = self.live.iter().filter_map(|(identity, live)| match live {
            // Only the advice depends on whether any object has the name.
            Live::Failed(why) if identity.uid.to_string() != NOBODY => {
                Some(Unseen { what: ObjectName::from(identity).to_string(), why: why.clone() })
            }
            Live::Failed(_) | Live::Found(_) | Live::Absent(_) | Live::NotAsked => None,
        });
        let mut unseen: Vec<Unseen> = failed.chain(self.unseen_users()).collect();
        unseen.sort();
        unseen
    }

    /// The claims that are being deleted, of which it could not be read which pods use them.
    pub fn unseen_users(&self) -> impl Iterator<Item = Unseen> {
        self.users.iter().filter_map(|(claim, users)| {
            let what = format!("pods that use {}", ObjectName::from(claim));
            Some(Unseen { what, why: users.as_ref().err()?.clone() })
        })
    }
}

/// The uid of no object: a read of it shows whether any has the name.
const NOBODY: &str = "-";

/// Reads the knowledge for a question, and notes what is missing. A question goes on without what
/// is missing, so that it finds out as much as possible of what it needs at once.
#[derive(Debug)]
pub struct Asker<'a> {
    known: &'a Knowledge,
    catalog: &'a Arc<Catalog>,
    /// The live reads that may still be asked for.
    reads_left: usize,
    needs: IndexSet<Need>,
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
    let mut asker = Asker { known, catalog, reads_left, needs: IndexSet::new() };
    let answer = question(&mut asker);
    if asker.needs.is_empty() { Ok(answer) } else { Err(asker.needs.into_iter().collect()) }
}

impl<'a> Asker<'a> {
    /// The types that the API server serves.
    pub const fn catalog(&self) -> &'a Arc<Catalog> {
        self.catalog
    }

    /// What the source cannot see.
    pub const fn outside(&self) -> &'a Outside {
        &self.known.outside
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
        if self.needs.contains(&need) {
            return None;
        }
        if self.reads_left == 0 {
            return Some(NOT_ASKED);
        }
        self.reads_left -= 1;
        self.needs.insert(need);
        None
    }

    /// How the node of this name is doing.
    pub(super) fn node_state(&mut self, node: &str) -> NodeState {
        let live = self.named("nodes", node);
        match live.and_then(Live::found).map(|node| &node.details.particulars) {
            Some(Particulars::Node(state)) => *state,
            None if live == Some(&Live::Absent(AbsenceEvidence::NotFound)) => NodeState::Absent,
            _ => NodeState::Unknown,
        }
    }

    /// What a live read shows of the object of a cluster-scoped type of Kubernetes itself that has this name.
    pub(super) fn named(&mut self, resource: &str, name: &str) -> Option<&'a Live> {
        let resource = Arc::clone(self.catalog.resource(&GroupResource::new("", resource))?);
        let named = Identity { resource, namespace: None, name: name.into(), uid: Uid::parse(NOBODY)? };
        match self.live(&named)? {
            Live::Absent(AbsenceEvidence::OtherUid(uid)) => {
                self.live(&Identity { uid: uid.clone(), ..named })
            }
            live => Some(live),
        }
    }

    /// The first pods that use a claim; `None` if this is not known.
    pub fn users(&mut self, claim: &Identity) -> Option<&'a [ObjectName]> {
        let known = self.known.users.get(claim);
        self.unless_known(known, || Need::Users(claim.clone()))?.as_deref().ok()
    }

    /// The object in another namespace that has this uid; `None` if none is known.
    pub fn elsewhere(&mut self, identity: &Identity) -> Option<&'a ObjectName> {
        let known = self.known.elsewhere.get(identity);
        self.unless_known(known, || Need::Elsewhere(identity.clone()))?.as_ref()
    }

    fn unless_known<T>(&mut self, known: Option<T>, need: impl FnOnce() -> Need) -> Option<T> {
        if known.is_none() {
            self.needs.insert(need());
        }
        known
    }
}
