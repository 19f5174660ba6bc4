//! Facts from lists and live reads.

use std::collections::{BTreeSet, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;

use super::InsightError;
use super::session::{ObjectArgument, Session, TypeFilter, Waiting};
use kube_gc_client::{ApiError, ErrorClass};
use kube_gc_core::graph::{OwnerState, SearchQuery, ViewLimits};
use kube_gc_core::object::{
    DeletionState, HashSeed, Identity, Key, Namespace, ObjectFacts, ResourceType, ResourceVersion, Scope, Uid,
};
use kube_gc_core::text::{bounded, listed};
use kube_gc_insight::{
    Answer, Asker, CheckedObject, Circles, Fact, Knowledge, Live, LocalGraph, Need, Report, StuckReport,
    Suspect, Unseen, ask, check_object, stuck,
};

/// How many types are listed, and how many objects are read, at the same time.
pub(super) const AT_ONCE: usize = 16;
/// The most live reads of one question, unless it says otherwise.
const MOST_READS: usize = 500;
/// How many objects of a list are taken in at a time.
const BATCH: usize = 500;

/// The status of a request that the server does not understand.
const BAD_REQUEST: u16 = 400;
/// The status of a request without the right to it.
const FORBIDDEN: u16 = 403;

/// Why a type was not looked at.
const NOT_ALLOWED: &str = "you may not list this (403)";

/// What was read, or why not. Ctrl-C ends a read without an answer.
fn read<T>(answer: Option<Result<T, ApiError>>) -> Result<T, String> {
    answer.ok_or_else(|| INTERRUPTED.to_owned())?.map_err(|error| match error.code {
        Some(FORBIDDEN) if error.class == ErrorClass::Denied => NOT_ALLOWED.to_owned(),
        _ => bounded(&error),
    })
}

fn unseen(resource: &ResourceType, why: String) -> Unseen {
    Unseen { what: resource.group_resource.to_string(), why }
}

/// Why something was not looked at, after Ctrl-C.
pub(super) const INTERRUPTED: &str = "interrupted";

/// What one question has read.
pub(super) struct Lists<'a> {
    pub session: &'a Session,
    pub graph: LocalGraph,
    pub knowledge: Knowledge,
    limits: ViewLimits,
    /// The most live reads.
    pub most_reads: usize,
    /// What could not be read.
    pub unseen: Vec<Unseen>,
    /// What the question is about besides: its namespace, and cluster-scoped objects with its labels.
    pub beside: Vec<(Identity, DeletionState)>,
    /// The namespace that the question is about: who may not list all of a type may list it there.
    pub within: Option<Namespace>,
    /// Something was listed, or failed for want of something else than the right to list it.
    may_list: bool,
    /// Whether all namespaces were listed.
    pub has_everything: bool,
}

impl<'a> Lists<'a> {
    pub fn new(session: &'a Session, limits: ViewLimits) -> Self {
        // The standard library takes its keys from the system's random numbers.
        let seed = HashSeed::new(RandomState::new().hash_one(0));
        let graph = LocalGraph::new(&session.discovered.catalog, seed);
        let outside = session.outside();
        let unseen = outside.silent_objects.clone();
        Self {
            session,
            graph,
            knowledge: Knowledge::new(outside),
            limits,
            most_reads: MOST_READS,
            unseen,
            beside: Vec::new(),
            within: None,
            may_list: false,
            has_everything: false,
        }
    }

    /// Shows so many dependents of each owner and type from now on.
    pub fn show(&mut self, dependents_of_a_type: usize) {
        self.limits.dependents_of_a_type = dependents_of_a_type;
        self.knowledge.forget_graph();
    }

    /// The object of a question. One that is named by its uid alone is searched for.
    pub(super) async fn root(
        &mut self,
        object: &ObjectArgument,
        filter: &TypeFilter,
    ) -> Result<Identity, InsightError> {
        let uid = match object {
            ObjectArgument::Named { of_type, namespace, name } => {
                let found = self.session.find(of_type, namespace.as_ref(), name);
                let (identity, live) = self.session.wait(found).await?;
                self.knowledge.learn(Fact::Live(identity.clone(), Live::Found(Box::new(live))));
                return Ok(identity);
            }
            ObjectArgument::Uid(uid) => uid,
        };
        if !self.has_everything {
            self.list(None, filter).await?;
        }
        self.graph.holders(uid, 1).pop().ok_or_else(|| {
            let unseen = self.unseen.len();
            let but = if unseen == 0 {
                String::new()
            } else {
                format!(" among what can be listed ({unseen} types cannot)")
            };
            InsightError::NoSuchObject(format!("there is no object with the uid {}{but}", uid.shown()))
        })
    }

