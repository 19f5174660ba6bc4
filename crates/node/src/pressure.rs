//! I4 and P1: how full the file system of the images is, and when enough is free.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

use crate::rules::Pressure;
use crate::{Rule, Rules};

/// How full a file system is, by `statvfs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// All bytes.
    pub capacity: u64,
    /// The bytes that are free for everybody.
    pub available: u64,
    /// All inodes; 0 where the file system does not count them.
    pub inodes: u64,
    /// The free inodes.
    pub inodes_free: u64,
}

impl Usage {
    /// The bytes that are used.
    pub const fn used(&self) -> u64 {
        self.capacity.saturating_sub(self.available)
    }

    /// How full it is in percent, as in `GarbageCollect` of `image_gc_manager.go`: 100 minus the
    /// free percentage, rounded down. Nothing if the capacity is 0.
    pub fn percent(&self) -> Option<u8> {
        percent(self.capacity, self.available)
    }

    /// How many percent of the inodes are used, by the same rule.
    pub fn percent_of_inodes(&self) -> Option<u8> {
        percent(self.inodes, self.inodes_free)
    }
}

fn percent(all: u64, free: u64) -> Option<u8> {
    // More free than there is counts as all of it, as in the kubelet.
    let free = u128::from(free.min(all)) * 100;
    let free_percent = free.checked_div(u128::from(all))?;
    u8::try_from(100_u128.saturating_sub(free_percent)).ok()
}

