//! One pass: what happens while a plan is carried out.
//!
//! A pass asks for one step after the other and is told what came of each. It never does anything
//! itself, so tests can let it meet any failure at any step.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use serde::ser::{Serialize, SerializeStruct as _, Serializer};
use strum::EnumCount as _;

use crate::mutation::{self, Mutation};
use crate::plan::{Candidate, Plan, What, is_for_space};
use crate::pressure::{Goal, Usage};
use crate::recheck::Refusal;
use crate::rules::Effects;
use crate::view::{ContainerDisk, Image};

/// How many candidates may be removed at the same time.
pub const AT_A_TIME: usize = 8;
/// How long the file system has to show that an image has gone (B3).
pub const PATIENCE: Duration = Duration::from_secs(2);
/// How long it has to show that the layers of containers have: containerd removes them later, by itself.
pub const PATIENCE_FOR_LAYERS: Duration = Duration::from_secs(10);

/// What a pass is about; containers and images have periods of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    All,
    /// Containers, sandboxes and logs.
    Containers,
    /// Images.
    Images,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Remove these, and tell the pass with [`Pass::record`]. They are of one kind, at most
    /// [`AT_A_TIME`], and none depends on another, so they may be removed at the same time. An image is
    /// alone, because what uses it is listed right before (B2).
    ///
    /// Each is looked at again first, by [`crate::still_removable`]. After an image, the pass is told with
    /// [`Pass::listed`] which images there are. If nothing can be listed, end it.
    Remove(Vec<Candidate>),
    /// Measure the file system of the images, and tell the pass with [`Pass::measured`]. After a
    /// removal it may take so long until the file system shows it.
    Measure {
        /// How long to wait at most.
        patience: Duration,
        /// Until so many bytes are available.
        until: u64,
    },
    /// Nothing: the pass is over.
    Done,
}

/// What came of the removal of a candidate. Output, log and metrics have these names.
#[derive(Clone, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Outcome {
    /// It is gone.
    Removed,
    /// It stays after all.
    Refused(Refusal),
    /// The runtime or the file system has failed. It counts as done in this pass (C7), and stops
    /// nothing else (I7).
    Failed(String),
}

impl Outcome {
    /// Why it is still there.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Removed => None,
            Self::Refused(refusal) => Some(refusal.to_string()),
            Self::Failed(error) => Some(error.clone()),
        }
    }
}

/// A candidate, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The candidate.
    pub candidate: Candidate,
    /// What came of it.
    pub outcome: Outcome,
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { candidate, outcome } = self;
        let mut item = serializer.serialize_struct("Record", 6)?;
        item.serialize_field("what", &candidate.what())?;
        item.serialize_field("id", candidate.id())?;
        item.serialize_field("name", &candidate.name)?;
        item.serialize_field("rule", &candidate.rule)?;
        item.serialize_field("outcome", <&str>::from(outcome))?;
        item.serialize_field("reason", &outcome.reason())?;
        item.end()
    }
}

/// A plan that is being carried out.
#[derive(Debug)]
pub struct Pass {
    others: VecDeque<Candidate>,
    /// Those that go anyway first, then for space, then those in line.
    images: VecDeque<Candidate>,
    /// What is to be free; nothing if this pass frees no space.
    goal: Option<Goal>,
    /// How many more of each kind this pass may remove. What fails does not count.
    left: [usize; What::COUNT],
    /// What the file system has shown last, unless something has been removed since.
    usage: Option<Usage>,
    /// Whether a measurement is due before the end: something is to be freed, and there was no
    /// measurement since the last removal.
    measures_at_end: bool,
    patience: Duration,
    /// How many bytes were removed since the last measurement, as far as it is known: others write at the same time, so
    /// that something has changed says nothing.
    removed: u64,
    /// Whether the layers of containers are on the same file system.
    shares_disk: bool,
    /// What the plan was made with.
    before: Option<Usage>,
    last: Option<Usage>,
    /// Whether the file system could not be measured at least once.
    has_missed: bool,
    records: Vec<Record>,
}

impl Pass {
    /// Begins to carry out a plan.
    pub fn new(plan: &Plan, scope: Scope) -> Self {
        let allows = |candidate: &&Candidate| {
            let is_image = candidate.what() == What::Image;
            let is_wanted = match scope {
                Scope::All => true,
                Scope::Containers => !is_image,
                Scope::Images => is_image,
            };
            let is_allowed = match plan.effects {
                Effects::Nothing => mutation::is(Mutation::ActInDryRun),
                Effects::Images => is_image,
                Effects::All => true,
            };
            is_wanted && is_allowed
        };
        let allowed = plan.removals.iter().chain(&plan.in_line).filter(allows).cloned();
        let (images, others) = allowed.partition(|candidate| candidate.what() == What::Image);
        let frees_space = scope != Scope::Containers && plan.effects != Effects::Nothing;
        let goal = plan.goal.filter(|_| frees_space || mutation::is(Mutation::ActInDryRun));
        let mut left = [plan.limits.containers; What::COUNT];
        left[What::Image as usize] = plan.limits.images;
        Self {
            others,
            images,
            goal,
            left,
            usage: None,
            measures_at_end: goal.is_some(),
            patience: Duration::ZERO,
            removed: 0,
            shares_disk: plan.container_disk == ContainerDisk::OfImages,
            before: plan.usage,
            last: None,
            has_missed: false,
            records: Vec::new(),
        }
    }