    /// Looks whether the namespace of a question exists.
    ///
    /// # Errors
    ///
    /// It does not.
    pub async fn meet(&mut self, namespace: &Namespace) -> Result<(), InsightError> {
        // Who may not read it may still list what is in it.
        if let Some((identity, live)) = self.session.namespace_named(namespace).await? {
            self.beside.push((identity.clone(), live.facts.deletion_state()));
            self.knowledge.learn(Fact::Live(identity, Live::Found(Box::new(live))));
        }
        Ok(())
    }

    /// Whether not a single type of those that are meant may be listed.
    pub fn may_list_nothing(&self) -> bool {
        !self.may_list && self.unseen.iter().any(|unseen| unseen.why == NOT_ALLOWED)
    }

    /// Lists what may depend on an object in this namespace, or on a cluster-scoped one. Earlier
    /// answers of the graph are forgotten.
    ///
    /// # Errors
    ///
    /// Not a single type may be listed.
    pub async fn list(
        &mut self,
        namespace: Option<&Namespace>,
        filter: &TypeFilter,
    ) -> Result<(), InsightError> {
        let (types, left_out) = self.session.types(namespace, filter);
        self.has_everything = namespace.is_none();
        self.knowledge.leave_out(left_out);
        for resource in &types {
            self.graph.begin(resource);
        }
        // Objects are taken in while lists go on, so that no list is in memory twice.
        let (session, graph) = (self.session, Mutex::new(&mut self.graph));
        let Waiting { progress, interrupted } = &session.waiting;
        let within = self.within.as_ref().filter(|_| namespace.is_none());
        let graph = || graph.lock().unwrap_or_else(PoisonError::into_inner);
        let (of, mut done) = (types.len(), 0);
        progress(done, of);
        let mut lists = futures::stream::iter(types)
            .map(async |resource| {
                let list = async |namespace: Option<&Namespace>| {
                    let mut batch = Vec::new();
                    let list = session.api.list(&resource, namespace, None, |facts| {
                        batch.push(facts);
                        if batch.len() == BATCH {
                            graph().add(&resource, std::mem::take(&mut batch));
                        }
                    });
                    let listed = interrupted.run_until_cancelled(list).await;
                    graph().add(&resource, batch);
                    listed
                };
                let is_namespaced = resource.scope == Scope::Namespaced;
                let silence = |listed: &Option<Result<_, ApiError>>| match listed {
                    Some(Err(error)) if is_namespaced && error.class != ErrorClass::Denied => {
                        Some(unseen(&resource, bounded(error)).silent(&error.message))
                    }
                    _ => None,
                };
                let listed = list(namespace).await;
                let mut silent = silence(&listed).filter(|_| namespace.is_some());
                let mut why = match read(listed) {
                    Ok(version) => {
                        graph().end(&resource, version.as_ref());
                        return Ok(());
                    }
                    Err(why) => why,
                };
                if let Some(within) = within.filter(|_| is_namespaced) {
                    // Such a list shows what there is, and proves nothing absent.
                    let inside = list(Some(within)).await;
                    silent = silence(&inside);
                    if why == NOT_ALLOWED && matches!(inside, Some(Ok(_))) {
                        why = format!("you may list this only in namespace {within} (403)");
                    }
                }
                Err((unseen(&resource, why), silent))
            })
            .buffer_unordered(AT_ONCE);
        while let Some(listed) = lists.next().await {
            done += 1;
            progress(done, of);
            self.may_list |= !matches!(&listed, Err((unseen, _)) if unseen.why == NOT_ALLOWED);
            if let Err((unseen, silent)) = listed {
                self.knowledge.miss(unseen.clone(), silent);
                self.unseen.push(unseen);
            }
        }
        drop(lists);
        self.knowledge.forget_graph();
        if !self.may_list_nothing() {
            return Ok(());
        }
        let denied = self.unseen.iter().filter(|unseen| unseen.why == NOT_ALLOWED);
        let denied: BTreeSet<&str> = denied.map(|unseen| &*unseen.what).collect();
        let what =
            if left_out.count() == 0 { "anything".to_owned() } else { listed(", ", denied.len(), denied) };
        let place = namespace.map_or_else(|| "this cluster".to_owned(), |name| format!("namespace {name}"));
        Err(InsightError::Forbidden(format!("{what} in {place}")))
    }

