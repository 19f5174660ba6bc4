//! The answers of the commands.

use std::collections::HashMap;
use std::time::SystemTime;

use futures::StreamExt as _;
use schemars::JsonSchema;
use serde::Serialize;

use super::collector::{Decision, Stuck};
use super::error::InsightError;
use super::glob::TypeFilter;
use super::lists::{INTERRUPTED, Lists, Watcher};
use super::object::ObjectArgument;
use super::session::Session;
use super::standing::worst;
use kube_gc_core::graph::ViewLimits;
use kube_gc_core::object::{GroupResource, Identity, Namespace};
use kube_gc_core::text::bounded;
use kube_gc_insight::{
    Details, Explanation, Fact, Live, NamespaceCondition, NamespaceContents, Neighbourhood,
    NeighbourhoodQuery, State, Unseen, explain, explain_namespace, neighbourhood,
};

/// The most objects whose rows of the server's table are read.
pub(super) const MOST_ROWS: usize = 200;
/// The most objects that are being deleted and whose finalizers are read.
const MOST_FINALIZED: usize = 50;
/// How many rows are read at the same time.
const AT_ONCE: usize = 16;

/// What `kube-gc tree` asks.
#[derive(Clone, Debug)]
pub struct TreeQuery {
    /// The object.
    pub object: ObjectArgument,
    /// How far up.
    pub up: usize,
    /// How far down.
    pub down: usize,
    /// The most dependents of each parent and type.
    pub most: usize,
    /// The most objects.
    pub limit: usize,
    /// Which types are listed.
    pub filter: TypeFilter,
    /// Whether to read the rows of the server's tables.
    pub with_rows: bool,
}

/// What the graph does not keep of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeExtra {
    /// The cells of its row in the server's own table, by column.
    pub row: Vec<(String, String)>,
    /// Its finalizers, and when it was deleted; only of objects that are being deleted.
    pub details: Option<Details>,
}

/// What is known of dependents that are not shown, but were looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hidden {
    /// Of how many the row says whether they are ready.
    pub judged: usize,
    /// How many of these are.
    pub ready: usize,
    /// Of how many the row has an age.
    pub aged: usize,
    /// The oldest: its age in seconds, and in the words of the server.
    pub oldest: Option<(u64, String)>,
}

/// The answer of `kube-gc tree`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TreeAnswer {
    #[serde(flatten)]
    pub shown: Neighbourhood,
    /// What could not be looked at.
    pub incomplete: Vec<Unseen>,
    /// How many types were left out on request.
    pub left_out: usize,
    /// By place in the list of nodes.
    #[serde(skip)]
    pub extras: HashMap<usize, NodeExtra>,
    /// By place in the list of what is not shown.
    #[serde(skip)]
    pub hidden: HashMap<usize, Hidden>,
}

/// The answer of `kube-gc explain`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExplainAnswer {
    #[serde(flatten)]
    pub explanation: Explanation,
    /// What could not be looked at.
    pub incomplete: Vec<Unseen>,
    /// How many types were left out on request.
    pub left_out: usize,
    /// From a collector: its last decisions about the object, newest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decisions: Option<Vec<Decision>>,
    /// From a collector: what keeps it from finishing with the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stuck: Option<Stuck>,
}

impl TreeQuery {
    /// Whether more objects are looked at than are shown, to show the worst of them.
    pub(super) fn compares(&self, shown: &Neighbourhood) -> bool {
        let is_for_want_of_room = |owner: usize| {
            usize::try_from(shown.nodes[owner].distance).is_ok_and(|distance| distance < self.down)
        };
        self.with_rows && shown.more.iter().any(|more| is_for_want_of_room(more.owner))
    }

    /// How many dependents of each owner and type are looked at: as many as rows can be read.
    pub(super) fn candidates(&self) -> impl Iterator<Item = usize> {
        let most = self.most;
        [MOST_ROWS, MOST_ROWS / 2, MOST_ROWS / 4].into_iter().filter(move |candidates| *candidates > most)
    }
}

