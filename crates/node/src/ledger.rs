//! How long ago an image was first seen and last used: what has to survive a restart (B4).
//!
//! A ledger counts time by itself, as far as the boot-time clock has shown that it passes. The time of day is no
//! measure: a host without a battery for its clock boots in 1970.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::mutation::{self, Mutation};
use crate::plan::Candidate;
use crate::users::Users;
use crate::view::{Extent, Image};
use crate::{Moment, PodView, RuntimeView, Timestamp};

/// The version that this program writes. Version 1 had times of day, which nobody can trust.
const VERSION: u32 = 2;
/// The most images that a ledger may have. No node has nearly so many.
const MOST: usize = 100_000;
/// How precisely the state file has its time and the last use of an image. A file that is written in each pass
/// would wear out flash memory.
const PRECISION: i64 = 300_000_000_000;
/// By how much the time of day may differ from the boot-time clock before it counts as set.
const TOLERANCE: Duration = Duration::from_secs(1);
/// No host counts for so long: a hundred years.
const LONGEST_LIFE: i64 = 100 * 365 * 86_400 * 1_000_000_000;
/// The longest state file, in bytes.
pub const LONGEST: usize = 32 << 20;

/// The ages of the images, by [`crate::view::Image::key`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    /// How long the ledger has counted. All its moments are by this.
    time: Timestamp,
    /// By which clock it has counted last.
    last: Option<Last>,
    /// When somebody set the time of day forward.
    set_forward: Option<Timestamp>,
    images: BTreeMap<String, Record>,
}

/// A boot, and how long ago it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Last {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boot: Option<String>,
    uptime: Timestamp,
    /// The time of day of the boot, by both clocks: it changes only if somebody sets the time of day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    booted: Option<Timestamp>,
}

/// The moments of an image.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    first_detected: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_used: Option<Timestamp>,
}

/// The age of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Age {
    /// How long ago it was first seen on the node.
    pub detected: Duration,
    /// How long ago it was last seen in use; nothing if it never was.
    pub used: Option<Duration>,
}

impl Age {
    /// How long it has been unused: since the later of its detection and its last use (B8).
    pub fn unused(self) -> Duration {
        self.used.map_or(self.detected, |used| used.min(self.detected))
    }
}

/// The content of `state.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored<M> {
    version: u32,
    time: Timestamp,
    last: Option<Last>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    set_forward: Option<Timestamp>,
    images: M,
}

/// Why a state file cannot be used. The caller warns and begins with an empty ledger.
#[derive(Debug, thiserror::Error)]
pub enum Damaged {
    /// Not what this program writes.
    #[error("the state file is damaged: {0}")]
    Syntax(#[from] serde_json::Error),
    /// From a later version of this program.
    #[error("the state file has version {0}, and this program knows only version {VERSION}")]
    Version(u32),
    /// Far more than a node can have.
    #[error("the state file is too large: {0}")]
    TooLarge(String),
    /// With moments that no pass has seen.
    #[error("the state file has moments that cannot be")]
    Impossible,
}

impl Ledger {
    /// Reads the content of a state file.
    ///
    /// # Errors
    /// If it is damaged, too large, impossible, or of another version.
    pub fn parse(content: &[u8]) -> Result<Self, Damaged> {
        /// Only the version, whatever else a later one may say.
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }

        if content.len() > LONGEST {
            return Err(Damaged::TooLarge(format!("{} bytes", content.len())));
        }
        let Versioned { version } = serde_json::from_slice(content)?;
        if version != VERSION {
            return Err(Damaged::Version(version));
        }
        let stored: Stored<BTreeMap<String, Record>> = serde_json::from_slice(content)?;
        let Stored { time, last, set_forward, images, .. } = stored;
        if images.len() > MOST {
            return Err(Damaged::TooLarge(format!("{} images", images.len())));
        }
        let mut clocks = [Some(time), last.as_ref().map(|last| last.uptime)].into_iter().flatten();
        let moments = images.values().flat_map(|record| [Some(record.first_detected), record.last_used]);
        let mut moments = moments.flatten().chain(set_forward);
        // The time is rounded down, and last uses are rounded up.
        let latest = time.nanos().saturating_add(PRECISION);
        let is_in = |moment: Timestamp, latest| (0..=latest).contains(&moment.nanos());
        if !clocks.all(|clock| is_in(clock, LONGEST_LIFE)) || !moments.all(|moment| is_in(moment, latest)) {
            return Err(Damaged::Impossible);
        }
        Ok(Self { time, last, set_forward, images })
    }

