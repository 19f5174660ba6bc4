//! Whether anything is left to do, in all, in a namespace or below an owner.

use std::sync::Arc;

use kube_gc_controller::actors::graph_handle::PartitionEnded;
use kube_gc_controller::actors::pool::{AskPool, Only, PoolStatus};
use kube_gc_core::graph::Below;
use kube_gc_core::object::{GroupResource, Key, Namespace};
use kube_gc_observe::telemetry::Queue;

use super::queries::IdleQuery;
use super::status::{CollectorStatus, counts};
use super::view::IdleReport;

/// The number of pools.
const POOLS: usize = Queue::POOLS.len();

/// Whether versions of a type will be seen.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sought {
    /// This type is watched.
    Watched(GroupResource),
    /// It may be watched soon.
    Coming,
    /// The last discovery has not shown it.
    Unserved,
    /// They will never be, for this reason.
    Never(String),
}

impl CollectorStatus {
    /// Whether versions of a type will be seen. The group may be left out if only one type has this plural.
    pub(super) fn sought(&self, resource: &GroupResource) -> Sought {
        let meant = self.registry.meant(resource);
        match &meant[..] {
            [meant] => return Sought::Watched(meant.clone()),
            [one, another, ..] => {
                let why = format!("{resource} may mean {one} or {another}; name the group, too");
                return Sought::Never(why);
            }
            [] => {}
        }
        if self.unwatched.iter().any(|unwatched| resource.may_mean(unwatched)) {
            return Sought::Never(format!("the collector ignores {resource} (`discovery.ignored`)"));
        }
        let discovery = self.discovery.borrow();
        let may_be_hidden = discovery.failing.iter().any(|failing| failing.may_hide(resource));
        // The monitor of a type that was discovered just now is about to start.
        let mut watchable = discovery.discovered.iter().flat_map(|discovered| &discovered.watchable);
        let is_about_to_be = watchable.any(|watchable| resource.may_mean(&watchable.resource.group_resource));
        let may_come = discovery.discovered.is_none() || may_be_hidden || is_about_to_be;
        if may_come || !self.is_collecting() { Sought::Coming } else { Sought::Unserved }
    }

    /// Whether the collector has seen these versions and has nothing left to do.
    ///
    /// The order matters: first the monitors, then the graph, then the pools. Changes that a
    /// monitor reports as applied are in the graph, and keys that follow from them are in a pool.
    /// Terminating namespaces are around all of it: their events come before those of the graph, and
    /// the graph expects what the work on them writes before that work ends.
    pub async fn idleness(&self, query: &IdleQuery) -> IdleReport {
        let changes = self.registry.terminating().changes();
        let mut reasons = self.unsettled(query);
        let (mut not_seen, mut unknown) = (Vec::new(), None);
        for (resource, version) in &query.seen {
            match self.sought(resource) {
                Sought::Watched(meant) if self.registry.has_applied(&meant, version) => continue,
                Sought::Watched(_) => {}
                Sought::Never(why) => unknown = Some(why),
                Sought::Coming | Sought::Unserved => reasons.push(not_watched(resource)),
            }
            not_seen.push((resource.clone(), version.clone()));
        }
        let left = self.work_left(query, changes, &mut reasons, &mut unknown).await;
        let (pools, unseen_writes) = left.unwrap_or_else(|error| {
            reasons.push(error.to_string());
            (Vec::new(), 0)
        });
        reasons.extend(unknown.clone());
        let queues = pools.iter().map(|(queue, status)| (queue.name().to_owned(), counts(status))).collect();
        let report = IdleReport::judge(query, queues, unseen_writes, &not_seen, reasons);
        IdleReport { unknown, ..report }
    }

    /// The pools, and how many own writes the watches have not shown.
    ///
    /// The pools are asked before the graph, too: no worker may have ended its work after the graph was
    /// asked, because the graph did not expect the event of its write yet. Only the graph knows the keys
    /// below an owner, so it is asked twice: work on one that came and ended meanwhile changes the answer.
    async fn work_left(
        &self,
        query: &IdleQuery,
        changes: u64,
        reasons: &mut Vec<String>,
        unknown: &mut Option<String>,
    ) -> Result<(Vec<(Queue, PoolStatus)>, usize), PartitionEnded> {
        let (only, below) = self.concern(query).await?;
        let ask = AskPool { only: only.clone(), ..AskPool::default() };
        let before = self.ask_pools(ask.clone()).await;
        let unseen = if let Some(only) = only.clone() {
            self.graph.ask_all(move |graph, _| graph.unseen_writes_in(&only.namespaces)).await?
        } else {
            self.partitions().await?.iter().map(|partition| partition.stats.unseen_writes).collect()
        };
        let unseen_writes = below.unseen_writes + unseen.into_iter().sum::<usize>();
        // Whatever the graph was told before is applied now, and the keys that follow from it are in a pool.
        self.graph.fence().await?;
        if let Some(owner) = &query.owner {
            if below.is_cut_off {
                reasons.push("too many objects are below the owner; ask for its namespace".to_owned());
            }
            if self.graph.below(owner).await? != below {
                reasons.push("objects below the owner changed during the look".to_owned());
            }
            if below.keys.is_empty() && !owner.is_usual() && self.is_collecting() {
                *unknown = Some(format!(
                    "{:?} is no uid of an object; pass metadata.uid of the owner",
                    owner.shown()
                ));
            }
        }
        let pools = self.ask_pools(ask).await;
        if !rested(&before, &pools) {
            reasons.push("workers were at work during the look".to_owned());
        }
        if self.finishes(only.as_deref()).await? || self.registry.terminating().changes() != changes {
            reasons.push("namespaces, or claims and volumes, are being finished".to_owned());
        }
        Ok((pools, unseen_writes))
    }

