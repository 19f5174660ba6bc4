//! One pass: what happens while a plan is carried out.
//!
//! A pass asks for one step after the other and is told what came of each. It never does anything
//! itself, so tests can let it meet any failure at any step.

use std::collections::VecDeque;
use std::time::Duration;

use crate::images::Purpose;
use crate::mutation::{self, Mutation};
use crate::plan::{Candidate, Plan, Target, What};
use crate::pressure::{Goal, Usage};
use crate::recheck::{Fresh, Refusal, still_removable};
use crate::rules::Effects;

/// How many images are removed before containers are listed again (B2).
pub const BATCH: usize = 10;
/// How many candidates may be removed at the same time.
pub const AT_A_TIME: usize = 8;
/// How long the file system has to show that an image has gone (B3).
pub const PATIENCE: Duration = Duration::from_secs(2);

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
    /// [`AT_A_TIME`], and none depends on another, so they may be removed at the same time. An image
    /// that is removed for space is alone, because the file system is measured after it (B3).
    ///
    /// Everything but an image is looked at again first, by [`still_removable`]. Images have been
    /// looked at when containers were listed.
    Remove(Vec<Candidate>),
    /// List containers and images again, and tell the pass with [`Pass::listed`].
    ListContainers,
    /// Measure the file system of the images, and tell the pass with [`Pass::measured`]. After a
    /// removal it may take so long until the file system shows it.
    Measure {
        /// How long to wait for a change.
        patience: Duration,
    },
    /// Nothing: the pass is over.
    Done,
}

/// What came of the removal of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is gone.
    Removed,
    /// It stays after all.
    Refused(Refusal),
    /// The runtime or the file system has failed. It counts as done in this pass (C7), and stops
    /// nothing else (I7).
    Failed(String),
}

/// A candidate, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The candidate.
    pub candidate: Candidate,
    /// What came of it.
    pub outcome: Outcome,
}

/// What the pass waits for.
#[derive(Debug)]
enum Waiting {
    Nothing,
    Removal(Vec<Candidate>),
    List,
    Measurement,
}

/// A plan that is being carried out.
#[derive(Debug)]
pub struct Pass {
    others: VecDeque<Candidate>,
    /// For their age first, then for space, then those in line.
    images: VecDeque<Candidate>,
    goal: Option<Goal>,
    /// Whether this pass may remove images for the goal.
    frees_space: bool,
    waiting: Waiting,
    /// How many more images may be removed before containers are listed again.
    batch: usize,
    /// How many more images this pass may remove.
    images_left: usize,
    /// What the file system has shown last, unless something has been removed since.
    usage: Option<Usage>,
    /// Whether a measurement is due before the end: something is to be freed, and there was no
    /// measurement since the last removal.
    measures_at_end: bool,
    patience: Duration,
    first: Option<Usage>,
    last: Option<Usage>,
    records: Vec<Record>,
}

impl Pass {
    /// Begins to carry out a plan. `most_images` is the limit of a pass (safety 4).
    pub fn new(plan: &Plan, scope: Scope, most_images: usize) -> Self {
        let allows = |what: What| {
            let wanted = match (scope, what) {
                (Scope::All, _) | (Scope::Images, What::Image) => true,
                (Scope::Containers, what) => what != What::Image,
                (Scope::Images, _) => false,
            };
            wanted
                && match plan.effects {
                    Effects::Nothing => mutation::is(Mutation::ActInDryRun),
                    Effects::Images => what == What::Image,
                    Effects::All => true,
                }
        };
        let removals = plan.removals.iter().filter(|candidate| allows(candidate.what()));
        let (images, others): (VecDeque<_>, VecDeque<_>) =
            removals.cloned().partition(|candidate| candidate.what() == What::Image);
        let mut images = images;
        images.extend(plan.in_line.iter().filter(|candidate| allows(candidate.what())).cloned());
        let frees_space = plan.goal.is_some() && allows(What::Image);
        Self {
            others,
            images,
            goal: plan.goal,
            frees_space,
            waiting: Waiting::Nothing,
            batch: 0,
            images_left: if mutation::is(Mutation::NoImageLimit) { usize::MAX } else { most_images },
            usage: None,
            measures_at_end: frees_space,
            patience: Duration::ZERO,
            first: None,
            last: None,
            records: Vec::new(),
        }
    }

    /// What is to be done next. Asking again before the pass was told gives the same answer.
    pub fn next_step(&mut self) -> Step {
        match &self.waiting {
            Waiting::Removal(candidates) => return Step::Remove(candidates.clone()),
            Waiting::List => return Step::ListContainers,
            Waiting::Measurement => return Step::Measure { patience: self.patience },
            Waiting::Nothing => {}
        }
        if let Some(first) = self.others.front() {
            let what = first.what();
            let count = self.others.iter().take(AT_A_TIME).take_while(|next| next.what() == what).count();
            let candidates = self.others.drain(..count).collect();
            return self.remove(candidates);
        }
        self.stop_when_enough_is_free();
        let image = self.images.front().filter(|_| self.images_left > 0);
        let measures = match image {
            Some(image) => purpose(image) == Purpose::Space && self.usage.is_none(),
            // B9: what the last removal has freed counts, and how much is missing is also told if
            // no image was left to remove.
            None => self.measures_at_end,
        };
        if measures {
            self.waiting = Waiting::Measurement;
            return Step::Measure { patience: self.patience };
        }
        let Some(image) = image else { return Step::Done };
        if self.batch == 0 {
            self.waiting = Waiting::List;
            return Step::ListContainers;
        }
        let count = match purpose(image) {
            Purpose::Space => 1,
            Purpose::Age => {
                let most = AT_A_TIME.min(self.batch).min(self.images_left);
                self.images.iter().take(most).take_while(|image| purpose(image) == Purpose::Age).count()
            }
        };
        let images = self.images.drain(..count).collect();
        self.remove(images)
    }

