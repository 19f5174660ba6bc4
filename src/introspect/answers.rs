//! The answers to questions about objects, from the graph of the running collector: explanations,
//! plans, owners and dependents, and what holds objects that were deleted.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, SystemTime};

use super::introspection::CollectorIntrospection;
use super::queries::{
    CausesQuery, DecisionQuery, ExplainQuery, MOST_PAGED, ObjectQuery, PlanRequest, StuckQuery,
};
use super::questions::Freshness;
use super::stuck::{NamedStuck, StuckItem, hint};
use super::view::ExplanationPage;
use kube_gc_controller::actors::graph_handle::{GraphHandle, PartitionEnded};
use kube_gc_core::graph::{MemberMark, MembersOf, PartitionId, SearchQuery, ViewLimits};
use kube_gc_core::object::{DeletionState, GroupResource, Identity, Namespace};
use kube_gc_core::text::{Thousands, bounded};
use kube_gc_insight::{
    Answer, Asker, Explanation, Forecast, Knowledge, Leaf, Live, NeighbourhoodPage, NeighbourhoodQuery,
    ObjectName, Outcome, Plan, PlanQuery, StuckReport, Unseen, Walk, contents_of, counted, explain,
    explain_namespace, neighbourhood, page, plan, stuck,
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
            let ignored = query.resource.as_ref().filter(|of| self.status.ignored.contains(of));
            return Ok(ignored.map(ExplanationPage::of_ignored));
        };
        let outside = self.questions.outside(root.namespace.as_ref(), None).await?;
        let namespace = self.namespace(root.namespace.as_ref()).await?;
        let dying = namespace.filter(|(_, deletion)| deletion.is_being_deleted());
        let question = |asker: &mut Asker<'_>| {
            let mut explanation = explain(asker, &root);
            if let Some((namespace, _)) = dying.as_ref().filter(|_| explanation.is_kept()) {
                explanation.is_within(namespace, asker.live(namespace).and_then(Live::found));
            }
            explanation
        };
        let mut answer = self.questions.ask(ViewLimits::default(), Freshness::Now, outside, question).await?;
        if let Some(contents) = contents_of(&root).filter(|_| answer.report.deleted.is_some()) {
            answer = self.contents(&root, contents).await?;
        }
        let explanation = &mut answer.report;
        // The brake holds deletions, and not what is left to do of one.
        if explanation.deleted.is_none()
            && explanation.outcome == Outcome::Goes
            && let Some(why) = self.status.brake.holds(root.namespace.as_ref())
        {
            explanation.outcome = Outcome::Waits;
            explanation.verdict += &format!(" The brake holds it: {why}.");
        }
        if explanation.chain.leaves.iter().any(Leaf::is_work) {
            // What the collector has tried in vain says more than that it has something to do.
            for item in self.status.stuck(&StuckQuery::default()).await?.stuck {
                if let Some(attempts) = item.attempts {
                    explanation.has_failed(&item.object.uid, attempts, (&item.message, item.hint));
                }
            }
        }
        let (uid, limit) = (Some(query.uid.clone()), Some(DECISIONS));
        let of_object = DecisionQuery { uid, limit, ..DecisionQuery::default() };
        let decisions = self.decision_log.page(&of_object).decisions;
        let stuck = self.stuck_entry(&root).await?.map(|item| item.beside(explanation));
        Ok(Some(ExplanationPage { answer, decisions, stuck }))
    }

    /// Why a namespace, or the definition of a custom resource, is still there.
    async fn contents(
        &self,
        root: &Identity,
        contents: SearchQuery,
    ) -> Result<Answer<Explanation>, PartitionEnded> {
        let mut outside =
            self.questions.outside(contents.namespace.as_ref(), contents.namespace.as_ref()).await?;
        let (_, left, more) = self.questions.search(vec![contents], MOST_LEFT).await?;
        outside.types.extend(more.then(|| Unseen {
            what: format!("objects in {} {}", root.resource.kind, bounded(&root.name)),
            why: format!("only the first {MOST_LEFT} are counted"),
        }));
        let question = |asker: &mut Asker<'_>| explain_namespace(asker, root, &left);
        self.questions.ask(ViewLimits::default(), Freshness::Now, outside, question).await
    }

    /// The namespace of this name.
    async fn namespace(
        &self,
        namespace: Option<&Namespace>,
    ) -> Result<Option<(Identity, DeletionState)>, PartitionEnded> {
        let Some(namespace) = namespace else { return Ok(None) };
        let (text, of) = (format!("namespace/{namespace}"), GroupResource::new("", "namespaces"));
        let itself = SearchQuery { text, resource: Some(of), ..SearchQuery::default() };
        let (_, found, _) = self.questions.search(vec![itself], MOST_DELETED).await?;
        Ok(found.into_iter().find(|(named, _)| *named.name == *namespace.as_str()))
    }

    /// What keeps the collector from finishing with an object.
    async fn stuck_entry(&self, root: &Identity) -> Result<Option<StuckItem>, PartitionEnded> {
        let (namespace, resource) = (root.namespace.clone(), root.resource.group_resource.clone());
        let in_place = StuckQuery { namespace, resource: Some(resource), ..StuckQuery::default() };
        let uid = root.uid.shown().to_string();
        let stuck = self.status.stuck(&in_place).await?.stuck;
        Ok(stuck.into_iter().find(|item| item.object.uid == uid))
    }
}