    /// The keys that concern who asks, `None` for all, and what is below an owner.
    async fn concern(&self, query: &IdleQuery) -> Result<(Option<Arc<Only>>, Below), PartitionEnded> {
        let (mut only, mut below) = (Only::default(), Below::default());
        if let Some(owner) = &query.owner {
            below = self.graph.below(owner).await?;
            only.keys = below.keys.iter().map(|(key, _)| key.clone()).collect();
            // A namespace goes when its content has.
            let is_namespace =
                |key: &&Key| key.resource.group_resource == GroupResource::new("", "namespaces");
            let namespaces: Vec<Key> = only.keys.iter().filter(is_namespace).cloned().collect();
            let named = self.graph.identify_all(&namespaces).await?.into_iter().flatten();
            only.namespaces = named.map(|namespace| Namespace::parse(&namespace.name)).collect();
        } else if let Some(namespace) = &query.namespace {
            // Objects without a namespace may have dependents in any.
            only.namespaces = [None, Some(namespace.clone())].into();
        } else {
            return Ok((None, below));
        }
        Ok((Some(Arc::new(only)), below))
    }

    /// Whether there is work on terminating namespaces, claims or volumes that concerns who asks about these
    /// keys. That on claims and volumes may concern everybody, and that on a namespace with dependents every
    /// namespace.
    async fn finishes(&self, only: Option<&Only>) -> Result<bool, PartitionEnded> {
        for (of, uid) in self.registry.terminating().busy() {
            let (Some(only), Some(name), Some(uid)) = (only, of.namespace(), uid) else { return Ok(true) };
            let is_of_namespace = only.namespaces.contains(&None);
            if only.touches(name) || (is_of_namespace && self.graph.below(&uid).await?.keys.len() > 1) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What is still starting or stopping.
    fn unsettled(&self, IdleQuery { namespace, owner, .. }: &IdleQuery) -> Vec<String> {
        let mut reasons = Vec::new();
        let is_all = namespace.is_none() && owner.is_none();
        for monitor in self.registry.all() {
            let resource = &monitor.resource.group_resource;
            if monitor.draining {
                reasons.push(format!("{resource} is being drained"));
            } else if !monitor.synced && monitor.last_error.is_none() {
                reasons.push(format!("{resource} is not synced yet"));
            }
        }
        // Changes of other objects, and new types, may always be under way. That those that matter have been
        // applied, the versions in the query show.
        let changes = if is_all { self.graph_queue.len() } else { 0 };
        if changes > 0 {
            reasons.push(format!("{changes} changes have not been applied to the graph yet"));
        }
        if is_all && self.discovery.borrow().busy {
            reasons.push("discovery is in progress".to_owned());
        }
        if !self.is_collecting() {
            reasons.push("the workers have not started".to_owned());
        }
        reasons
    }
}

/// Why versions of a type are not seen.
pub(super) fn not_watched(resource: &GroupResource) -> String {
    format!("no type {resource} is watched; a type is named RESOURCE.GROUP, in the plural")
}

/// Whether no worker worked between two looks at the pools. Each start of a worker follows the
/// addition of a key, or the end of a delay.
fn rested(before: &[(Queue, PoolStatus)], after: &[(Queue, PoolStatus)]) -> bool {
    let began = |pools: &[(Queue, PoolStatus)]| -> Vec<_> {
        pools.iter().map(|(_, status)| (status.adds, status.sample.delayed + status.sample.parked)).collect()
    };
    let is_at_rest = |(_, status): &(Queue, PoolStatus)| status.sample.ready + status.sample.processing == 0;
    before.len() == POOLS
        && after.len() == POOLS
        && before.iter().all(is_at_rest)
        && began(before) == began(after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_gc_observe::telemetry::QueueSample;

    /// The answer to a DELETE may come after the graph was asked and before the pools are.
    #[test]
    fn a_worker_that_ended_its_work_during_a_look_counts_as_busy() {
        let look = |delete: PoolStatus| -> Vec<_> {
            Queue::POOLS
                .into_iter()
                .map(|queue| {
                    (
                        queue,
                        if queue == Queue::AttemptToDelete { delete.clone() } else { PoolStatus::default() },
                    )
                })
                .collect()
        };
        let at_rest = look(PoolStatus { adds: 1, ..PoolStatus::default() });
        assert!(rested(&at_rest, &at_rest));
        let at_work = QueueSample { processing: 1, ..QueueSample::default() };
        let at_work = look(PoolStatus { adds: 1, sample: at_work, ..PoolStatus::default() });
        assert!(!rested(&at_work, &at_rest), "it was in progress");
        let more = look(PoolStatus { adds: 2, ..PoolStatus::default() });
        assert!(!rested(&at_rest, &more), "it was queued and done in between");
        let delayed = QueueSample { delayed: 1, ..QueueSample::default() };
        let delayed = look(PoolStatus { adds: 1, sample: delayed, ..PoolStatus::default() });
        assert!(!rested(&delayed, &at_rest), "of single keys, additions are not counted");
        assert!(!rested(&at_rest, &[]), "a pool has ended");
    }
}