    /// The content of a state file: the same until there is something that is worth writing.
    ///
    /// # Errors
    /// Never in practice: there is nothing in it that JSON lacks.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        // By the boot-time clock, as all processes round: what one has rounded is no earlier and no later to another.
        let beyond = |moment: Timestamp| moment.nanos().saturating_sub(self.boot()).rem_euclid(PRECISION);
        // Rather later than it was, so that no image is taken for older.
        let up = |moment: Timestamp| {
            let lacking = (PRECISION - beyond(moment)) % PRECISION;
            Timestamp::from_nanos(moment.nanos().saturating_add(lacking))
        };
        // Both clocks are set back by as much, so they still belong together.
        let back = Duration::from_nanos(beyond(self.time).min(self.time.nanos()).unsigned_abs());
        let last = self.last.as_ref();
        let last = last.map(|last| Last { uptime: last.uptime.minus(back), ..last.clone() });
        let images = self
            .images
            .iter()
            .map(|(key, record)| (key, Record { last_used: record.last_used.map(up), ..*record }));
        let images: BTreeMap<&String, Record> = images.collect();
        let (time, set_forward) = (self.time.minus(back), self.set_forward.map(up));
        serde_json::to_vec(&Stored { version: VERSION, time, last, set_forward, images })
    }

    /// Enters what is seen now: new images, and which ones are used. Forgets images that are gone,
    /// unless the list of images is incomplete.
    pub fn observe(&mut self, runtime: &RuntimeView, pods: &PodView, now: &Moment) {
        self.count(now);
        let users = Users::of(runtime, pods);
        let now = self.time;
        let mut next = BTreeMap::new();
        if runtime.images_extent == Extent::Slice {
            next.clone_from(&self.images);
        }
        for image in runtime.images.iter().filter(|image| !image.id.is_empty()) {
            let key = image.key();
            let known = next.get(&*key).or_else(|| self.images.get(&*key));
            if known.is_none() && next.len() >= MOST {
                continue;
            }
            let mut record = known.copied().unwrap_or(Record { first_detected: now, last_used: None });
            record.last_used = users.user(image).is_some().then_some(now).or(record.last_used);
            next.insert(key.into_owned(), record);
        }
        self.images = next;
    }

    /// Goes on by what has certainly passed: the difference of the boot-time clock, or, if this is another boot,
    /// how long ago that was. What the host was switched off for does not count.
    fn count(&mut self, now: &Moment) {
        let uptime = Timestamp::default().plus(now.uptime);
        let is_other_boot = self
            .last
            .as_ref()
            .is_some_and(|last| matches!((&last.boot, &now.boot), (Some(last), Some(now)) if last != now));
        let passed = match &self.last {
            None => Duration::ZERO,
            Some(_) if is_other_boot => now.uptime,
            Some(last) => last.uptime.age(uptime).unwrap_or_default(),
        };
        // Who looks may have read its clock before another process was heard of.
        let last = self.last.as_ref().filter(|last| last.boot.is_some() && last.boot == now.boot);
        let uptime = last.map_or(uptime, |last| last.uptime.max(uptime));
        let mut booted = now.wall.minus(now.uptime);
        let known = self.last.as_ref().and_then(|last| last.booted).filter(|_| !is_other_boot);
        let ahead = known.and_then(|known| known.age(booted)).unwrap_or_default();
        self.time = self.time.plus(passed);
        if mutation::is(Mutation::TrustTimeOfDay) {
            self.time = self.time.plus(ahead);
        }
        if ahead > TOLERANCE {
            self.set_forward = Some(self.time);
        } else if let Some(known) = known.filter(|known| booted.plus(TOLERANCE) >= *known) {
            // The clocks are not read at the same moment. So the state file does not differ each time.
            booted = known;
        }
        self.last = Some(Last { boot: now.boot.clone(), uptime, booted: Some(booted) });
    }

    /// For how long nobody has set the time of day forward, as far as passes have seen.
    pub fn steady(&self) -> Duration {
        let set_forward = self.set_forward.filter(|_| !mutation::is(Mutation::ClockIsSteady));
        set_forward.map_or(Duration::MAX, |moment| moment.age(self.time).unwrap_or_default())
    }

    /// What is known of the age of an image.
    pub fn age(&self, key: &str) -> Option<Age> {
        let ago = |moment: Timestamp| moment.age(self.time).unwrap_or_default();
        let Record { first_detected, last_used } = self.images.get(key)?;
        Some(Age { detected: ago(*first_detected), used: last_used.map(ago) })
    }

    /// The moment of the last boot, by its own time.
    fn boot(&self) -> i64 {
        self.time.nanos().saturating_sub(self.last.as_ref().map_or(0, |last| last.uptime.nanos()))
    }

    /// How far it has come in this boot; nothing if it is of another one.
    fn uptime_in(&self, now: &Moment) -> Option<Timestamp> {
        let last = self.last.as_ref()?;
        (last.boot.is_some() && last.boot == now.boot).then_some(last.uptime)
    }

    /// A copy that this boot can have come to by now.
    ///
    /// # Errors
    /// It is of a moment that has not come yet.
    pub fn until(self, now: &Moment) -> Result<Self, Damaged> {
        let is_ahead = self.uptime_in(now) > Some(Timestamp::default().plus(now.uptime));
        if is_ahead { Err(Damaged::Impossible) } else { Ok(self) }
    }

    /// What several copies say of the ages. How long one has counted says nothing: it may have begun anew. Of those
    /// of this boot, the newest counts. Where no clock tells which one that is, an image is as young as any of them
    /// says.
    pub fn newest(mut copies: Vec<Self>, now: &Moment) -> Option<Self> {
        if let Some(newest) = copies.iter().filter_map(|copy| copy.uptime_in(now)).max() {
            // A copy has its uptime rounded down.
            let earliest = newest.minus(Duration::from_nanos(PRECISION.unsigned_abs()));
            copies.retain(|copy| copy.uptime_in(now) >= Some(earliest));
        }
        copies.sort_by_key(|copy| copy.last.as_ref().map(|last| last.uptime));
        copies.into_iter().rev().reduce(|one, other| one.merged(&other))
    }

    /// The same with what another process has seen meanwhile: an image is as young as either says.
    pub fn joined(mut self, other: &Self, now: &Moment) -> Self {
        self.count(now);
        self.merged(other)
    }

    /// The images that both know, with the later first sight and the later last use. One that either does not know may
    /// have been pulled since.
    fn merged(mut self, other: &Self) -> Self {
        let boot = |ledger: &Self| ledger.last.as_ref().and_then(|last| last.boot.clone());
        // The one may be older than the other. In one boot, a clock tells by how much.
        let ahead = match (boot(&self), boot(other)) {
            (Some(one), Some(another)) if one == another => self.boot().saturating_sub(other.boot()),
            _ => self.time.nanos().saturating_sub(other.time.nanos()),
        };
        // The same moment by the time of this one.
        let latest = self.time;
        let here = |moment: Timestamp| {
            Timestamp::from_nanos(moment.nanos().saturating_add(ahead)).clamp(Timestamp::default(), latest)
        };
        self.set_forward = self.set_forward.max(other.set_forward.map(here));
        self.images.retain(|key, record| {
            let Some(known) = other.images.get(key) else { return false };
            record.first_detected = record.first_detected.max(here(known.first_detected));
            record.last_used = record.last_used.max(known.last_used.map(here));
            true
        });
        self
    }

    /// Sets the age of an image. If the ledger has not counted for so long, it has from now on, and all else is as old
    /// as before.
    pub fn set(&mut self, key: &str, age: Age) {
        let least = Timestamp::default().plus(age.detected.max(age.used.unwrap_or_default()));
        let lacking = self.time.age(least).unwrap_or_default();
        let moments = self.images.values_mut().flat_map(|Record { first_detected, last_used }| {
            [Some(first_detected), last_used.as_mut()].into_iter().flatten()
        });
        for moment in moments.chain([&mut self.time]).chain(&mut self.set_forward) {
            *moment = moment.plus(lacking);
        }
        let ago = |age: Duration| self.time.minus(age);
        let record = Record { first_detected: ago(age.detected), last_used: age.used.map(ago) };
        self.images.insert(key.to_owned(), record);
    }

    /// Forgets an image that was removed. If it is pulled again before the next look, it is new.
    pub fn forget(&mut self, removed: &Candidate) {
        if let Some(key) = removed.image_key().filter(|_| !mutation::is(Mutation::KeepAgeOfRemoved)) {
            self.images.remove(&*key);
        }
    }

    /// Forgets what a whole list of images lacks. If it is pulled again before the next look, it is new.
    pub fn retain(&mut self, images: &[Image]) {
        let listed: HashSet<_> = images.iter().map(Image::key).collect();
        self.images.retain(|key, _| listed.contains(key.as_str()));
    }

    /// How many images are known.
    pub fn len(&self) -> usize {
        self.images.len()
    }

    /// Whether no image is known.
    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
    }
}

#[cfg(test)]
mod tests;