impl CollectorIntrospection {
    /// What was deleted longer ago than a time and is still there, by what holds it.
    pub(super) async fn causes(&self, query: CausesQuery) -> Result<Answer<StuckReport>, PartitionEnded> {
        let CausesQuery { namespace, older } = query;
        let mut outside = self.questions.outside(namespace.as_ref(), namespace.as_ref()).await?;
        let inside =
            SearchQuery { namespace: namespace.clone(), being_deleted: true, ..SearchQuery::default() };
        let (_, mut found, more) = self.questions.search(vec![inside], MOST_DELETED).await?;
        let mut unseen = |what: String, why: String| outside.types.push(Unseen { what, why });
        if more {
            let why =
                format!("only the first {} that are being deleted are looked at", Thousands(MOST_DELETED));
            unseen("further objects".to_owned(), why);
        }
        if let Some(namespace) = &namespace {
            let itself = self.namespace(Some(namespace)).await?;
            if itself.is_none() {
                let why = "the collector does not know it: does it exist?".to_owned();
                unseen(format!("namespace {namespace}"), why);
            }
            // What is in a namespace holds it.
            found.extend(itself.filter(|(_, deletion)| deletion.is_being_deleted()));
        }
        let limits = ViewLimits { dependents_of_a_type: MOST_DEPENDENTS, ..ViewLimits::default() };
        let is_meant = |of: &Identity| {
            let is_itself =
                |name: &Namespace| *of.resource.kind == *"Namespace" && *of.name == *name.as_str();
            namespace.is_none() || of.namespace == namespace || namespace.as_ref().is_some_and(is_itself)
        };
        let question = |asker: &mut Asker<'_>| stuck(asker, &found, older, is_meant);
        let mut answer = self.questions.ask(limits, Freshness::Now, outside, question).await?;
        if answer.report.not_read > 0 {
            let what = counted(answer.report.not_read, "object");
            let why = "the collector reads only the first for an answer; --from lists reads more".to_owned();
            answer.miss(Unseen { what, why });
        }
        self.add_unfinished(&mut answer.report, namespace.as_ref(), older).await?;
        Ok(answer)
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
            let mut stuck = self.status.named_stuck(reason, MOST_UNFINISHED, MOST_UNFINISHED, older).await?;
            stuck.retain(|stuck| {
                stuck.waited > older
                    && namespace.is_none_or(|within| stuck.object.namespace.as_ref() == Some(within))
            });
            if let Some(NamedStuck { waited, .. }) = stuck.first() {
                let since = SystemTime::now().checked_sub(*waited).unwrap_or(SystemTime::UNIX_EPOCH);
                let since = humantime::format_rfc3339_seconds(since).to_string();
                let objects: Vec<_> = stuck.into_iter().map(|stuck| (stuck.object, stuck.message)).collect();
                report.add_unfinished((reason.name(), hint(reason)), &objects, since);
            }
        }
        Ok(())
    }

    /// What happens to every object if one is deleted, and what the brake would do; `None` if it is not
    /// in the graph.
    pub(super) async fn plan(&self, request: PlanRequest) -> Result<Option<Answer<Plan>>, PartitionEnded> {
        let Some(root) = self.questions.find(&request.uid, request.resource.as_ref()).await? else {
            return self.unplanned(&request).await;
        };
        let (brake, graph) = (&self.status.brake, &self.status.graph);
        let ending = contents_of(&root).and_then(|contents| contents.namespace);
        let mut outside = self.questions.outside(root.namespace.as_ref(), ending.as_ref()).await?;
        outside.paused = brake.engaged();
        let stuck = self.status.stuck(&StuckQuery::default()).await?.stuck.into_iter();
        let is_tried =
            |item: &StuckItem| item.attempts.is_some() && item.reason != StuckReason::Braked.name();
        let failures = stuck.filter(is_tried).map(|item| (item.object.uid, item.message));
        outside.failed = failures.collect();
        let (others, unseen) = self.questions.goes_with(&root).await;
        let query = PlanQuery { roots: vec![root], policy: request.policy, others, limit: MOST_PLANNED };
        let mut all = Walk::new(query);
        let mut answer = loop {
            walk(graph, &mut all).await?;
            let question = |asker: &mut Asker<'_>| plan(asker, &all, request.limit);
            let asked = self.questions.ask(ViewLimits::default(), Freshness::Now, outside.clone(), question);
            let answer = asked.await?;
            if !all.follow(&answer.report) {
                break answer;
            }
        };
        unseen.into_iter().for_each(|unseen| answer.miss(unseen));
        let plan = &mut answer.report;
        let limits = brake.limits();
        let mut populations: HashMap<GroupResource, u64> = HashMap::new();
        if limits.share.is_some() {
            for (resource, _) in &plan.by_collector {
                populations.insert(resource.clone(), graph.population(resource).await? as u64);
            }
        }
        match brake.warning().filter(|_| plan.is_braked) {
            Some(why) => plan.brake = Forecast::Engaged { why },
            None => plan.forecast(limits, |resource| populations.get(resource).copied()),
        }
        Ok(Some(answer))
    }

    /// What is said of an object that the collector does not see, because it ignores its type or has not listed it.
    async fn unplanned(&self, request: &PlanRequest) -> Result<Option<Answer<Plan>>, PartitionEnded> {
        let outside = self.questions.outside(None, None).await?;
        let what = request.resource.as_ref().map(GroupResource::to_string);
        let knows_nothing = self.status.discovery().discovered.is_none();
        let mut types = outside.types.iter();
        let Some(unseen) = types.find(|unseen| knows_nothing || Some(&unseen.what) == what.as_ref()) else {
            return Ok(None);
        };
        let verdict = format!("No plan can be made of {}: {}.", unseen.what, unseen.why);
        let object =
            ObjectName { resource: what, uid: request.uid.shown().to_string(), ..ObjectName::default() };
        let plan = Plan { object, cascade: request.policy.into(), verdict, ..Plan::default() };
        Ok(Some(Answer::new(plan, &Knowledge::new(outside), Vec::new())))
    }
}

/// Walks to the end, with small questions to the partitions.
async fn walk(graph: &GraphHandle, walk: &mut Walk) -> Result<(), PartitionEnded> {
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
    Ok(())
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
        let outside = self.questions.outside(root.namespace.as_ref(), None).await?;
        let question = NeighbourhoodQuery { root, up: query.up, down: query.down, limit };
        let asked =
            self.questions.ask(limits, Freshness::Recent, outside, |asker| neighbourhood(asker, &question));
        let Answer { report, incomplete, .. } = asked.await?;
        let (mut shown, next) = page(&report, query.after, query.limit);
        shown.truncated |= next.is_some_and(|next| next > MOST_PAGED);
        let next = next.filter(|next| *next <= MOST_PAGED).map(|next| next.to_string());
        Ok(Some(NeighbourhoodPage { shown, incomplete, next }))
    }
}
