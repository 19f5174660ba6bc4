//! Explains an object of the running collector, with what the collector has done about it.

use super::introspection::CollectorIntrospection;
use super::questions::Freshness;
use crate::actors::graph_handle::PartitionEnded;
use crate::http::{DecisionQuery, ExplanationPage, ObjectQuery, StuckItem, StuckQuery};
use kube_gc_core::graph::ViewLimits;
use kube_gc_core::object::{GroupResource, Identity, Namespace, Scope};
use kube_gc_core::text::bounded;
use kube_gc_insight::{Explanation, NamespaceContents, Unseen, explain, explain_namespace};

/// The maximum number of decisions that an explanation names.
const DECISIONS: usize = 10;

/// The most objects of a namespace that are counted.
const MOST_LEFT: usize = 50_000;

impl CollectorIntrospection {
    /// Why an object is still there; `None` if it is not in the graph.
    pub(super) async fn explanation_of(
        &self,
        query: ObjectQuery,
    ) -> Result<Option<ExplanationPage>, PartitionEnded> {
        let Some(root) = self.questions.find(&query.uid, query.resource.as_ref()).await? else {
            return Ok(None);
        };
        let limits = ViewLimits::default();
        let (mut explanation, mut incomplete) =
            self.questions.ask(limits, Freshness::Now, |asker| explain(asker, &root)).await?;
        let is_namespace = root.resource.group_resource == GroupResource::new("", "namespaces");
        let mut outside = self.undiscovered_types();
        let mut depends_on_types = explanation.depends_on_dependents();
        if is_namespace && explanation.deleted.is_some() {
            (explanation, incomplete) = self.namespace(&root, outside.clone()).await?;
            depends_on_types = true;
        }
        if depends_on_types {
            outside.extend(self.unsynced_types(is_namespace || root.namespace.is_some()));
            explanation.depends_on_unseen |= !outside.is_empty();
        }
        incomplete.extend(outside);
        incomplete.sort();
        let of_object = DecisionQuery {
            uid: Some(query.uid.clone()),
            limit: Some(DECISIONS),
            ..DecisionQuery::default()
        };
        let decisions = self.decision_log.page(&of_object).decisions;
        let stuck = self.stuck_entry(&root).await?;
        Ok(Some(ExplanationPage { explanation, incomplete, decisions, stuck }))
    }

    /// Why a namespace that is being deleted is still there.
    async fn namespace(
        &self,
        root: &Identity,
        silent_apis: Vec<Unseen>,
    ) -> Result<(Explanation, Vec<Unseen>), PartitionEnded> {
        let mut unseen = Vec::new();
        let (objects, more) = match Namespace::parse(&root.name) {
            Some(namespace) => self.questions.in_namespace(&namespace, MOST_LEFT).await?,
            None => (Vec::new(), false),
        };
        if more {
            unseen.push(Unseen {
                what: format!("objects in namespace {}", bounded(&root.name)),
                why: format!("only the first {MOST_LEFT} are counted"),
            });
        }
        let conditions = self.questions.namespace_conditions(root).await.unwrap_or_else(|error| {
            let what = format!("conditions of namespace {}", bounded(&root.name));
            unseen.push(Unseen { what, why: bounded(&error) });
            Vec::new()
        });
        let contents = NamespaceContents { objects, conditions, silent_apis };
        let question = self
            .questions
            .ask(ViewLimits::default(), Freshness::Now, |asker| explain_namespace(asker, root, &contents));
        let (explanation, unread) = question.await?;
        unseen.extend(unread);
        Ok((explanation, unseen))
    }

    /// What keeps the collector from finishing with an object.
    async fn stuck_entry(&self, root: &Identity) -> Result<Option<StuckItem>, PartitionEnded> {
        let in_place = StuckQuery {
            namespace: root.namespace.clone(),
            resource: Some(root.resource.group_resource.clone()),
            ..StuckQuery::default()
        };
        let uid = root.uid.shown().to_string();
        let stuck = self.status.stuck(&in_place).await?.stuck;
        Ok(stuck.into_iter().find(|item| item.object.uid == uid))
    }

    /// The parts of the API that cannot be discovered, so that their objects are not in the graph.
    pub(super) fn undiscovered_types(&self) -> Vec<Unseen> {
        self.status.discovery().failing.iter().map(|failing| failing.failure.unseen()).collect()
    }

    /// The types whose objects are not, or not all, in the graph.
    pub(super) fn unsynced_types(&self, only_namespaced: bool) -> Vec<Unseen> {
        let monitors = self.status.registry().all().into_iter();
        let unsynced = monitors.filter(|monitor| {
            let is_outside = only_namespaced && monitor.resource.scope == Scope::Cluster;
            !monitor.synced && !is_outside
        });
        unsynced
            .map(|monitor| Unseen {
                what: monitor.resource.group_resource.to_string(),
                why: bounded(monitor.last_error.as_deref().unwrap_or("not listed yet")),
            })
            .collect()
    }
}
