//! What the collector can know, as far as the driver has reported it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use kube_gc_apiserver::resources::ResourceName;

/// How long a failed list, or an unknown type, excuses what needed it: a confirmation round (rule
/// 5.8) gives slow types ten seconds twice, and then the finalizer is removed.
const EXCUSED: Duration = Duration::from_secs(120);

/// By type, for one run of the collector.
#[derive(Debug, Default)]
pub struct Knowledge {
    run: u32,
    types: BTreeMap<ResourceName, Known>,
    /// The groups that did not answer when the collector started, and when that was.
    away: BTreeMap<String, Duration>,
    /// The version of the backup from which the store was restored, as long as the collector
    /// cannot have noticed it.
    restored: Option<u64>,
}

#[derive(Debug, Default)]
struct Known {
    /// When a list was first read.
    listed: Option<Duration>,
    failed: Option<Duration>,
    /// The versions shown, and when.
    shown: VecDeque<(Duration, u64)>,
}

impl Knowledge {
    /// The number of restarts of the collector.
    pub const fn run(&self) -> u32 {
        self.run
    }

    /// A restarted collector knows nothing.
    pub fn restarted(&mut self) {
        self.run += 1;
        self.types.clear();
        self.away.clear();
        self.restored = None;
    }

    /// The store was restored from a backup of this version. Until the collector has noticed
    /// that, it is not excused by not knowing what is in the backup: it must not write at all.
    pub fn restored(&mut self, version: u64) {
        self.restored = Some(version);
        for known in self.types.values_mut() {
            known.shown.clear();
        }
    }

    /// The store was restored, and only its content shows that. The collector may forget what it
    /// remembered, and does not know yet what has come back.
    pub fn raised(&mut self) {
        self.run += 1;
        self.restored = None;
        for known in self.types.values_mut() {
            known.shown.clear();
        }
    }

    /// The collector has just started, and this group does not answer.
    pub fn away(&mut self, group: &str, now: Duration) {
        self.away.insert(group.to_owned(), now);
    }

    /// Since when the collector has known only that the group of a type exists. It has listed no
    /// type of it since its start.
    pub fn away_since(&self, resource: &ResourceName) -> Option<Duration> {
        let was_listed = self.types.get(resource).is_some_and(|known| known.listed.is_some());
        self.away.get(&*resource.group).copied().filter(|_| !was_listed)
    }

    /// Forgets a type that is no longer served.
    pub fn forget(&mut self, resource: &ResourceName) {
        self.types.remove(resource);
    }

    /// A list was read, or failed.
    pub fn listed(&mut self, resource: &ResourceName, whole: bool, now: Duration) {
        let known = self.types.entry(resource.clone()).or_default();
        if whole {
            known.listed.get_or_insert(now);
        } else {
            known.failed = Some(now);
        }
    }

    /// Whether the collector knows the type and could list it recently.
    pub fn can_list(&self, resource: &ResourceName, now: Duration) -> bool {
        let is_long_ago = |then: Duration| then + EXCUSED < now;
        let known = self.types.get(resource);
        known.is_some_and(|known| {
            known.listed.is_some_and(is_long_ago) && known.failed.is_none_or(is_long_ago)
        })
    }

    /// Changes up to a version were shown. Of the versions older than `window`, only the last one
    /// matters.
    pub fn shown(&mut self, resource: &ResourceName, version: u64, now: Duration, window: Duration) {
        let shown = &mut self.types.entry(resource.clone()).or_default().shown;
        if shown.back().is_none_or(|(_, last)| *last < version) {
            shown.push_back((now, version));
        }
        while shown.get(1).is_some_and(|(at, _)| *at + window < now) {
            shown.pop_front();
        }
    }

    /// The version up to which the collector had been shown a type's changes before then.
    pub fn shown_before(&self, resource: &ResourceName, then: Duration) -> u64 {
        let shown = self.types.get(resource).map(|known| known.shown.iter());
        let before = shown.into_iter().flatten().filter(|(at, _)| *at < then);
        before.map(|(_, version)| *version).chain(self.restored).max().unwrap_or_default()
    }
}
