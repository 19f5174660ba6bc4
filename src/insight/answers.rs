//! The answers of `kube-gc explain`, `check` and `stuck`.

use std::collections::HashSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::InsightError;
use super::collector::{Collector, Decision, Stuck};
use super::lists::{INTERRUPTED, Lists};
use super::session::{ObjectArgument, Session, TypeFilter};
use kube_gc_core::graph::{SearchQuery, ViewLimits};
use kube_gc_core::object::{DeletionState, GroupResource, Identity, Namespace, Scope, Uid};
use kube_gc_core::text::Thousands;
use kube_gc_insight::{
    Answer, CheckReport, Explanation, LeftOut, Outcome, Report as _, StuckReport, Survey, Unseen,
    contents_of, counted, explain, explain_namespace,
};

/// The most objects that `check` and `stuck` read.
const MOST_READS: usize = 2_000;
/// The most findings that an answer of `check` lists. All are counted.
const MOST_FINDINGS: usize = 10_000;
/// How many objects are checked at a time.
const AT_A_TIME: usize = 64;

/// The answer of `kube-gc explain`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExplainAnswer {
    #[serde(flatten)]
    pub answer: Answer<Explanation>,
    /// The object may not be read, or nothing that the answer depends on may be listed.
    #[serde(skip)]
    pub is_denied: bool,
    /// From a collector: its last decisions about the object, newest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decisions: Option<Vec<Decision>>,
    /// From a collector: what keeps it from finishing with the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stuck: Option<Stuck>,
}

/// Which objects `kube-gc check` and `stuck` look at.
#[derive(Clone, Debug, Default)]
pub struct QueryScope {
    /// All namespaces and cluster-scoped objects, instead of one namespace.
    pub everywhere: bool,
    /// Which types are listed.
    pub filter: TypeFilter,
    /// The labels of the objects that are reported; `None` for all.
    pub selector: Option<String>,
}

impl Session {
    /// Why an object is still there. Lists dependents only if the answer depends on them.
    ///
    /// # Errors
    ///
    /// There is no such object, or it cannot be read.
    pub async fn explain(
        &self,
        object: &ObjectArgument,
        filter: &TypeFilter,
    ) -> Result<ExplainAnswer, InsightError> {
        let filter = &self.resolve(filter)?;
        let mut lists = Lists::new(self, ViewLimits::default());
        let root = match lists.root(object, filter).await {
            Err(none @ InsightError::NoSuchObject(_)) => return Err(self.why_gone(None, object, none).await),
            root => root?,
        };
        let mut explanation = lists.ask(|asker| explain(asker, &root)).await;
        let contents = contents_of(&root).filter(|_| explanation.deleted.is_some());
        let depends_on_lists = contents.is_some()
            || (matches!(object, ObjectArgument::Named { .. }) && explanation.depends_on_dependents());
        if let Some(contents) = contents {
            let everywhere = explanation.depends_on_dependents();
            explanation = lists.explain_namespace(&root, contents, filter, everywhere).await;
        } else if depends_on_lists {
            // If nothing may be listed, the answer says so, and what is known without.
            lists.list(root.namespace.as_ref(), filter).await.ok();
            explanation = lists.ask(|asker| explain(asker, &root)).await;
        }
        if self.ignored.contains(&root.resource.group_resource) && explanation.deleted.is_none() {
            explanation.is_ignored();
        }
        if explanation.is_kept()
            && let Some(namespace) = &root.namespace
        {
            match self.namespace_named(namespace).await {
                Ok(Some((namespace, live))) if live.facts.being_deleted => {
                    explanation.is_within(&namespace, Some(&live));
                }
                Err(InsightError::NoSuchObject(_)) => {
                    explanation.verdict.push_str(&format!(" Namespace {namespace} does not exist."));
                }
                _ => {}
            }
        }
        if depends_on_lists && !lists.knowledge.outside().is_empty() {
            explanation.doubt();
        }
        let nothing_listed = lists.may_list_nothing() && explanation.outcome == Outcome::Unknown;
        let answer = lists.answer(explanation);
        let itself = answer.report.object.to_string();
        let denied = |unseen: &Unseen| unseen.what == itself && unseen.why.ends_with("(403)");
        let is_denied = nothing_listed || answer.incomplete.iter().any(denied);
        Ok(ExplainAnswer { answer, is_denied, ..Default::default() })
    }

    /// What is wrong with owner references.
    ///
    /// # Errors
    ///
    /// The server does not understand the selector. What cannot be listed or read is named in the
    /// answer.
    pub async fn check(&self, scope: &QueryScope) -> Result<Answer<CheckReport>, InsightError> {
        let (mut lists, selected) = self.listed(scope, false).await?;
        let survey = Survey::of(&mut lists.graph, selected.as_ref());
        let mut report = CheckReport::new(&survey);
        let mut not_asked = 0;
        let mut left = survey.suspects.len();
        for keys in survey.suspects.chunks(AT_A_TIME) {
            if self.waiting.interrupted.is_cancelled() {
                lists.unseen.push(unseen(left, "object", INTERRUPTED.to_owned()));
                break;
            }
            for checked in lists.check(keys, &survey.circles).await {
                not_asked += checked.not_asked;
                report.add(checked, MOST_FINDINGS);
            }
            left -= keys.len();
        }
        report.keep_first(MOST_FINDINGS);
        if not_asked > 0 {
            let why = format!("more than {} owners would have to be read", Thousands(MOST_READS));
            lists.unseen.push(unseen(not_asked, "reference", why));
        }
        Ok(lists.answer(report))
    }

