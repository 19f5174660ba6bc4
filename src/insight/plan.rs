//! The answer of `kube-gc plan`.

use schemars::JsonSchema;
use serde::Serialize;

use super::error::InsightError;
use super::glob::TypeFilter;
use super::lists::{Lists, Watcher};
use super::object::ObjectArgument;
use super::session::Session;
use kube_gc_core::brake::Limits;
use kube_gc_core::graph::ViewLimits;
use kube_gc_core::object::PropagationPolicy;
use kube_gc_insight::{Plan, PlanQuery, Unseen, plan};

/// The most objects that a plan looks at.
const MOST_OBJECTS: usize = 2_000_000;

/// What `kube-gc plan` asks.
#[derive(Clone, Debug)]
pub struct PlanArgument {
    /// The object.
    pub object: ObjectArgument,
    /// How it would be deleted.
    pub policy: PropagationPolicy,
    /// Which types are listed.
    pub filter: TypeFilter,
    /// The most objects to list, besides claims, namespaces and definitions.
    pub listed: usize,
    /// The limits of the collector's brake, if they are known.
    pub brake: Option<Limits>,
}

/// The answer of `kube-gc plan`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanAnswer {
    /// The plan.
    #[serde(flatten)]
    pub plan: Plan,
    /// What could not be looked at.
    pub incomplete: Vec<Unseen>,
    /// How many types were left out on request.
    pub left_out: usize,
}

impl Session {
    /// What happens to every object if one is deleted.
    ///
    /// # Errors
    ///
    /// There is no such object, or it cannot be read.
    pub async fn plan(
        &self,
        asked: &PlanArgument,
        watcher: &Watcher<'_>,
    ) -> Result<PlanAnswer, InsightError> {
        let mut lists = Lists::new(self, ViewLimits::default(), watcher);
        let root = self.root(&mut lists, &asked.object, &asked.filter, watcher).await?;
        // A uid was looked for in all lists.
        let mut is_everything_listed = true;
        if matches!(asked.object, ObjectArgument::Named { .. }) {
            is_everything_listed = root.namespace.is_none();
            lists.list(root.namespace.as_ref(), &asked.filter, watcher).await;
        }
        let walk = lists.walk(PlanQuery { root, policy: asked.policy, limit: MOST_OBJECTS });
        let mut plan = lists.ask(|asker| plan(asker, &walk, asked.listed)).await;
        let mut incomplete = std::mem::take(&mut lists.unseen);
        // What cannot be listed may have further dependents.
        plan.depends_on_unseen |= !incomplete.is_empty();
        if let Some(limits) = &asked.brake {
            let is_known = is_everything_listed && incomplete.is_empty() && lists.left_out == 0;
            plan.forecast(limits, |resource| is_known.then(|| lists.population(resource) as u64));
        }
        incomplete.extend(lists.unread());
        incomplete.sort();
        Ok(PlanAnswer { plan, incomplete, left_out: lists.left_out })
    }
}
