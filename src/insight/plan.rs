//! The answer of `kube-gc plan` from lists.

use std::collections::HashSet;

use futures::{StreamExt as _, TryStreamExt as _};

use super::InsightError;
use super::lists::{AT_ONCE, Lists};
use super::session::{ObjectArgument, Session, TypeFilter};
use kube_gc_core::brake::Limits;
use kube_gc_core::graph::ViewLimits;
use kube_gc_core::object::{Identity, Namespace, PropagationPolicy, Scope};
use kube_gc_core::text::listed;
use kube_gc_insight::{Answer, ObjectName, Plan, PlanQuery, Walk, contents_of, plan};

/// The most objects that a plan looks at.
const MOST_OBJECTS: usize = 2_000_000;

/// What `kube-gc plan` asks.
#[derive(Clone, Debug)]
pub struct PlanArgument {
    /// The objects.
    pub objects: Vec<ObjectArgument>,
    /// Whether those that do not exist are left out, because a manifest names them.
    pub is_manifest: bool,
    /// And all objects of these types that a label selector names.
    pub selected: Option<(Vec<String>, String)>,
    /// In all namespaces.
    pub everywhere: bool,
    /// How they would be deleted.
    pub policy: PropagationPolicy,
    /// Which types are listed.
    pub filter: TypeFilter,
    /// The most objects to list, besides claims, namespaces and definitions.
    pub listed: usize,
    /// The limits of the collector's brake, if they are known.
    pub brake: Option<Limits>,
}

impl Session {
    /// What happens to every object if some are deleted.
    ///
    /// # Errors
    ///
    /// There is no such object, or it cannot be read.
    pub async fn plan(&self, asked: &PlanArgument) -> Result<Answer<Plan>, InsightError> {
        let asked = &PlanArgument { filter: self.resolve(&asked.filter)?, ..asked.clone() };
        let mut lists = Lists::new(self, ViewLimits::default());
        let (roots, missing) = lists.roots(asked).await?;
        let (mut refused, mut roots): (Vec<_>, Vec<_>) = roots.into_iter().partition(Plan::is_refused);
        if roots.is_empty() {
            std::mem::swap(&mut refused, &mut roots);
        }
        // The API server refuses every update there, so little of what is planned would happen.
        let places: HashSet<&Namespace> = roots.iter().filter_map(|root| root.namespace.as_ref()).collect();
        let places = futures::stream::iter(places).map(async |place| self.namespace_named(place).await);
        places.buffer_unordered(AT_ONCE).try_for_each(async |_| Ok(())).await?;
        lists.most_reads += roots.len();
        // Dependents are in the namespace of their owner, if it has one.
        let mut places = roots.iter().map(|root| root.namespace.as_ref());
        let place =
            places.next().flatten().filter(|first| places.all(|place| place == Some(*first))).cloned();
        if !lists.has_everything {
            lists.within = match &roots[..] {
                [root] => contents_of(root).and_then(|contents| contents.namespace),
                _ => None,
            };
            lists.list(place.as_ref(), &asked.filter).await?;
        }
        let mut others = Vec::new();
        for place in 0..roots.len() {
            let (found, unseen) = self.api.goes_with(&roots, place).await;
            others.extend(found);
            lists.unseen.extend(unseen);
        }
        let query = PlanQuery { roots, policy: asked.policy, others, limit: MOST_OBJECTS };
        let mut walk = Walk::new(query);
        let mut plan = loop {
            lists.graph.walk(&mut walk);
            let plan = lists.ask(|asker| plan(asker, &walk, asked.listed)).await;
            if !walk.follow(&plan) {
                break plan;
            }
        };
        plan.refuse(&refused);
        if let Some(limits) = &asked.brake {
            let is_known = lists.has_everything && lists.knowledge.outside().is_empty();
            plan.forecast(limits, |resource| is_known.then(|| lists.graph.population(resource) as u64));
        }
        if asked.is_manifest && !missing.is_empty() {
            plan.notes.insert(0, format!("Left out: {}.", listed("; ", missing.len(), &missing)));
        }
        Ok(lists.answer(plan))
    }
}

impl Lists<'_> {
    /// The objects that would be deleted, each once, and why others are left out.
    async fn roots(&mut self, asked: &PlanArgument) -> Result<(Vec<Identity>, Vec<String>), InsightError> {
        let (mut roots, mut missing) = (Vec::new(), Vec::new());
        for object in &asked.objects {
            match self.root(object, &asked.filter).await {
                Err(error @ (InsightError::NoSuchObject(_) | InsightError::NoSuchType(_)))
                    if asked.is_manifest =>
                {
                    missing.push(error.to_string());
                }
                found => roots.push(found?),
            }
        }
        if let Some((types, selector)) = &asked.selected {
            let (mut filter, mut namespace) = (TypeFilter::default(), None);
            for of_type in types {
                let named = self.session.type_named(of_type)?;
                filter.only.push(named.group_resource.to_string());
                let has_one = named.scope == Scope::Namespaced;
                namespace =
                    namespace.or(self.session.namespace.as_ref().filter(|_| has_one && !asked.everywhere));
            }
            if let Some(namespace) = namespace {
                self.meet(namespace).await?;
            }
            roots =
                self.select(namespace, &filter, selector).await?.into_iter().map(|(root, _)| root).collect();
            roots.sort_by_cached_key(|root| ObjectName::from(root));
            let types = types.join(",");
            if roots.is_empty() && self.may_list_nothing() {
                return Err(InsightError::Forbidden(types));
            }
            missing.push(format!("no {types} has the labels {selector}"));
        }
        if roots.is_empty() {
            let why = if missing.is_empty() { "no object is named".to_owned() } else { missing.join("; ") };
            return Err(InsightError::NoSuchObject(why));
        }
        let mut known = HashSet::new();
        roots.retain(|root: &Identity| known.insert(root.clone()));
        Ok((roots, missing))
    }
}