    /// Lists what `check` and `stuck` look at, and the objects that are meant among it. If what blocks it matters,
    /// everything, for a namespace that waits for its dependents and for cluster-scoped objects.
    async fn listed(
        &self,
        scope: &QueryScope,
        blockers_matter: bool,
    ) -> Result<(Lists<'_>, Option<HashSet<Uid>>), InsightError> {
        let (namespace, filter) = (self.namespace_of(scope), &self.resolve(&scope.filter)?);
        let mut lists = Lists::new(self, ViewLimits::default());
        lists.most_reads = MOST_READS;
        if let Some(namespace) = namespace {
            lists.meet(namespace).await?;
        }
        let (is_hidden, mut selected) = (lists.beside.is_empty(), None);
        let mut waits = lists.beside.iter().any(|(_, state)| *state == DeletionState::DeletingDependents);
        let is_besides = |of: &&String| self.type_named(of).is_ok_and(|of| of.scope == Scope::Cluster);
        let only: Vec<_> = filter.only.iter().filter(is_besides).cloned().collect();
        let mut found = Vec::new();
        if let Some(selector) = &scope.selector {
            found = lists.select(namespace, filter, selector).await?;
            selected = Some(found.iter().map(|(one, _)| one.uid.clone()).collect());
        } else if blockers_matter && namespace.is_some() && !only.is_empty() {
            found = lists.select(namespace, &TypeFilter { only, ..filter.clone() }, "").await?;
        }
        found.retain(|of| of.0.namespace.is_none() && of.1.is_being_deleted() && !lists.beside.contains(of));
        waits |= !found.is_empty();
        lists.beside.extend(found);
        lists.within = namespace.filter(|_| waits && blockers_matter).cloned();
        lists.list(namespace.filter(|_| lists.within.is_none()), filter).await?;
        if let Some(namespace) =
            namespace.filter(|_| is_hidden && lists.graph.search(&SearchQuery::default()).is_empty())
        {
            let why =
                "you may not read it, and it has no object that you may list: does it exist?".to_owned();
            lists.unseen.push(Unseen { what: format!("namespace {namespace}"), why });
        }
        Ok((lists, selected))
    }

    fn namespace_of(&self, scope: &QueryScope) -> Option<&Namespace> {
        if scope.everywhere { None } else { self.namespace.as_ref() }
    }

    /// What was deleted longer ago than this and is still there.
    ///
    /// # Errors
    ///
    /// The server does not understand the selector. What cannot be listed or read is named in the
    /// answer.
    pub async fn stuck(
        &self,
        scope: &QueryScope,
        older: Duration,
    ) -> Result<Answer<StuckReport>, InsightError> {
        let (mut lists, selected) = self.listed(scope, true).await?;
        let report = lists.stuck(older, selected.as_ref()).await;
        if report.not_read > 0 {
            let why = format!("more than {} objects would have to be read", Thousands(MOST_READS));
            lists.unseen.push(unseen(report.not_read, "object", why));
        }
        Ok(lists.answer(report))
    }

    /// The same, from the graph of a collector.
    ///
    /// # Errors
    ///
    /// The collector does not answer.
    pub async fn stuck_from(
        &self,
        collector: &Collector,
        scope: &QueryScope,
        older: Duration,
    ) -> Result<Answer<StuckReport>, InsightError> {
        let namespace = self.namespace_of(scope);
        if let Some(namespace) = namespace {
            self.namespace_named(namespace).await?;
        }
        self.wait(collector.causes(namespace, older)).await
    }
}

fn unseen(count: usize, what: &str, why: String) -> Unseen {
    Unseen { what: counted(count, what), why }
}

impl Lists<'_> {
    /// Why a namespace, or the definition of a custom resource, is still there. Lists what is in it, or everything, if
    /// it waits for its dependents.
    async fn explain_namespace(
        &mut self,
        root: &Identity,
        contents: SearchQuery,
        filter: &TypeFilter,
        everywhere: bool,
    ) -> Explanation {
        self.within.clone_from(&contents.namespace);
        let only = contents.resource.as_ref().filter(|_| !everywhere).map(GroupResource::to_string);
        let only = only.map(|only| TypeFilter { only: vec![only], ..TypeFilter::default() });
        let namespace = contents.namespace.as_ref().filter(|_| !everywhere);
        self.list(namespace, only.as_ref().unwrap_or(filter)).await.ok();
        if let Some(only) = &only {
            // The others have nothing to do with it.
            self.knowledge.leave_out(LeftOut::None);
            if self.session.types(None, only).0.is_empty() {
                let why = "the server does not serve it any more".to_owned();
                self.knowledge.miss(Unseen { what: only.only.concat(), why }, None);
            }
        }
        let mut left = self.graph.search(&contents);
        // What blocks an object of the type is of any.
        if only.is_some() && left.iter().any(|(_, state)| *state == DeletionState::DeletingDependents) {
            self.list(None, filter).await.ok();
            left = self.graph.search(&contents);
        }
        self.ask(|asker| explain_namespace(asker, root, &left)).await
    }
}
