//! Which source a question is put to, and the answers of a collector.

use super::answers::ExplainAnswer;
use super::collector::{Collector, CollectorError, ObjectRef, find};
use super::lists::Lists;
use super::plan::PlanArgument;
use super::session::{ObjectArgument, Session};
use super::tree::{MOST_OBJECTS, MOST_ROWS, TreeQuery};
use super::{Credentials, Endpoint, InsightError};
use kube_gc_core::graph::ViewLimits;
use kube_gc_core::object::{Identity, Namespace, Scope, Uid};
use kube_gc_insight::{Answer, Neighbourhood, ObjectName, Plan};

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
    /// The collector that is found in a namespace; `None` for the usual one. Unless it is `required`, lists
    /// answer without one.
    Found { namespace: Option<String>, credentials: Credentials, required: bool },
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
        of_collector: impl AsyncFnOnce(&Self, &Collector) -> Result<A, InsightError>,
        of_lists: impl AsyncFnOnce(&Self) -> Result<A, InsightError>,
    ) -> Result<(A, Option<String>), InsightError> {
        let (collector, mut note) = self.choose(source).await?;
        if let Some(collector) = collector {
            let is_optional = matches!(source, Source::Found { required: false, .. });
            match of_collector(self, &collector).await {
                Ok(answer) => return Ok((answer, note)),
                // The API server said so, and the collector may know why.
                Err(error @ InsightError::NoSuchObject(_)) => return Err(error),
                Err(error) if is_optional && !self.waiting.interrupted.is_cancelled() => {
                    note = Some(from_lists(&error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok((of_lists(self).await?, note))
    }

    /// The collector, after it has said that it is one, or nothing if lists answer; and what there is to say
    /// about that.
    ///
    /// # Errors
    ///
    /// The collector that was asked for cannot be found or reached, or is none.
    pub async fn choose(&self, source: &Source) -> Result<(Option<Collector>, Option<String>), InsightError> {
        match source {
            Source::Lists => Ok((None, None)),
            Source::Collector(endpoint) => {
                let collector = self.wait(Collector::at(Endpoint::clone(endpoint))).await?;
                self.is_known_to(&collector).await?;
                let dry = format!("The collector at {collector} is in a dry run: it writes nothing.");
                let note = collector.is_dry_run.then_some(dry);
                Ok((Some(collector), note))
            }
            Source::Found { namespace, credentials, required } => {
                match Box::pin(self.wait(find(&self.api, namespace.as_deref(), credentials))).await {
                    Ok(collector) => {
                        let standby = if collector.is_standby { ", a standby" } else { "" };
                        let dry =
                            if collector.is_dry_run { ", in a dry run: it writes nothing." } else { "" };
                        let note = format!("From the collector at {collector}{standby}{dry}");
                        Ok((Some(collector), Some(note)))
                    }
                    // Who may not list pods does not know of any collector.
                    Err(InsightError::Collector(
                        CollectorError::NotFound { .. } | CollectorError::PodsForbidden(_),
                    )) if !required => Ok((None, None)),
                    Err(InsightError::Collector(error)) if !required => Ok((None, Some(from_lists(&error)))),
                    Err(error) => Err(error),
                }
            }
        }
    }
}

impl Session {
    /// Fails unless the collector at an address knows a namespace of this cluster: one of another cluster would
    /// answer about namespaces of the same name.
    async fn is_known_to(&self, collector: &Collector) -> Result<(), InsightError> {
        let names =
            ["default", "kube-system"].into_iter().chain(self.namespace.as_ref().map(Namespace::as_str));
        let mut known = None;
        for name in names {
            match self.wait(self.find("namespaces", None, name)).await {
                Ok((namespace, _)) => known = Some(namespace),
                Err(InsightError::Interrupted) => return Err(InsightError::Interrupted),
                Err(_) => continue,
            }
            break;
        }
        let Some(namespace) = known else {
            return Err(CollectorError::Unverified { at: collector.to_string() }.into());
        };
        let page = format!("/debug/neighbourhood?{}&limit=1", ObjectRef::from(&namespace));
        let known = self.wait(collector.page::<serde_json::Value>(&page)).await?;
        known.map(drop).ok_or_else(|| CollectorError::OtherCluster { at: collector.to_string() }.into())
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
        ask: impl AsyncFnOnce(&ObjectRef) -> Result<Option<A>, E>,
    ) -> Result<A, InsightError> {
        let object = match object {
            ObjectArgument::Uid(uid) => ObjectRef { uid: uid.clone(), resource: None },
            ObjectArgument::Named { of_type, namespace, name } => {
                ObjectRef::from(&self.wait(self.find(of_type, namespace.as_ref(), name)).await?.0)
            }
        };
        self.page_of(&object, ask).await
    }

    async fn page_of<A, E: Into<InsightError>>(
        &self,
        object: &ObjectRef,
        ask: impl AsyncFnOnce(&ObjectRef) -> Result<Option<A>, E>,
    ) -> Result<A, InsightError> {
        let page = Box::pin(self.wait(ask(object))).await?;
        page.ok_or_else(|| InsightError::NotInGraph(object.uid.shown().to_string()))
    }

    /// What belongs to an object, from a collector. One that was found before may be gone.
    ///
    /// # Errors
    ///
    /// The collector does not answer, or its graph does not have the object.
    pub async fn tree_from(
        &self,
        collector: &Collector,
        query: &TreeQuery,
        known: Option<&Identity>,
    ) -> Result<Answer<Neighbourhood>, InsightError> {
        let wider = query.candidates().nth(1).map(|most| TreeQuery { most, ..query.clone() });
        let ask = async |of: &ObjectRef| {
            // If all of it fits on one page.
            if let Some(wider) = &wider
                && let Some(found) = collector.neighbourhood(of, wider, MOST_ROWS).await?
                && found.next.is_none()
            {
                return Ok(Some(found));
            }
            collector.neighbourhood(of, query, MOST_OBJECTS).await
        };
        let mut page = match known {
            Some(known) => self.page_of(&known.into(), ask).await?,
            None => self.page_about(&query.object, ask).await?,
        };
        // The graph does not keep finalizers and the server's tables, so these are read.
        for node in &mut page.shown.nodes {
            node.identity = self.identity(&node.name);
        }
        let mut lists = Lists::new(self, ViewLimits::default());
        let report = lists.ranked(page.shown, query).await;
        lists.unseen = page.incomplete;
        let mut answer = lists.answer(report);
        answer.dry_run = collector.is_dry_run;
        Ok(answer)
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
    ) -> Result<ExplainAnswer, InsightError> {
        let ask =
            async |of: &ObjectRef| collector.page::<ExplainAnswer>(&format!("/debug/explain?{of}")).await;
        match self.page_about(object, ask).await {
            Err(none @ (InsightError::NoSuchObject(_) | InsightError::NotInGraph(_))) => {
                Err(self.why_gone(Some(collector), object, none).await)
            }
            answer => answer,
        }
    }

    /// What happens to every object if one is deleted, from a collector; from lists, if several are.
    ///
    /// # Errors
    ///
    /// The collector does not answer, or its graph does not have the object.
    pub async fn plan_from(
        &self,
        collector: &Collector,
        asked: &PlanArgument,
    ) -> Result<Answer<Plan>, InsightError> {
        let [object] = &asked.objects[..] else { return self.plan(asked).await };
        let policy = asked.policy.to_string().to_lowercase();
        let limit = asked.listed.clamp(1, MOST_PLANNED);
        let ask = async |of: &ObjectRef| {
            collector.page(&format!("/debug/plan?{of}&policy={policy}&limit={limit}")).await
        };
        let answer: Answer<Plan> = self.page_about(object, ask).await?;
        if let Some(place) = answer.report.object.namespace.as_deref().and_then(Namespace::parse) {
            self.namespace_named(&place).await?;
        }
        Ok(answer)
    }

    /// The identity that a name stands for, which answers of a collector leave out.
    pub(super) fn identity(&self, name: &ObjectName) -> Option<Identity> {
        let resource = self.discovered.catalog.resolve(&name.api_version, &name.kind)?;
        let namespace = name.namespace.as_deref().and_then(Namespace::parse);
        let uid = Uid::parse(&name.uid)?;
        let fits = namespace.is_some() == (resource.scope == Scope::Namespaced);
        fits.then(|| Identity { resource: resource.clone(), namespace, name: name.name.as_str().into(), uid })
    }
}