impl Session {
    /// What belongs to an object.
    ///
    /// # Errors
    ///
    /// There is no such object, or it cannot be read.
    pub async fn tree(&self, query: &TreeQuery, watcher: &Watcher<'_>) -> Result<TreeAnswer, InsightError> {
        let limits = ViewLimits { dependents_of_a_type: query.most, ..ViewLimits::default() };
        let mut lists = Lists::new(self, limits, watcher);
        let root = self.root(&mut lists, &query.object, &query.filter, watcher).await?;
        if matches!(query.object, ObjectArgument::Named { .. }) && query.down > 0 {
            lists.list(root.namespace.as_ref(), &query.filter, watcher).await;
        }
        let question = NeighbourhoodQuery { root, up: query.up, down: query.down, limit: query.limit };
        let mut shown = lists.ask(|asker| neighbourhood(asker, &question)).await;
        if query.compares(&shown) {
            let wider = NeighbourhoodQuery { limit: MOST_ROWS + 1, ..question };
            for most in query.candidates() {
                lists.show(most);
                let found = lists.ask(|asker| neighbourhood(asker, &wider)).await;
                if found.nodes.len() <= MOST_ROWS {
                    shown = found;
                    break;
                }
            }
        }
        let mut answer = self.ranked(&mut lists, shown, query, watcher).await;
        answer.incomplete = std::mem::take(&mut lists.unseen);
        answer.incomplete.extend(lists.unread());
        answer.incomplete.sort();
        answer.left_out = lists.left_out;
        Ok(answer)
    }

    /// Reads what the graph does not keep, and shows the worst first.
    pub(super) async fn ranked(
        &self,
        lists: &mut Lists<'_>,
        shown: Neighbourhood,
        query: &TreeQuery,
        watcher: &Watcher<'_>,
    ) -> TreeAnswer {
        let mut answer = TreeAnswer { shown, ..TreeAnswer::default() };
        if query.with_rows {
            let mut extras = self.finalizers(lists, &answer.shown).await;
            self.rows(lists, &answer.shown, &mut extras, watcher).await;
            (answer.shown, answer.extras, answer.hidden) =
                worst(&answer.shown, extras, query.most, SystemTime::now());
        }
        answer
    }

    /// Why an object is still there. Lists dependents only if the answer depends on them.
    ///
    /// # Errors
    ///
    /// There is no such object, or it cannot be read.
    pub async fn explain(
        &self,
        object: &ObjectArgument,
        filter: &TypeFilter,
        watcher: &Watcher<'_>,
    ) -> Result<ExplainAnswer, InsightError> {
        let mut lists = Lists::new(self, ViewLimits::default(), watcher);
        let root = self.root(&mut lists, object, filter, watcher).await?;
        let question = |root: &Identity| {
            let root = root.clone();
            move |asker: &mut kube_gc_insight::Asker<'_>| explain(asker, &root)
        };
        let mut explanation = lists.ask(question(&root)).await;
        let mut depends_on_lists = false;
        let is_namespace = root.resource.group_resource == GroupResource::new("", "namespaces");
        if is_namespace && explanation.deleted.is_some() {
            explanation = self.namespace(&mut lists, &root, filter, watcher).await?;
            depends_on_lists = true;
        } else if matches!(object, ObjectArgument::Named { .. }) {
            depends_on_lists = explanation.depends_on_dependents();
            if depends_on_lists {
                lists.list(root.namespace.as_ref(), filter, watcher).await;
                explanation = lists.ask(question(&root)).await;
            }
        }
        let mut incomplete = std::mem::take(&mut lists.unseen);
        // A part of the API that cannot be discovered, or listed, may have further dependents.
        explanation.depends_on_unseen |= depends_on_lists && !incomplete.is_empty();
        incomplete.extend(lists.unread());
        incomplete.sort();
        let left_out = lists.left_out;
        Ok(ExplainAnswer { explanation, incomplete, left_out, decisions: None, stuck: None })
    }

    /// Why a namespace is still there. Lists what is in it.
    async fn namespace(
        &self,
        lists: &mut Lists<'_>,
        root: &Identity,
        filter: &TypeFilter,
        watcher: &Watcher<'_>,
    ) -> Result<Explanation, InsightError> {
        let Some(namespace) = Namespace::parse(&root.name) else {
            return Err(InsightError::NoSuchObject("a namespace has a name".to_owned()));
        };
        lists.list(Some(&namespace), filter, watcher).await;
        let contents = NamespaceContents {
            objects: lists.in_namespace(&namespace),
            conditions: self.conditions(lists, root, watcher).await,
            silent_apis: self.undiscovered(),
        };
        Ok(lists.ask(|asker| explain_namespace(asker, root, &contents)).await)
    }

