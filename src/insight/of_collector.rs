//! The answers of the commands from a collector.

use super::answer::{ExplainAnswer, MOST_ROWS, TreeAnswer, TreeQuery};
use super::collector::{Collector, Events, Page, Reach, Record};
use super::error::InsightError;
use super::lists::{Lists, Watcher};
use super::object::ObjectArgument;
use super::plan::{PlanAnswer, PlanArgument};
use super::session::Session;
use kube_gc_core::graph::ViewLimits;
use kube_gc_core::object::{GroupResource, Identity, Namespace, Scope, Uid};
use kube_gc_insight::{Neighbourhood, ObjectName};

/// The object of a question to a collector.
#[derive(Clone, Debug)]
pub(super) struct ObjectRef {
    uid: Uid,
    /// Unless it is named by its uid alone.
    resource: Option<GroupResource>,
}

impl Session {
    /// Finds the object for a question to a collector, which knows objects by their uids.
    ///
    /// # Errors
    ///
    /// There is no such object, or it cannot be read.
    pub(super) async fn object_ref(&self, object: &ObjectArgument) -> Result<ObjectRef, InsightError> {
        Ok(match object {
            ObjectArgument::Uid(uid) => ObjectRef { uid: uid.clone(), resource: None },
            ObjectArgument::Named { of_type, name } => {
                let (identity, _) = self.find(of_type, name).await?;
                let resource = Some(identity.resource.group_resource.clone());
                ObjectRef { uid: identity.uid, resource }
            }
        })
    }

    /// Asks a collector about an object that people name.
    async fn page_about<P, E: Into<InsightError>>(
        &self,
        object: &ObjectArgument,
        watcher: &Watcher<'_>,
        ask: impl AsyncFnOnce(&ObjectRef) -> Result<Option<P>, E>,
    ) -> Result<(ObjectRef, P), InsightError> {
        let object = watcher.wait(self.object_ref(object)).await?;
        let page = Box::pin(watcher.wait(ask(&object))).await?;
        let page = page.ok_or_else(|| not_in_the_graph(&object.uid))?;
        Ok((object, page))
    }

    /// What belongs to an object, from a collector.
    ///
    /// # Errors
    ///
    /// The collector does not answer, or its graph does not have the object.
    pub async fn tree_from(
        &self,
        collector: &Collector,
        query: &TreeQuery,
        watcher: &Watcher<'_>,
    ) -> Result<TreeAnswer, InsightError> {
        let ask =
            async |of: &ObjectRef| collector.neighbourhood(&of.uid, of.resource.as_ref(), reach(query)).await;
        let (object, mut page) = self.page_about(&query.object, watcher, ask).await?;
        if query.compares(&page.answer)
            && let Some(most) = query.candidates().nth(1)
        {
            let wider = Reach { most, limit: MOST_ROWS, ..reach(query) };
            let found = collector.neighbourhood(&object.uid, object.resource.as_ref(), wider);
            // All that fits on one page.
            if let Some(found) = Box::pin(watcher.wait(found)).await?
                && found.rest.next.is_none()
            {
                page = found;
            }
        }
        Ok(self.tree_of(page, query, watcher).await)
    }

    /// What belongs to an object, now and whenever it changes.
    ///
    /// # Errors
    ///
    /// The collector does not answer.
    pub(super) async fn follow(
        &self,
        collector: &Collector,
        object: &ObjectRef,
        query: &TreeQuery,
    ) -> Result<Events<Neighbourhood>, InsightError> {
        Ok(collector.follow(&object.uid, object.resource.as_ref(), reach(query)).await?)
    }

    /// The answer that a page of a collector stands for. The graph does not keep finalizers and
    /// the server's tables, so these are read.
    pub(super) async fn tree_of(
        &self,
        page: Page<Neighbourhood>,
        query: &TreeQuery,
        watcher: &Watcher<'_>,
    ) -> TreeAnswer {
        let Page { answer: mut shown, rest } = page;
        self.identify(&mut shown);
        let mut lists = Lists::new(self, ViewLimits::default(), watcher);
        TreeAnswer { incomplete: rest.incomplete, ..self.ranked(&mut lists, shown, query, watcher).await }
    }

    /// Why an object is still there, and what the collector has done about it.
    ///
    /// # Errors
    ///
    /// The collector does not answer, or its graph does not have the object.
    pub async fn explain_from(
        &self,
        collector: &Collector,
        object: &ObjectArgument,
        watcher: &Watcher<'_>,
    ) -> Result<ExplainAnswer, InsightError> {
        let ask = async |of: &ObjectRef| collector.explain(&of.uid, of.resource.as_ref()).await;
        let (_, Page { answer, rest }) = self.page_about(object, watcher, ask).await?;
        let Record { incomplete, decisions, stuck } = rest;
        Ok(ExplainAnswer { explanation: answer, incomplete, left_out: 0, decisions: Some(decisions), stuck })
    }

    /// What happens to every object if one is deleted, from a collector.
    ///
    /// # Errors
    ///
    /// The collector does not answer, or its graph does not have the object.
    pub async fn plan_from(
        &self,
        collector: &Collector,
        asked: &PlanArgument,
        watcher: &Watcher<'_>,
    ) -> Result<PlanAnswer, InsightError> {
        let ask = async |of: &ObjectRef| {
            collector.plan(&of.uid, of.resource.as_ref(), asked.policy, asked.listed).await
        };
        let (_, page) = self.page_about(&asked.object, watcher, ask).await?;
        Ok(PlanAnswer { plan: page.answer, incomplete: page.rest.incomplete, left_out: 0 })
    }

    /// Finds the identities that names stand for, which answers of a collector leave out.
    fn identify(&self, shown: &mut Neighbourhood) {
        for node in &mut shown.nodes {
            node.identity = self.identity(&node.name);
        }
    }

    fn identity(&self, name: &ObjectName) -> Option<Identity> {
        let resource = self.discovered.catalog.resolve(&name.api_version, &name.kind)?;
        let namespace = name.namespace.as_deref().and_then(Namespace::parse);
        let fits = namespace.is_some() == (resource.scope == Scope::Namespaced);
        fits.then(|| Uid::parse(&name.uid)).flatten().map(|uid| Identity {
            resource: std::sync::Arc::clone(resource),
            namespace,
            name: name.name.as_str().into(),
            uid,
        })
    }
}

const fn reach(query: &TreeQuery) -> Reach {
    let TreeQuery { up, down, most, limit, .. } = query;
    Reach { up: *up, down: *down, most: *most, limit: *limit }
}

fn not_in_the_graph(uid: &Uid) -> InsightError {
    InsightError::NoSuchObject(format!(
        "the graph of the collector has no object with the uid {}; --from lists asks the API server",
        uid.shown()
    ))
}
