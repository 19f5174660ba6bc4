//! Warning events about objects that stay stuck, for people who look at them with kubectl.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::NamedStuck;
use crate::introspect::status::CollectorStatus;
use kube_gc_client::{Api, EventType};
use kube_gc_controller::actors::graph_handle::PartitionEnded;
use kube_gc_core::object::{Identity, Uid};
use kube_gc_observe::telemetry::StuckReason;

/// The longest time between two looks at what is stuck.
const LOOKS_EVERY: Duration = Duration::from_secs(30);
/// The shortest time between two looks.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// When an event about the same object is sent again. By default, an API server keeps events for
/// an hour.
const AGAIN_AFTER: Duration = Duration::from_secs(3600);
/// The most objects that are looked at for each reason.
const LOOKED_AT: usize = 1000;
/// The most of these in one namespace, so that no tenant hides the objects of another.
const IN_A_NAMESPACE: usize = 16;
/// The most events after one look.
const AT_ONCE: usize = 20;

/// What people see as the reason of the event, and the beginning of its message.
const fn wording(reason: StuckReason) -> Option<(&'static str, &'static str)> {
    match reason {
        StuckReason::Blocked => Some(("ForegroundDeletionBlocked", "its foreground deletion has to wait")),
        StuckReason::Denied => {
            Some(("GarbageCollectionDenied", "the API server denies a write of the garbage collector"))
        }
        StuckReason::Unresolved | StuckReason::NotObserved => {
            Some(("OwnerRefUnresolved", "the garbage collector cannot resolve an owner of this object"))
        }
        StuckReason::Conflict
        | StuckReason::Failed
        | StuckReason::Throttled
        | StuckReason::Panicked
        | StuckReason::Orphaning
        | StuckReason::InvalidScope
        | StuckReason::UnseenWrite
        | StuckReason::Braked
        | StuckReason::Deferred
        | StuckReason::Held => None,
    }
}

/// Sends warning events until the collector ends. Objects count that have been stuck for `after`.
pub async fn warn(collector: CollectorStatus, api: Api, after: Duration, ending: CancellationToken) {
    let mut looks = interval(after.clamp(SHORTEST_PAUSE, LOOKS_EVERY));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut recent = RecentWarnings::default();
    let warning = async {
        loop {
            looks.tick().await;
            if look(&collector, &api, after, &mut recent).await.is_err() {
                // A part of the collector has ended, and the process is about to.
                return;
            }
        }
    };
    ending.run_until_cancelled(warning).await;
}

async fn look(
    collector: &CollectorStatus,
    api: &Api,
    after: Duration,
    recent: &mut RecentWarnings,
) -> Result<(), PartitionEnded> {
    if collector.is_standby() {
        return Ok(());
    }
    let mut stuck = Vec::new();
    for reason in StuckReason::ALL.into_iter().filter(|reason| wording(*reason).is_some()) {
        let named = collector.named_stuck(reason, LOOKED_AT, IN_A_NAMESPACE, after).await?;
        stuck.extend(named.into_iter().filter(|object| object.waited >= after));
    }
    for object in recent.due(stuck, Instant::now()) {
        if !send(api, &object).await {
            recent.forget(&object);
        }
    }
    Ok(())
}

/// Sends the event. False if it could not be recorded now, and may be later.
async fn send(api: &Api, stuck: &NamedStuck) -> bool {
    let Some((reason, beginning)) = wording(stuck.reason) else { return true };
    let message = format!("{beginning}: {}", stuck.message);
    api.has_told(&stuck.object, EventType::Warning, reason, &message).await
}

/// The events that were sent about objects that are still stuck.
#[derive(Debug, Default)]
struct RecentWarnings(HashMap<(Uid, StuckReason), Instant>);

impl RecentWarnings {
    /// The objects about which an event is due, those that are stuck longest first. What is no
    /// longer stuck is forgotten, which bounds the memory.
    fn due(&mut self, mut stuck: Vec<NamedStuck>, now: Instant) -> Vec<NamedStuck> {
        let before = std::mem::take(&mut self.0);
        stuck.sort_by(|a, b| b.waited.cmp(&a.waited).then_with(|| a.object.uid.cmp(&b.object.uid)));
        let mut due = Vec::new();
        for object in stuck {
            let key = Self::key(&object.object, object.reason);
            match before.get(&key) {
                Some(at) if now.saturating_duration_since(*at) < AGAIN_AFTER => {
                    self.0.insert(key, *at);
                }
                Some(_) | None if due.len() < AT_ONCE => {
                    self.0.insert(key, now);
                    due.push(object);
                }
                Some(_) | None => {}
            }
        }
        due
    }

    fn forget(&mut self, stuck: &NamedStuck) {
        self.0.remove(&Self::key(&stuck.object, stuck.reason));
    }

    fn key(object: &Identity, reason: StuckReason) -> (Uid, StuckReason) {
        (object.uid.clone(), reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_gc_core::object::config_map;

    fn stuck(number: usize, waited: u64) -> NamedStuck {
        NamedStuck {
            object: config_map("ns", &format!("object-{number}"), &format!("u{number}")),
            reason: StuckReason::Blocked,
            waited: Duration::from_secs(waited),
            message: "something".to_owned(),
        }
    }

    fn names(due: &[NamedStuck]) -> Vec<&str> {
        due.iter().map(|stuck| &*stuck.object.name).collect()
    }

    #[test]
    fn one_event_an_hour_is_due_about_each_object_and_reason() {
        let (mut recent, now) = (RecentWarnings::default(), Instant::now());
        let both = || vec![stuck(1, 10), stuck(2, 20)];
        assert_eq!(names(&recent.due(both(), now)), ["object-2", "object-1"]);
        assert!(recent.due(both(), now + AGAIN_AFTER / 2).is_empty());
        let other = NamedStuck { reason: StuckReason::Denied, ..stuck(1, 10) };
        assert_eq!(recent.due(vec![other, stuck(1, 10)], now + AGAIN_AFTER / 2).len(), 1);
        assert_eq!(names(&recent.due(both(), now + AGAIN_AFTER)), ["object-2", "object-1"]);
    }

    #[test]
    fn few_events_are_due_at_a_time_and_the_others_follow() {
        let (mut recent, now) = (RecentWarnings::default(), Instant::now());
        let all = || (0..AT_ONCE + 3).map(|number| stuck(number, 10)).collect();
        assert_eq!(recent.due(all(), now).len(), AT_ONCE);
        assert_eq!(recent.due(all(), now).len(), 3);
        assert_eq!(recent.due(all(), now).len(), 0);
    }

    #[test]
    fn what_was_not_sent_is_due_again_and_what_is_done_is_forgotten() {
        let (mut recent, now) = (RecentWarnings::default(), Instant::now());
        recent.due(vec![stuck(1, 10)], now);
        recent.forget(&stuck(1, 10));
        assert_eq!(recent.due(vec![stuck(1, 10)], now).len(), 1);
        assert!(recent.due(Vec::new(), now).is_empty() && recent.0.is_empty());
        assert_eq!(recent.due(vec![stuck(1, 10)], now).len(), 1);
    }
}
