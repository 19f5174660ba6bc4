//! Selects the next scenario.

use std::collections::VecDeque;

use super::Trial;

/// The running and the remaining scenarios.
#[derive(Debug)]
pub(super) struct Schedule {
    lanes: Vec<Waiting>,
    /// These run one at a time, after all others.
    alone: VecDeque<(usize, Trial)>,
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
        let mut schedule = Self { lanes: Vec::new(), alone: VecDeque::new(), running: 0, limit };
        for (lane, (planes, trials)) in lanes.into_iter().enumerate() {
            let (alone, others) = trials.into_iter().partition::<Vec<_>, _>(|trial| trial.scenario.alone);
            schedule.alone.extend(alone.into_iter().map(|trial| (lane, trial)));
            schedule.lanes.push(Waiting { trials: others.into(), planes, running: 0 });
        }
        schedule
    }

    /// The number of trials that have not ended.
    pub(super) fn left(&self) -> usize {
        self.running + self.alone.len() + self.lanes.iter().map(|lane| lane.trials.len()).sum::<usize>()
    }

    /// The next trial that can run now, with its lane.
    pub(super) fn next(&mut self) -> Option<(usize, Trial)> {
        if self.running == self.limit {
            return None;
        }
        let free = |lane: &&mut Waiting| lane.running < lane.planes && !lane.trials.is_empty();
        let next = match self.lanes.iter_mut().enumerate().find(|(_, lane)| free(lane)) {
            Some((index, lane)) => lane.trials.pop_front().map(|trial| (index, trial)),
            None if self.running == 0 => self.alone.pop_front(),
            None => None,
        }?;
        self.lanes[next.0].running += 1;
        self.running += 1;
        Some(next)
    }

    /// Notes that a trial of a lane has ended. Returns whether it was the last one of the lane.
    pub(super) fn ended(&mut self, lane: usize) -> bool {
        self.running -= 1;
        let Waiting { trials, running, .. } = &mut self.lanes[lane];
        *running -= 1;
        *running == 0 && trials.is_empty() && self.alone.iter().all(|(alone, _)| *alone != lane)
    }
}
