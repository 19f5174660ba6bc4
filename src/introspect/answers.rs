//! The answers to questions about objects, from the graph of the running collector: explanations,
//! plans, owners and dependents, and what holds objects that were deleted.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, SystemTime};

use super::introspection::CollectorIntrospection;
use super::queries::{
    CausesQuery, DecisionQuery, ExplainQuery, MOST_PAGED, ObjectQuery, PlanRequest, StuckQuery,
};
use super::questions::Freshness;
use super::stuck::NamedStuck;
use super::view::{ExplanationPage, StuckItem, hint};
use kube_gc_client::GroupFailure;
use kube_gc_controller::actors::graph_handle::{GraphHandle, PartitionEnded};
use kube_gc_core::graph::{MemberMark, MembersOf, PartitionId, SearchQuery, ViewLimits};
use kube_gc_core::object::{GroupResource, Identity, Namespace, Scope};
use kube_gc_core::text::{Thousands, bounded};
use kube_gc_insight::{
    Answer, Explanation, Forecast, NamespaceContents, NeighbourhoodPage, NeighbourhoodQuery, Plan, PlanQuery,
    StuckContext, StuckReport, Unseen, Walk, contents_of, counted, explain, explain_namespace, neighbourhood,
    page, plan, stuck,
};
use kube_gc_observe::telemetry::StuckReason;

/// The maximum number of decisions that an explanation names.
const DECISIONS: usize = 10;
/// The most objects of a namespace that are counted.
const MOST_LEFT: usize = 50_000;
/// The reasons of objects that are being deleted.
const AMONG_CAUSES: [&str; 3] = ["blocked", "held", "orphaning"];
/// The most objects that cannot be finished for one reason of which a page tells.
const MOST_UNFINISHED: usize = 1_000;
/// The most deleted objects that are looked at for what holds them.
const MOST_DELETED: usize = 20_000;
/// The most dependents of a type that are looked at, of each object that waits for dependents.
const MOST_DEPENDENTS: usize = 2_000;
/// The most objects that a plan looks at. Each takes a few hundred bytes until the plan is made.
const MOST_PLANNED: usize = 500_000;
/// The references or slots that a partition visits at a time for a plan: about 2 ms.
const VISITS: usize = 4_000;
/// The questions of a plan that a partition gets at a time.
const QUESTIONS: usize = 256;

