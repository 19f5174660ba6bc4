//! Facts from lists and live reads.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError};

use futures::StreamExt as _;

use super::InsightError;
use super::session::{ObjectArgument, Session, TypeFilter, Waiting};
use kube_gc_client::ErrorClass;
use kube_gc_core::graph::{OwnerState, SearchQuery, ViewLimits};
use kube_gc_core::object::{HashSeed, Identity, Key, Namespace, ResourceVersion, Uid};
use kube_gc_core::text::bounded;
use kube_gc_insight::{
    Answer, Asker, CheckedObject, Circles, Fact, Knowledge, Live, LocalGraph, Need, Outside, Report,
    StuckReport, Suspect, Unseen, ask, check_object, stuck,
};

/// How many types are listed, and how many objects are read, at the same time.
pub(super) const AT_ONCE: usize = 16;
/// The most live reads of one question, unless it says otherwise.
const MOST_READS: usize = 500;
/// How many objects of a list are taken in at a time.
const BATCH: usize = 500;

/// The status of a request that the server does not understand.
const BAD_REQUEST: u16 = 400;

/// Why something was not looked at, after Ctrl-C.
pub(super) const INTERRUPTED: &str = "interrupted";

/// What one question has read.
pub(super) struct Lists<'a> {
    pub session: &'a Session,
    pub graph: LocalGraph,
    knowledge: Knowledge,
    limits: ViewLimits,
    /// The most live reads.
    pub most_reads: usize,
    /// What could not be read.
    pub unseen: Vec<Unseen>,
    /// The types that were left out on request.
    pub left_out: usize,
    /// Whether all namespaces were listed.
    pub has_everything: bool,
}

impl<'a> Lists<'a> {
    pub fn new(session: &'a Session, limits: ViewLimits) -> Self {
        // The standard library takes its keys from the system's random numbers.
        let seed = HashSeed::new(RandomState::new().hash_one(0));
        let graph = LocalGraph::new(&session.discovered.catalog, seed);
        let unseen = session.undiscovered();
        let outside = Outside { silent_apis: unseen.clone(), types: Vec::new() };
        let knowledge = Knowledge::new(outside);
        let (most_reads, left_out, has_everything) = (MOST_READS, 0, false);
        Self { session, graph, knowledge, limits, most_reads, unseen, left_out, has_everything }
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
            self.list(None, filter).await;
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

    /// Lists what may depend on an object in this namespace, or on a cluster-scoped one. Earlier
    /// answers of the graph are forgotten.
    pub async fn list(&mut self, namespace: Option<&Namespace>, filter: &TypeFilter) {
        let (types, left_out) = self.session.types(namespace, filter);
        (self.left_out, self.has_everything) = (left_out, namespace.is_none());
        for resource in &types {
            self.graph.begin(resource);
        }
        // Objects are taken in while lists go on, so that no list is in memory twice.
        let (session, graph) = (self.session, Mutex::new(&mut self.graph));
        let Waiting { progress, interrupted } = &session.waiting;
        let graph = || graph.lock().unwrap_or_else(PoisonError::into_inner);
        let (of, mut done) = (types.len(), 0);
        progress(done, of);
        let mut lists = futures::stream::iter(types)
            .map(async |resource| {
                let mut batch = Vec::new();
                let list = session.api.list(&resource, namespace, |facts| {
                    batch.push(facts);
                    if batch.len() == BATCH {
                        graph().add(&resource, std::mem::take(&mut batch));
                    }
                });
                let listed = interrupted.run_until_cancelled(list).await;
                graph().add(&resource, batch);
                let why = match listed {
                    Some(Ok(version)) => {
                        graph().end(&resource, version.as_ref());
                        return None;
                    }
                    Some(Err(error)) => bounded(&error),
                    None => INTERRUPTED.to_owned(),
                };
                Some(Unseen { what: resource.group_resource.to_string(), why })
            })
            .buffer_unordered(AT_ONCE);
        while let Some(unseen) = lists.next().await {
            done += 1;
            progress(done, of);
            self.knowledge.miss(unseen.iter().cloned());
            self.unseen.extend(unseen);
        }
        drop(lists);
        self.knowledge.forget_graph();
    }

    /// Lists the objects that a selector names. What cannot be listed is unseen.
    ///
    /// # Errors
    ///
    /// The server does not understand the selector.
    pub async fn select(
        &mut self,
        namespace: Option<&Namespace>,
        filter: &TypeFilter,
        selector: &str,
    ) -> Result<HashSet<Uid>, InsightError> {
        let (session, interrupted) = (self.session, &self.session.waiting.interrupted);
        let (types, _) = session.types(namespace, filter);
        let mut lists = futures::stream::iter(types)
            .map(async |resource| {
                let mut uids = Vec::new();
                let list = session.api.list_selected(
                    &resource,
                    namespace,
                    Some(("labelSelector", selector)),
                    |facts| {
                        uids.push(facts.uid);
                    },
                );
                let listed = interrupted.run_until_cancelled(list).await;
                (resource, uids, listed)
            })
            .buffer_unordered(AT_ONCE);
        let mut selected = HashSet::new();
        while let Some((resource, uids, listed)) = lists.next().await {
            selected.extend(uids);
            let why = match listed {
                Some(Ok(_)) => continue,
                Some(Err(error)) if error.class == ErrorClass::Refused && error.code == Some(BAD_REQUEST) => {
                    return Err(InsightError::Selector(bounded(&error)));
                }
                Some(Err(error)) => bounded(&error),
                None => INTERRUPTED.to_owned(),
            };
            self.unseen.push(Unseen { what: resource.group_resource.to_string(), why });
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

    /// What of these objects, or of all, was deleted before a time, and is still there.
    pub async fn stuck(&mut self, before: &str, selected: Option<&HashSet<Uid>>) -> StuckReport {
        let deleted = SearchQuery { being_deleted: true, ..SearchQuery::default() };
        let deleted = self.graph.search(&deleted);
        // All blocking dependents matter.
        (self.limits.dependents_of_a_type, self.limits.visits) = (usize::MAX, usize::MAX);
        let is_meant = |identity: &Identity| selected.is_none_or(|uids| uids.contains(&identity.uid));
        self.ask(|asker| stuck(asker, &deleted, before, is_meant)).await
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
            .map(async |identity| {
                let live = interrupted.run_until_cancelled(session.api.read_live(&identity)).await;
                let live = live.unwrap_or_else(|| Live::Failed(INTERRUPTED.to_owned()));
                Fact::Live(identity, live)
            })
            .buffer_unordered(AT_ONCE);
        while let Some(fact) = reads.next().await {
            self.knowledge.learn(fact);
        }
    }

    /// An answer, and what could not be listed or read.
    pub fn answer<A: Report>(self, report: A) -> Answer<A> {
        Answer::new(report, &self.knowledge, self.unseen, self.left_out)
    }
}