/// This percentage of a number, rounded down.
fn share(all: u64, percent: u8) -> u64 {
    u64::try_from(u128::from(all) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

/// What is to be free at the end of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Goal {
    /// At least these bytes.
    pub available: u64,
    /// At least these inodes.
    pub inodes_free: u64,
    /// The rule that asks for it.
    pub rule: Rule,
}

impl Goal {
    /// Whether a file system has come so far.
    pub fn is_reached(&self, usage: &Usage) -> bool {
        usage.available >= self.available && usage.inodes_free >= self.inodes_free
    }

    /// How many bytes are missing.
    pub const fn missing_bytes(&self, usage: &Usage) -> u64 {
        self.available.saturating_sub(usage.available)
    }

    /// How many inodes are missing.
    pub const fn missing_inodes(&self, usage: &Usage) -> u64 {
        self.inodes_free.saturating_sub(usage.inodes_free)
    }

    /// What satisfies both.
    fn and(self, other: Self) -> Self {
        Self {
            available: self.available.max(other.available),
            inodes_free: self.inodes_free.max(other.inodes_free),
            rule: self.rule,
        }
    }
}

/// Whether the node is under pressure (P1): less is free than the thresholds ask for.
///
/// The kubelet's eviction manager then calls what `buildSignalToNodeReclaimFuncs` in
/// `eviction/helpers.go` names: all unused containers, then all unused images. Where both have file systems of
/// their own (KEP-4191), each goes for its own.
pub fn p1(usage: &Usage, rules: &Rules) -> Option<Goal> {
    let Pressure { bytes, inodes } = rules.pressure?;
    let goal = Goal {
        available: share(usage.capacity, bytes),
        inodes_free: share(usage.inodes, inodes),
        rule: Rule::P1,
    };
    let under_pressure = usage.available < goal.available || usage.inodes_free < goal.inodes_free;
    under_pressure.then_some(goal)
}

/// I4, `GarbageCollect` in `image_gc_manager.go`: from `high` percent on, until no more than `low`
/// percent are used. It holds for inodes, too (B7).
pub fn i4(usage: &Usage, rules: &Rules) -> Option<Goal> {
    let images = &rules.images;
    if !rules.collects_images() {
        return None;
    }
    let full = |percent: Option<u8>| percent.is_some_and(|percent| percent >= images.high);
    let bytes = full(usage.percent());
    let inodes = full(usage.percent_of_inodes());
    let free = 100_u8.saturating_sub(images.low);
    let goal = Goal {
        available: if bytes { share(usage.capacity, free) } else { 0 },
        inodes_free: if inodes { share(usage.inodes, free) } else { 0 },
        rule: Rule::I4,
    };
    (bytes || inodes).then_some(goal)
}

/// What `--free` asks for.
fn asked(usage: &Usage, rules: &Rules) -> Option<Goal> {
    let available = share(usage.capacity, rules.free?);
    let goal = Goal { available, inodes_free: 0, rule: Rule::Free };
    (usage.available < available).then_some(goal)
}

/// What a pass is to free, by all rules together: pressure first, as it names the reason.
pub fn goal(usage: &Usage, rules: &Rules) -> Option<Goal> {
    let goals = [p1(usage, rules), asked(usage, rules), i4(usage, rules)];
    goals.into_iter().flatten().reduce(Goal::and)
}

/// Why nothing has to be freed, for people.
pub fn no_goal(usage: Option<&Usage>, rules: &Rules) -> (Rule, Cow<'static, str>) {
    let Some(usage) = usage else {
        return (Rule::I4, "it is not known how full the file system is".into());
    };
    if !rules.collects_images() {
        return (Rule::I7, "`high` is 100, so images are not collected".into());
    }
    let Some(percent) = usage.percent() else {
        return (Rule::I4, "the file system claims a capacity of 0 bytes".into());
    };
    let high = rules.images.high;
    let reason = format!("unused; {percent} % of the file system is used, and images go from {high} % on");
    (Rule::I4, reason.into())
}

/// Bytes for people.
#[derive(Clone, Copy, Debug)]
pub struct Bytes(
    /// The number.
    pub u64,
);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let Self(bytes) = *self;
        let mut unit = (u128::from(bytes), "B");
        // In tenths, so that there is no floating point.
        let mut tenths = u128::from(bytes) * 10;
        for name in UNITS {
            if tenths < 10_240 {
                break;
            }
            tenths /= 1024;
            unit = (tenths, name);
        }
        match unit {
            (bytes, "B") => write!(f, "{bytes} B"),
            (tenths, unit) => write!(f, "{}.{} {unit}", tenths / 10, tenths % 10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(capacity: u64, available: u64) -> Usage {
        Usage { capacity, available, inodes: 0, inodes_free: 0 }
    }

    #[test]
    fn i4_usage_is_a_hundred_minus_the_free_percentage_rounded_down() {
        assert_eq!(usage(1000, 150).percent(), Some(85));
        assert_eq!(usage(1000, 159).percent(), Some(85));
        assert_eq!(usage(1000, 160).percent(), Some(84));
        assert_eq!(usage(1000, 2000).percent(), Some(0));
        assert_eq!(usage(0, 0).percent(), None);
        assert_eq!(usage(u64::MAX, u64::MAX).percent(), Some(0));
        assert_eq!(usage(u64::MAX, 0).percent(), Some(100));
    }

    #[test]
    fn inodes_count_as_bytes_do() {
        let full = Usage { inodes: 1000, inodes_free: 150, ..usage(1000, 900) };
        let goal = i4(&full, &Rules::default()).unwrap();
        assert_eq!((goal.available, goal.inodes_free), (0, 200));
        assert_eq!(full.percent_of_inodes(), Some(85));
        assert_eq!(usage(1, 1).percent_of_inodes(), None);
    }

    #[test]
    fn p1_pressure_is_on_below_its_thresholds_and_off_by_default() {
        assert_eq!(p1(&usage(1000, 0), &Rules::default()), None);
        let rules = Rules { pressure: Some(Pressure::default()), ..Rules::default() };
        assert_eq!(p1(&usage(1000, 150), &rules), None);
        let goal = p1(&usage(1000, 149), &rules).unwrap();
        assert!(goal.is_reached(&usage(1000, 150)) && !goal.is_reached(&usage(1000, 149)));
        let few_inodes = Usage { inodes: 1000, inodes_free: 49, ..usage(1000, 900) };
        assert_eq!(p1(&few_inodes, &rules).unwrap().missing_inodes(&few_inodes), 1);
    }

    #[test]
    fn all_goals_hold_together() {
        let rules = Rules { pressure: Some(Pressure::default()), free: Some(30), ..Rules::default() };
        let goal = goal(&usage(1000, 100), &rules).unwrap();
        assert_eq!((goal.available, goal.rule), (300, Rule::P1));
        let rules = Rules { free: Some(30), ..Rules::default() };
        assert_eq!(super::goal(&usage(1000, 200), &rules).unwrap().rule, Rule::Free);
        assert_eq!(super::goal(&usage(1000, 300), &rules), None);
    }

    #[test]
    fn bytes_have_units() {
        let shown = [0, 1023, 1024, 1536, 5 << 30, u64::MAX].map(|bytes| Bytes(bytes).to_string());
        assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "5.0 GiB", "15.9 EiB"]);
    }
}