    /// What the namespace controller says about a namespace.
    async fn conditions(
        &self,
        lists: &mut Lists<'_>,
        root: &Identity,
        watcher: &Watcher<'_>,
    ) -> Vec<NamespaceCondition> {
        let read = watcher.interrupted.run_until_cancelled(self.api.namespace_conditions(root)).await;
        let why = match read {
            Some(Ok(conditions)) => return conditions,
            Some(Err(error)) => bounded(&error),
            None => INTERRUPTED.to_owned(),
        };
        let what = format!("conditions of namespace {}", bounded(&root.name));
        lists.unseen.push(Unseen { what, why });
        Vec::new()
    }

    /// The object of a question. One that is named by its uid alone is searched for.
    pub(super) async fn root(
        &self,
        lists: &mut Lists<'_>,
        object: &ObjectArgument,
        filter: &TypeFilter,
        watcher: &Watcher<'_>,
    ) -> Result<Identity, InsightError> {
        if let Some((identity, live)) = watcher.wait(self.named(object)).await? {
            lists.learn(Fact::Live(identity.clone(), Live::Found(Box::new(live))));
            return Ok(identity);
        }
        let ObjectArgument::Uid(uid) = object else {
            return Err(InsightError::NoSuchObject("there is no such object".to_owned()));
        };
        lists.list(None, filter, watcher).await;
        lists.with_uid(uid).ok_or_else(|| {
            let unseen = lists.unseen.len();
            let but = if unseen == 0 {
                String::new()
            } else {
                format!(" among what can be listed ({unseen} types cannot)")
            };
            InsightError::NoSuchObject(format!("there is no object with the uid {}{but}", uid.shown()))
        })
    }

    /// Reads the finalizers of objects that are being deleted.
    pub(super) async fn finalizers(
        &self,
        lists: &mut Lists<'_>,
        shown: &Neighbourhood,
    ) -> HashMap<usize, NodeExtra> {
        let deleted = shown.nodes.iter().enumerate().filter(|(_, node)| {
            matches!(node.state, State::Terminating | State::DeletingDependents | State::Orphaning)
        });
        let deleted: Vec<(usize, Identity)> = deleted
            .filter_map(|(place, node)| Some((place, node.identity.clone()?)))
            .take(MOST_FINALIZED)
            .collect();
        lists
            .ask(|asker| {
                let mut extras: HashMap<usize, NodeExtra> = HashMap::new();
                for (place, identity) in &deleted {
                    if let Some(Live::Found(live)) = asker.live(identity) {
                        let details = Some(live.details.clone());
                        extras.insert(*place, NodeExtra { details, row: Vec::new() });
                    }
                }
                extras
            })
            .await
    }

    /// Reads the rows of the server's own tables, not older than what was listed. A row that cannot
    /// be read is left out.
    async fn rows(
        &self,
        lists: &Lists<'_>,
        shown: &Neighbourhood,
        extras: &mut HashMap<usize, NodeExtra>,
        watcher: &Watcher<'_>,
    ) {
        let exists = |state: State| {
            !matches!(state, State::Absent | State::Unknown | State::Unresolved | State::InvalidScope)
        };
        let wanted = shown.nodes.iter().enumerate().filter(|(_, node)| exists(node.state));
        let wanted = wanted.filter_map(|(place, node)| Some((place, node.identity.clone()?))).take(MOST_ROWS);
        let mut rows = futures::stream::iter(wanted)
            .map(async |(place, identity)| {
                let version = lists.version(&identity);
                (place, self.api.table_row(&identity, version.as_ref()).await)
            })
            .buffer_unordered(AT_ONCE);
        while let Some(Some((place, row))) = watcher.interrupted.run_until_cancelled(rows.next()).await {
            if let Ok(row) = row {
                extras.entry(place).or_default().row = row;
            }
        }
    }
}