    fn remove(&mut self, candidates: Vec<Candidate>) -> Step {
        self.waiting = Waiting::Removal(candidates.clone());
        Step::Remove(candidates)
    }

    /// B3, B6: images that go for space go one by one, and only until enough is free.
    fn stop_when_enough_is_free(&mut self) {
        let reached = match (&self.goal, &self.usage) {
            (Some(goal), Some(usage)) => goal.is_reached(usage),
            (None, _) => true,
            (Some(_), None) => false,
        };
        if reached {
            self.images.retain(|image| purpose(image) == Purpose::Age);
        }
    }

    /// Tells what came of the removals that were asked for, in the order of the step. One without an
    /// outcome was not tried.
    pub fn record(&mut self, outcomes: impl IntoIterator<Item = Outcome>) {
        let Waiting::Removal(candidates) = std::mem::replace(&mut self.waiting, Waiting::Nothing) else {
            return;
        };
        for (candidate, outcome) in candidates.into_iter().zip(outcomes) {
            if candidate.what() == What::Image {
                self.batch = self.batch.saturating_sub(1);
                self.images_left = self.images_left.saturating_sub(1);
                if outcome == Outcome::Removed {
                    // The last measurement is out of date.
                    self.usage = None;
                    self.measures_at_end = self.goal.is_some();
                    self.patience = PATIENCE;
                }
            }
            self.records.push(Record { candidate, outcome });
        }
    }

    /// Tells which containers and images there are now; nothing if they could not be listed. Images
    /// that are used by now are dropped; without a list, all are.
    pub fn listed(&mut self, fresh: Option<&Fresh<'_>>) {
        if !matches!(self.waiting, Waiting::List) {
            return;
        }
        self.waiting = Waiting::Nothing;
        self.batch = BATCH;
        if mutation::is(Mutation::NoSecondList) {
            return;
        }
        for image in std::mem::take(&mut self.images) {
            let look = fresh.map_or(Err(Refusal::Unknown), |fresh| still_removable(&image, fresh));
            match look {
                Ok(()) => self.images.push_back(image),
                Err(refusal) => {
                    self.records.push(Record { candidate: image, outcome: Outcome::Refused(refusal) });
                }
            }
        }
    }

    /// Tells how full the file system is now; nothing if it could not be measured. Without a
    /// measurement, no image goes for space.
    pub fn measured(&mut self, usage: Option<Usage>) {
        if !matches!(self.waiting, Waiting::Measurement) {
            return;
        }
        self.waiting = Waiting::Nothing;
        self.patience = Duration::ZERO;
        self.measures_at_end = false;
        self.usage = usage;
        self.first = self.first.or(usage);
        self.last = usage.or(self.last);
        if usage.is_none() {
            self.images.retain(|image| purpose(image) == Purpose::Age);
        }
    }

    /// What came of each candidate so far.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// What the pass has come to.
    pub fn summary(&self) -> Summary {
        let is = |wanted: fn(&Outcome) -> bool| {
            self.records.iter().filter(|record| wanted(&record.outcome)).count()
        };
        let free = |usage: Option<Usage>| usage.map_or(0, |usage| usage.available);
        Summary {
            removed: is(|outcome| *outcome == Outcome::Removed),
            refused: is(|outcome| matches!(outcome, Outcome::Refused(_))),
            failed: is(|outcome| matches!(outcome, Outcome::Failed(_))),
            freed_bytes: free(self.last).saturating_sub(free(self.first)),
            missing: match (&self.goal, &self.last) {
                (Some(goal), Some(usage)) if !goal.is_reached(usage) => {
                    Some(Missing { bytes: goal.missing_bytes(usage), inodes: goal.missing_inodes(usage) })
                }
                _ => None,
            },
            unmeasured: self.frees_space && self.last.is_none(),
        }
    }
}

fn purpose(candidate: &Candidate) -> Purpose {
    match candidate.target {
        Target::Image { purpose, .. } => purpose,
        Target::Container { .. }
        | Target::Sandbox { .. }
        | Target::LogDirectory { .. }
        | Target::LogSymlink { .. } => Purpose::Age,
    }
}

/// What a pass has come to (B9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How many items have gone.
    pub removed: usize,
    /// How many stay after all.
    pub refused: usize,
    /// How many could not be removed.
    pub failed: usize,
    /// How many bytes the file system of the images has gained while images went.
    pub freed_bytes: u64,
    /// What is still missing, if not enough could be freed.
    pub missing: Option<Missing>,
    /// Whether space was to be freed and the file system was never measured, so that it is not known
    /// what is missing.
    pub unmeasured: bool,
}

/// What a pass was to free and could not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Bytes.
    pub bytes: u64,
    /// Inodes.
    pub inodes: u64,
}

#[cfg(test)]
mod tests;
