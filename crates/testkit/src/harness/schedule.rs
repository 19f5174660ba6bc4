//! Selects the next scenario.

use std::collections::VecDeque;

use super::Trial;

/// The running and the remaining scenarios.
#[derive(Debug)]
pub(super) struct Schedule {
    lanes: Vec<Waiting>,
    running: usize,
    limit: usize,
}

#[derive(Debug)]
struct Waiting {
    trials: VecDeque<Trial>,
    planes: usize,
    running: usize,
}

impl Schedule {
    /// The trials of each lane with its number of control planes, and the maximum number of
    /// concurrent trials.
    pub(super) fn new(lanes: Vec<(usize, Vec<Trial>)>, limit: usize) -> Self {
        let waiting =
            |(planes, trials): (usize, Vec<Trial>)| Waiting { trials: trials.into(), planes, running: 0 };
        Self { lanes: lanes.into_iter().map(waiting).collect(), running: 0, limit }
    }

    /// The number of trials that have not ended.
    pub(super) fn left(&self) -> usize {
        self.running + self.lanes.iter().map(|lane| lane.trials.len()).sum::<usize>()
    }

    /// The next trial that can run now, with its lane.
    pub(super) fn next(&mut self) -> Option<(usize, Trial)> {
        if self.running == self.limit {
            return None;
        }
        let free = |lane: &&mut Waiting| lane.running < lane.planes && !lane.trials.is_empty();
        let (index, lane) = self.lanes.iter_mut().enumerate().find(|(_, lane)| free(lane))?;
        lane.running += 1;
        self.running += 1;
        lane.trials.pop_front().map(|trial| (index, trial))
    }

    /// Notes that a trial of a lane has ended. Returns whether it was the last one of the lane.
    pub(super) fn ended(&mut self, lane: usize) -> bool {
        self.running -= 1;
        let Waiting { trials, running, .. } = &mut self.lanes[lane];
        *running -= 1;
        *running == 0 && trials.is_empty()
    }
}
