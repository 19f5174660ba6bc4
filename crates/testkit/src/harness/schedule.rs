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

#[cfg(test)]
mod tests {
    use super::super::{Lane, Module, Scenario};
    use super::*;
    use crate::environment::Environment;

    const PLAIN: Scenario = Scenario::new("plain", || Box::pin(async { Ok(()) }));
    const MODULE: Module = Module { path: "test::module", scenarios: &[PLAIN, PLAIN.alone(), PLAIN] };

    fn schedule(planes: &[usize], limit: usize) -> Schedule {
        let lane = Lane::new(Environment::Real, "lane", &[&[MODULE]]);
        Schedule::new(planes.iter().map(|planes| (*planes, lane.trials().collect())).collect(), limit)
    }

    /// Starts all trials that can run now: their lanes, and whether they run alone.
    fn started(schedule: &mut Schedule) -> Vec<(usize, bool)> {
        let next = || schedule.next().map(|(lane, trial)| (lane, trial.scenario.alone));
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_lane_runs_at_most_one_scenario_on_each_control_plane() {
        let mut schedule = schedule(&[1, 2], 10);
        assert_eq!(started(&mut schedule), [(0, false), (1, false), (1, false)]);
        assert!(!schedule.ended(1));
        assert_eq!(started(&mut schedule), []);
        assert!(!schedule.ended(0));
        assert_eq!(started(&mut schedule), [(0, false)]);
    }

    #[test]
    fn no_more_scenarios_run_than_the_limit_and_earlier_lanes_come_first() {
        let mut schedule = schedule(&[1, 2], 2);
        assert_eq!(started(&mut schedule), [(0, false), (1, false)]);
        assert!(!schedule.ended(0));
        assert_eq!(started(&mut schedule), [(0, false)]);
    }

    #[test]
    fn an_exclusive_scenario_runs_alone_and_the_last_of_a_lane_is_known() {
        let mut schedule = schedule(&[2, 2], 10);
        assert_eq!(started(&mut schedule).len(), 4);
        for lane in [0, 0, 1] {
            assert!(!schedule.ended(lane));
            assert_eq!(started(&mut schedule), []);
        }
        assert!(!schedule.ended(1));
        assert_eq!(started(&mut schedule), [(0, true)]);
        assert!(schedule.ended(0));
        assert_eq!(started(&mut schedule), [(1, true)]);
        assert_eq!(schedule.left(), 1);
        assert!(schedule.ended(1));
        assert_eq!(schedule.left(), 0);
    }
}