    /// What is to be done next. After each step, the pass has to be told what came of it.
    pub fn next_step(&mut self) -> Step {
        while let Some(first) = self.others.front() {
            let what = first.what();
            let most = AT_A_TIME.min(self.left[what as usize]);
            if most == 0 {
                self.others.pop_front();
                continue;
            }
            let count = self.others.iter().take(most).take_while(|next| next.what() == what).count();
            return Step::Remove(self.others.drain(..count).collect());
        }
        // What dead containers free may be enough, so no image goes before it shows.
        if self.goal.is_some() && self.patience == PATIENCE_FOR_LAYERS {
            return self.measure();
        }
        // B3, B6: images go for space only until enough is free.
        let is_reached = |goal: Goal| self.usage.is_some_and(|usage| goal.is_reached(&usage));
        if self.goal.is_none_or(is_reached) {
            self.images.retain(goes_anyway);
        }
        let left = self.left[What::Image as usize];
        let image = self.images.front().filter(|_| left > 0);
        let measures = match image {
            Some(image) => !goes_anyway(image) && self.usage.is_none(),
            // B9: what the last removal has freed counts, and how much is missing is also told if
            // no image was left to remove.
            None => self.measures_at_end,
        };
        if measures {
            return self.measure();
        }
        if image.is_none() {
            return Step::Done;
        }
        Step::Remove(self.images.drain(..1).collect())
    }

    /// A measurement when the file system shows what was removed, or enough is free.
    fn measure(&self) -> Step {
        let until = self.goal.zip(self.last.or(self.before)).map_or(0, |(goal, last)| {
            let all = last.available.saturating_add(self.removed);
            if goal.missing_inodes(&last) > 0 { all } else { all.min(goal.available) }
        });
        Step::Measure { patience: self.patience, until }
    }

    /// Tells what came of one of the removals that were asked for, if it was tried.
    pub fn record(&mut self, record: Record) {
        let (what, is_removed) = (record.candidate.what(), record.outcome == Outcome::Removed);
        if is_removed && !mutation::is(Mutation::NoLimitOfRemovals) {
            self.left[what as usize] = self.left[what as usize].saturating_sub(1);
        }
        let bytes = record.candidate.bytes.unwrap_or_default();
        match what {
            What::Image if is_removed => {
                self.removed = self.removed.saturating_add(bytes);
                // The last measurement is out of date.
                self.usage = None;
                self.measures_at_end = self.goal.is_some();
                self.patience = PATIENCE;
            }
            What::Container
                if is_removed
                    && self.shares_disk
                    && bytes > 0
                    && !mutation::is(Mutation::NoPatienceForLayers) =>
            {
                self.removed = self.removed.saturating_add(bytes);
                self.patience = PATIENCE_FOR_LAYERS;
            }
            What::Container | What::Sandbox | What::LogDirectory | What::LogSymlink | What::Image => {}
        }
        self.records.push(record);
    }

    /// Tells which images there are now. Those that are gone leave the line: what is pulled again is another image.
    /// Returns them: if one is there nevertheless, it was not tried.
    pub fn listed(&mut self, images: &[Image]) -> VecDeque<Candidate> {
        let listed: HashSet<_> = images.iter().map(|image| Some(image.key())).collect();
        let (images, left) = self.images.drain(..).partition(|image| listed.contains(&image.image_key()));
        self.images = images;
        left
    }

    /// Tells how full the file system is now; nothing if it could not be measured. Without a
    /// measurement, no image goes for space.
    pub fn measured(&mut self, usage: Option<Usage>) {
        self.patience = Duration::ZERO;
        self.removed = 0;
        self.measures_at_end = false;
        self.usage = usage;
        self.last = usage.or(self.last);
        if usage.is_none() {
            self.has_missed = true;
            self.images.retain(goes_anyway);
        }
    }

    /// How many bytes and inodes are missing by the last measurement (B9).
    pub fn missing(&self) -> (u64, u64) {
        let missing = |goal: Goal| Some((goal.missing_bytes(&self.last?), goal.missing_inodes(&self.last?)));
        self.goal.and_then(missing).unwrap_or_default()
    }

    /// Whether space was to be freed and the file system could never be measured, so that it is not known
    /// what is missing.
    pub const fn is_unmeasured(&self) -> bool {
        self.has_missed && self.last.is_none()
    }

    /// What came of each candidate.
    pub fn into_records(self) -> Vec<Record> {
        self.records
    }
}

/// Whether an image goes however much space there is.
const fn goes_anyway(image: &Candidate) -> bool {
    !is_for_space(image.rule)
}

#[cfg(test)]
mod tests;