    /// Lists the objects that a selector names, in the namespace or cluster-scoped. What cannot be listed is unseen,
    /// unless only its labels would make it a part of the question.
    ///
    /// # Errors
    ///
    /// The server does not understand the selector.
    pub async fn select(
        &mut self,
        namespace: Option<&Namespace>,
        filter: &TypeFilter,
        selector: &str,
    ) -> Result<Vec<(Identity, DeletionState)>, InsightError> {
        let (session, interrupted) = (self.session, &self.session.waiting.interrupted);
        let is_all = namespace.is_none() || !filter.only.is_empty();
        let mut lists = futures::stream::iter(session.types(None, filter).0)
            .map(async |resource| {
                let mut found = Vec::new();
                let selector = Some(("labelSelector", selector));
                let namespace = namespace.filter(|_| resource.scope == Scope::Namespaced);
                let visit = |facts: ObjectFacts| {
                    let (resource, deletion) = (Arc::clone(&resource), facts.deletion_state());
                    let ObjectFacts { namespace, name, uid, .. } = facts;
                    found.push((Identity { resource, namespace, name, uid }, deletion));
                };
                let list = session.api.list(&resource, namespace, selector, visit);
                let listed = interrupted.run_until_cancelled(list).await;
                (resource, found, listed)
            })
            .buffer_unordered(AT_ONCE);
        let mut selected = Vec::new();
        while let Some((resource, found, listed)) = lists.next().await {
            selected.extend(found);
            if let Some(Err(error)) = &listed
                && error.class == ErrorClass::Refused
                && error.code == Some(BAD_REQUEST)
            {
                return Err(InsightError::Selector(bounded(error)));
            }
            let is_meant = |why: &String| is_all || resource.scope == Scope::Namespaced || why != NOT_ALLOWED;
            self.unseen.extend(read(listed).err().filter(is_meant).map(|why| unseen(&resource, why)));
        }
        Ok(selected)
    }

    /// The version of an object in the list.
    pub fn version(&self, identity: &Identity) -> Option<ResourceVersion> {
        match self.graph.owner_state(identity) {
            OwnerState::Observed { resource_version, .. } => resource_version,
            OwnerState::Absent | OwnerState::Unknown => None,
        }
    }

    /// Checks some objects.
    pub async fn check(&mut self, keys: &[Key], circles: &Circles) -> Vec<CheckedObject> {
        let suspects: Vec<Suspect> =
            keys.iter().filter_map(|key| Suspect::of(&mut self.graph, key)).collect();
        self.knowledge.forget_graph();
        let check = |asker: &mut Asker<'_>| -> Vec<Option<CheckedObject>> {
            suspects.iter().map(|suspect| check_object(asker, suspect, circles)).collect()
        };
        // Nothing is missing, because the question has an answer.
        self.ask(check).await.into_iter().flatten().collect()
    }

    /// What of these objects, or of all, was deleted longer ago than this, and is still there.
    pub async fn stuck(&mut self, older: Duration, selected: Option<&HashSet<Uid>>) -> StuckReport {
        let deleted = SearchQuery { being_deleted: true, ..SearchQuery::default() };
        let mut deleted = self.graph.search(&deleted);
        // What is in the namespace holds it.
        deleted.extend(self.beside.iter().filter(|(_, deletion)| deletion.is_being_deleted()).cloned());
        // All blocking dependents matter.
        (self.limits.dependents_of_a_type, self.limits.visits) = (usize::MAX, usize::MAX);
        let (within, beside) = (self.within.clone(), self.beside.clone());
        let is_meant = |identity: &Identity| {
            (within.is_none() || identity.namespace == within || beside.iter().any(|(of, _)| of == identity))
                && selected.is_none_or(|uids| uids.contains(&identity.uid))
        };
        self.ask(|asker| stuck(asker, &deleted, older, is_meant)).await
    }

    /// Asks a question until it has an answer.
    pub async fn ask<A>(&mut self, question: impl Fn(&mut Asker<'_>) -> A) -> A {
        loop {
            let catalog = &self.session.discovered.catalog;
            match ask(&self.knowledge, catalog, self.most_reads, &question) {
                Ok(answer) => return answer,
                Err(needs) => self.find_out(needs).await,
            }
        }
    }

    /// Finds out what a question needs.
    async fn find_out(&mut self, needs: Vec<Need>) {
        let (session, interrupted) = (self.session, &self.session.waiting.interrupted);
        let reads = self.graph.learn(needs, self.limits, &mut self.knowledge);
        let mut reads = futures::stream::iter(reads)
            .map(async |need| {
                Some(match need {
                    Need::Live(identity) => {
                        let live = interrupted.run_until_cancelled(session.api.read_live(&identity)).await;
                        let live = live.unwrap_or_else(|| Live::Failed(INTERRUPTED.to_owned()));
                        Fact::Live(identity, live)
                    }
                    Need::Users(claim) => {
                        let pods = interrupted.run_until_cancelled(session.api.pods_that_use(&claim)).await;
                        Fact::Users(claim, read(pods))
                    }
                    Need::Elsewhere(owner) => {
                        let holder = interrupted.run_until_cancelled(session.holder_of(&owner)).await;
                        Fact::Elsewhere(owner, holder.flatten())
                    }
                    Need::Node(_) | Need::Object(_) | Need::Owner(_) => return None,
                })
            })
            .buffer_unordered(AT_ONCE);
        while let Some(fact) = reads.next().await {
            fact.into_iter().for_each(|fact| self.knowledge.learn(fact));
        }
    }

    /// An answer, and what could not be listed or read.
    pub fn answer<A: Report>(self, report: A) -> Answer<A> {
        Answer::new(report, &self.knowledge, self.unseen)
    }
}
