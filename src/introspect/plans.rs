//! Plans of deletions, from the graph of the running collector.

use std::collections::{HashMap, VecDeque};

use crate::actors::graph_handle::PartitionEnded;
use crate::http::{PlanPage, PlanRequest};
use crate::introspect::questions::{Freshness, Questions};
use crate::worker::brake::Brake;
use kube_gc_core::graph::{MemberMark, MembersOf, PartitionId, ViewLimits};
use kube_gc_core::object::{GroupResource, Identity};
use kube_gc_insight::{Forecast, PlanQuery, Walk, plan};

/// The most objects that a plan looks at. Each takes a few hundred bytes until the plan is made.
const MOST_OBJECTS: usize = 500_000;
/// The references or slots that a partition visits at a time: about 2 ms.
const VISITS: usize = 4_000;
/// The questions that a partition gets at a time.
const QUESTIONS: usize = 256;

impl Questions {
    /// The plan of a deletion, and what this brake would do.
    ///
    /// # Errors
    /// When a partition has ended.
    pub async fn plan(
        &self,
        root: Identity,
        request: &PlanRequest,
        brake: &Brake,
    ) -> Result<PlanPage, PartitionEnded> {
        let query = PlanQuery { root, policy: request.policy, limit: MOST_OBJECTS };
        let is_held = brake.holds(query.root.namespace.as_ref()).is_some();
        let walk = self.walk(query).await?;
        let (mut plan, incomplete) = self
            .ask(ViewLimits::default(), Freshness::Now, |asker| plan(asker, &walk, request.limit))
            .await?;
        let limits = brake.limits();
        let mut populations: HashMap<GroupResource, u64> = HashMap::new();
        if limits.share.is_some() {
            for (resource, _) in &plan.by_collector {
                let population = self.graph().population(resource).await?;
                populations.insert(resource.clone(), population as u64);
            }
        }
        plan.forecast(limits, |resource| populations.get(resource).copied());
        if is_held && let Some(why) = brake.warning() {
            plan.brake = Forecast::Engages { why };
        }
        Ok(PlanPage { plan, incomplete, left_out: 0 })
    }

    /// Walks to the end, with small questions to the partitions.
    async fn walk(&self, query: PlanQuery) -> Result<Walk, PartitionEnded> {
        let mut walk = Walk::new(query);
        loop {
            let needs = walk.needs();
            if needs.is_empty() {
                break;
            }
            let mut by_partition: HashMap<PartitionId, VecDeque<(MembersOf, Option<MemberMark>)>> =
                HashMap::new();
            for need in needs {
                for partition in self.graph().partitions_with(&need) {
                    by_partition.entry(partition).or_default().push_back((need.clone(), None));
                }
            }
            for (partition, mut questions) in by_partition {
                while !questions.is_empty() {
                    let asked = questions.iter().take(QUESTIONS).cloned().collect();
                    let pages = self.graph().members(partition, asked, VISITS).await?;
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
}
