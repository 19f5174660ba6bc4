//! Which source a question is put to, and the answers of a collector.

use super::answers::{Answer, ExplainAnswer, PlanArgument};
use super::collector::{Collector, ObjectRef, SearchScope, find};
use super::lists::{Lists, Watcher};
use super::session::{ObjectArgument, Session};
use super::tree::{MOST_OBJECTS, MOST_ROWS, TreeAnswer, TreeQuery};
use super::{Credentials, Endpoint, InsightError};
use kube_gc_core::graph::ViewLimits;
use kube_gc_core::object::{Identity, Namespace, Scope, Uid};
use kube_gc_insight::{ObjectName, Plan};

/// The most objects that the page of a plan lists.
const MOST_PLANNED: usize = 100_000;

/// What a user says about the source.
#[derive(Clone, Debug, Default)]
pub enum Source {
    /// Lists of the API server.
    #[default]
    Lists,
    /// The collector at this address.
    Collector(Box<Endpoint>),
    /// The collector that is found in the cluster.
    Found {
        /// Where it is looked for.
        place: SearchScope,
        /// What it takes to be answered.
        credentials: Credentials,
        /// Whether there is no answer without one; else lists answer.
        required: bool,
    },
}

impl Session {
    /// Asks the collector that a source stands for, or lists, and says which collector was found, or why the
    /// one that there is does not answer. If nobody has asked for a collector, lists answer what it cannot.
    ///
    /// # Errors
    ///
    /// There is no answer.
    pub async fn answer<A>(
        &self,
        source: &Source,
        watcher: &Watcher<'_>,
        of_collector: impl AsyncFnOnce(&Self, &Collector, &Watcher<'_>) -> Result<A, InsightError>,
        of_lists: impl AsyncFnOnce(&Self, &Watcher<'_>) -> Result<A, InsightError>,
    ) -> Result<(A, Option<String>), InsightError> {
        let (collector, mut note) = self.choose(source, watcher).await?;
        if let Some(collector) = collector {
            let is_optional = matches!(source, Source::Found { required: false, .. });
            match of_collector(self, &collector, watcher).await {
                Ok(answer) => return Ok((answer, note)),
                Err(error) if is_optional && !watcher.interrupted.is_cancelled() => {
                    note = Some(from_lists(&error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok((of_lists(self, watcher).await?, note))
    }

    /// The collector, after it has said that it is one, or nothing if lists answer; and what there is to say
    /// about that.
    ///
    /// # Errors
    ///
    /// The collector that was asked for cannot be found or reached, or is none.
    pub async fn choose(
        &self,
        source: &Source,
        watcher: &Watcher<'_>,
    ) -> Result<(Option<Collector>, Option<String>), InsightError> {
        match source {
            Source::Lists => Ok((None, None)),
            Source::Collector(endpoint) => {
                let collector = watcher.wait(Collector::at(Endpoint::clone(endpoint))).await?;
                Ok((Some(collector), None))
            }
            Source::Found { place, credentials, required } => {
                match Box::pin(watcher.wait(find(&self.api, place, credentials))).await {
                    Ok(collector) => {
                        let standby = if collector.is_standby() { ", a standby" } else { "" };
                        let note = format!("From the collector at {collector}{standby}");
                        Ok((Some(collector), Some(note)))
                    }
                    Err(InsightError::Collector(error)) if !required => {
                        Ok((None, error.is_of_a_collector().then(|| from_lists(&error))))
                    }
                    Err(error) => Err(error),
                }
            }
        }
    }
}

fn from_lists(error: &dyn std::fmt::Display) -> String {
    format!("From lists: {error}")
}

impl Session {
    /// Asks a collector about an object that people name.
    async fn page_about<A, E: Into<InsightError>>(
        &self,
        object: &ObjectArgument,
        watcher: &Watcher<'_>,
        ask: impl AsyncFnOnce(&ObjectRef) -> Result<Option<A>, E>,
    ) -> Result<(ObjectRef, A), InsightError> {
        let object = match object {
            ObjectArgument::Uid(uid) => ObjectRef { uid: uid.clone(), resource: None },
            ObjectArgument::Named { of_type, name } => {
                let (identity, _) = watcher.wait(self.find(of_type, name)).await?;
                let resource = Some(identity.resource.group_resource.clone());
                ObjectRef { uid: identity.uid, resource }
            }
        };
        let page = Box::pin(watcher.wait(ask(&object))).await?;
        let page = page.ok_or_else(|| {
            InsightError::NoSuchObject(format!(
                "the graph of the collector has no object with the uid {}; --from lists asks the API server",
                object.uid.shown()
            ))
        })?;
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
        let ask = async |of: &ObjectRef| collector.neighbourhood(of, query, MOST_OBJECTS).await;
        let (object, mut page) = self.page_about(&query.object, watcher, ask).await?;
        if query.compares(&page.shown)
            && let Some(most) = query.candidates().nth(1)
        {
            let wider = TreeQuery { most, ..query.clone() };
            let found = collector.neighbourhood(&object, &wider, MOST_ROWS);
            // All that fits on one page.
            if let Some(found) = Box::pin(watcher.wait(found)).await?
                && found.next.is_none()
            {
                page = found;
            }
        }
        // The graph does not keep finalizers and the server's tables, so these are read.
        for node in &mut page.shown.nodes {
            node.identity = self.identity(&node.name);
        }
        let mut lists = Lists::new(self, ViewLimits::default(), watcher);
        let shown = lists.ranked(page.shown, query).await;
        Ok(TreeAnswer { shown, incomplete: page.incomplete, left_out: 0 })
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
        let ask = async |of: &ObjectRef| collector.page(&format!("/debug/explain?{of}")).await;
        Ok(self.page_about(object, watcher, ask).await?.1)
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
    ) -> Result<Answer<Plan>, InsightError> {
        let policy = asked.policy.to_string().to_lowercase();
        let limit = asked.listed.clamp(1, MOST_PLANNED);
        let ask = async |of: &ObjectRef| {
            collector.page(&format!("/debug/plan?{of}&policy={policy}&limit={limit}")).await
        };
        Ok(self.page_about(&asked.object, watcher, ask).await?.1)
    }

    /// The identity that a name stands for, which answers of a collector leave out.
    fn identity(&self, name: &ObjectName) -> Option<Identity> {
        let resource = self.discovered.catalog.resolve(&name.api_version, &name.kind)?;
        let namespace = name.namespace.as_deref().and_then(Namespace::parse);
        let uid = Uid::parse(&name.uid)?;
        let fits = namespace.is_some() == (resource.scope == Scope::Namespaced);
        fits.then(|| Identity { resource: resource.clone(), namespace, name: name.name.as_str().into(), uid })
    }
}