impl CollectorIntrospection {
    /// Why an object is still there; `None` if it is not in the graph.
    pub(super) async fn explain(
        &self,
        query: ExplainQuery,
    ) -> Result<Option<ExplanationPage>, PartitionEnded> {
        let Some(root) = self.questions.find(&query.uid, query.resource.as_ref()).await? else {
            return Ok(None);
        };
        let limits = ViewLimits::default();
        let (mut explanation, mut incomplete) =
            self.questions.ask(limits, Freshness::Now, |asker| explain(asker, &root)).await?;
        let mut outside = self.silent_apis(true);
        let mut depends_on_types = explanation.depends_on_dependents();
        let contents = contents_of(&root).filter(|_| explanation.deleted.is_some());
        let only_namespaced = root.namespace.is_some()
            || contents.as_ref().is_some_and(|contents| contents.namespace.is_some());
        if let Some(contents) = contents {
            let is_all = outside.is_empty() && self.unsynced_types(only_namespaced).is_empty();
            (explanation, incomplete) = self.contents(&root, contents, is_all).await?;
            depends_on_types = true;
        }
        if depends_on_types {
            outside.extend(self.unsynced_types(only_namespaced));
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

    /// Why a namespace, or the definition of a custom resource, is still there.
    async fn contents(
        &self,
        root: &Identity,
        contents: SearchQuery,
        is_all: bool,
    ) -> Result<(Explanation, Vec<Unseen>), PartitionEnded> {
        let mut unseen = Vec::new();
        let silent_apis = if contents.namespace.is_some() { self.silent_apis(false) } else { Vec::new() };
        let (objects, more) = self.questions.search(contents, MOST_LEFT).await?;
        if more {
            unseen.push(Unseen {
                what: format!("objects in {} {}", root.resource.kind, bounded(&root.name)),
                why: format!("only the first {MOST_LEFT} are counted"),
            });
        }
        let contents = NamespaceContents { objects, silent_apis, is_all: is_all && !more };
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

    /// The parts of the API that do not answer: all, for which a namespace waits, or those whose objects are
    /// missing from the graph.
    fn silent_apis(&self, with_objects: bool) -> Vec<Unseen> {
        let failing = self.status.discovery().failing;
        let parts = failing.iter().map(|failing| &failing.failure);
        parts.filter(|part| !with_objects || part.may_have_objects()).map(GroupFailure::unseen).collect()
    }

    /// The types whose objects are not, or not all, in the graph.
    pub(super) fn unsynced_types(&self, only_namespaced: bool) -> Vec<Unseen> {
        let monitors = self.status.registry.all().into_iter();
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

impl CollectorIntrospection {
    /// What was deleted longer ago than a time and is still there, by what holds it.
    pub(super) async fn causes(&self, query: CausesQuery) -> Result<Answer<StuckReport>, PartitionEnded> {
        let CausesQuery { namespace, older } = query;
        let is_namespaced = namespace.is_some();
        let deleted = SearchQuery { being_deleted: true, ..SearchQuery::default() };
        let inside = SearchQuery { namespace: namespace.clone(), ..deleted.clone() };
        let (mut found, more) = self.questions.search(inside, MOST_DELETED).await?;
        if let Some(namespace) = &namespace {
            // What is in a namespace holds it.
            let itself = SearchQuery {
                text: format!("namespace/{namespace}"),
                resource: Some(GroupResource::new("", "namespaces")),
                ..deleted
            };
            let (namespaces, _) = self.questions.search(itself, MOST_DELETED).await?;
            found.extend(namespaces.into_iter().filter(|(named, _)| *named.name == *namespace.as_str()));
        }
        let limits = ViewLimits { dependents_of_a_type: MOST_DEPENDENTS, ..ViewLimits::default() };
        let outside = [self.silent_apis(true), self.unsynced_types(is_namespaced)].concat();
        let context =
            StuckContext { older, silent_apis: self.silent_apis(false), is_all: !more && outside.is_empty() };
        let (mut report, mut incomplete) = self
            .questions
            .ask(limits, Freshness::Now, |asker| stuck(asker, &found, &context, |_| true))
            .await?;
        if report.not_read > 0 {
            let what = counted(report.not_read, "object");
            let why = "the collector reads only the first for an answer; --from lists reads more".to_owned();
            incomplete.push(Unseen { what, why });
        }
        if more {
            let why =
                format!("only the first {} that are being deleted are looked at", Thousands(MOST_DELETED));
            incomplete.push(Unseen { what: "further objects".to_owned(), why });
        }
        incomplete.extend(outside);
        incomplete.sort();
        self.add_unfinished(&mut report, namespace.as_ref(), older).await?;
        Ok(Answer { report, incomplete, left_out: 0 })
    }

    /// Adds what the collector cannot finish for longer than this, unless it is being deleted: then it has a cause.
    async fn add_unfinished(
        &self,
        report: &mut StuckReport,
        namespace: Option<&Namespace>,
        older: Duration,
    ) -> Result<(), PartitionEnded> {
        for reason in StuckReason::ALL {
            if AMONG_CAUSES.contains(&reason.name()) || self.status.is_standby() {
                continue;
            }
            let mut stuck = self.status.named_stuck(reason, MOST_UNFINISHED, MOST_UNFINISHED).await?;
            stuck.retain(|stuck| {
                stuck.waited > older
                    && namespace.is_none_or(|within| stuck.object.namespace.as_ref() == Some(within))
            });
            if let Some(NamedStuck { waited, message, .. }) = stuck.first() {
                let since = SystemTime::now().checked_sub(*waited).unwrap_or(SystemTime::UNIX_EPOCH);
                let since = humantime::format_rfc3339_seconds(since).to_string();
                let objects: Vec<Identity> = stuck.iter().map(|stuck| stuck.object.clone()).collect();
                report.add_unfinished((reason.name(), hint(reason)), &objects, message, since);
            }
        }
        Ok(())
    }

    /// What happens to every object if one is deleted, and what the brake would do; `None` if it is not
    /// in the graph.
    pub(super) async fn plan(&self, request: PlanRequest) -> Result<Option<Answer<Plan>>, PartitionEnded> {
        let Some(root) = self.questions.find(&request.uid, request.resource.as_ref()).await? else {
            return Ok(None);
        };
        let (brake, graph) = (&self.status.brake, &self.status.graph);
        let is_held = brake.holds(root.namespace.as_ref()).is_some();
        let walk = walk(graph, PlanQuery { root, policy: request.policy, limit: MOST_PLANNED }).await?;
        let (mut plan, incomplete) = self
            .questions
            .ask(ViewLimits::default(), Freshness::Now, |asker| plan(asker, &walk, request.limit))
            .await?;
        let limits = brake.limits();
        let mut populations: HashMap<GroupResource, u64> = HashMap::new();
        if limits.share.is_some() {
            for (resource, _) in &plan.by_collector {
                populations.insert(resource.clone(), graph.population(resource).await? as u64);
            }
        }
        plan.forecast(limits, |resource| populations.get(resource).copied());
        if is_held && let Some(why) = brake.warning() {
            plan.brake = Forecast::Engages { why };
        }
        Ok(Some(Answer { report: plan, incomplete, left_out: 0 }))
    }
}

/// Walks to the end, with small questions to the partitions.
async fn walk(graph: &GraphHandle, query: PlanQuery) -> Result<Walk, PartitionEnded> {
    let mut walk = Walk::new(query);
    loop {
        let needs = walk.needs();
        if needs.is_empty() {
            break;
        }
        let mut by_partition: HashMap<PartitionId, VecDeque<(MembersOf, Option<MemberMark>)>> =
            HashMap::new();
        for need in needs {
            for partition in graph.partitions_with(&need) {
                by_partition.entry(partition).or_default().push_back((need.clone(), None));
            }
        }
        for (partition, mut questions) in by_partition {
            while !questions.is_empty() {
                let asked = questions.iter().take(QUESTIONS).cloned().collect();
                let pages = graph.members(partition, asked, VISITS).await?;
                for page in pages {
                    let Some((of, _)) = questions.pop_front() else { break };
                    let next = page.next;
                    walk.learn(&of, page);
                    if next.is_some() {
                        questions.push_back((of, next));
                    }
                }
            }
        }
    }
    walk.finish();
    Ok(walk)
}

impl CollectorIntrospection {
    /// The owners and dependents of an object; `None` if it is not in the graph, and no reference
    /// names it.
    pub(super) async fn neighbourhood(
        &self,
        query: &ObjectQuery,
    ) -> Result<Option<NeighbourhoodPage>, PartitionEnded> {
        let Some(root) = self.questions.find_root(&query.uid, query.resource.as_ref()).await? else {
            return Ok(None);
        };
        let limits = ViewLimits { dependents_of_a_type: query.max, ..ViewLimits::default() };
        // One more than the page, which shows whether there is another page.
        let limit = query.after + query.limit + 1;
        let only_namespaced = root.namespace.is_some();
        let question = NeighbourhoodQuery { root, up: query.up, down: query.down, limit };
        let asked = self.questions.ask(limits, Freshness::Recent, |asker| neighbourhood(asker, &question));
        let (answer, mut incomplete) = asked.await?;
        incomplete.extend(self.silent_apis(true));
        if query.down > 0 {
            incomplete.extend(self.unsynced_types(only_namespaced));
        }
        incomplete.sort();
        let (mut shown, next) = page(&answer, query.after, query.limit);
        shown.truncated |= next.is_some_and(|next| next > MOST_PAGED);
        let next = next.filter(|next| *next <= MOST_PAGED).map(|next| next.to_string());
        Ok(Some(NeighbourhoodPage { shown, incomplete, next }))
    }
}
