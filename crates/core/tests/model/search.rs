//! Explores all states of a scene, the nearest first, so that the story of a failure is as short as can be.
//!
//! A state is a sequence of choices. Only the digests of states are kept, and how each was reached; a state
//! is built again when it is its turn. States that are built one after another share most of their choices,
//! so that little is built twice.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use super::scenes::Scene;
use super::server::Violation;
use super::sketch::digest;
use super::state::{Choice, State};

/// What was explored.
#[derive(Debug, Default)]
pub struct Explored {
    pub transitions: u64,
    pub states: usize,
    pub depth: usize,
    /// Nothing is left to explore.
    pub complete: bool,
    pub took: Duration,
    pub failure: Option<Failure>,
}

#[derive(Debug)]
pub struct Failure {
    pub path: Vec<Choice>,
    pub violation: Violation,
}

/// The number of the first state, from which no choice leads to itself.
const ROOT: u32 = u32::MAX;

struct Search<'a> {
    scene: &'a Scene,
    /// How each state was reached: from which one, and by what.
    reached: Vec<(u32, Choice)>,
    seen: HashSet<u128>,
    /// The state that was built last, and those on the way to it.
    way: Vec<(u32, State)>,
}

/// Explores a scene up to a number of states and a moment.
pub fn explore(scene: &Scene, most: usize, until: Instant) -> Explored {
    let began = Instant::now();
    let mut explored = Explored::default();
    let first = match guarded(|| State::new(scene)) {
        Ok(state) => state,
        Err(violation) => {
            explored.failure = Some(Failure { path: Vec::new(), violation });
            return explored;
        }
    };
    let mut search = Search { scene, reached: Vec::new(), seen: HashSet::new(), way: Vec::new() };
    search.seen.insert(digest(&first));
    search.way.push((ROOT, first));
    let (mut next, mut level_ends) = (0, 0);
    if let Err(failure) = search.expand(ROOT, &mut explored) {
        explored.failure = Some(failure);
    }
    while explored.failure.is_none() && next < search.reached.len() {
        if search.reached.len() >= most || next % 1024 == 0 && Instant::now() >= until {
            break;
        }
        if next == level_ends {
            (explored.depth, level_ends) = (explored.depth + 1, search.reached.len());
        }
        explored.failure = search.expand(next as u32, &mut explored).err();
        next += 1;
    }
    explored.complete = next == search.reached.len();
    (explored.states, explored.took) = (search.seen.len(), began.elapsed());
    explored
}

impl Search<'_> {
    fn path(&self, mut of: u32) -> Vec<u32> {
        let mut path = Vec::new();
        while of != ROOT {
            path.push(of);
            of = self.reached[of as usize].0;
        }
        path.push(ROOT);
        path.reverse();
        path
    }

    fn choices(&self, of: u32, last: Option<Choice>) -> Vec<Choice> {
        let path = self.path(of);
        path.into_iter().skip(1).map(|it| self.reached[it as usize].1).chain(last).collect()
    }

    fn expand(&mut self, of: u32, explored: &mut Explored) -> Result<(), Failure> {
        let path = self.path(of);
        let shared = path.iter().zip(&self.way).take_while(|(number, (other, _))| *number == other).count();
        self.way.truncate(shared);
        for &number in &path[shared..] {
            let (_, mut state) = self.way[self.way.len() - 1].clone();
            // It was possible before.
            let _ = state.apply(self.scene, self.reached[number as usize].1);
            self.way.push((number, state));
        }
        let state = &self.way[self.way.len() - 1].1;
        let scene = self.scene;
        let choices = state.choices(scene);
        let rest = guarded(|| at_rest(state, scene, &choices));
        rest.map_err(|violation| Failure { path: self.choices(of, None), violation })?;
        for choice in choices {
            explored.transitions += 1;
            let child = guarded(|| {
                let mut child = state.clone();
                child.apply(scene, choice)?;
                child.collectors.iter().flat_map(|it| &it.graph).for_each(|graph| graph.verify());
                Ok(digest(&child))
            });
            let digest =
                child.map_err(|violation| Failure { path: self.choices(of, Some(choice)), violation })?;
            if self.seen.insert(digest) {
                self.reached.push((of, choice));
            }
        }
        Ok(())
    }
}

/// Nothing must be left where only users and faults can go on, or where what is due is tried in vain.
fn at_rest(state: &State, scene: &Scene, choices: &[Choice]) -> Result<(), Violation> {
    let due = || choices.iter().filter(|choice| choice.is_due());
    if !due().all(|choice| matches!(choice, Choice::Due(..))) {
        return Ok(());
    }
    if due().next().is_none() {
        return state.world.server.judge_rest();
    }
    let mut settled = State { users: 0, faults: 0, ..state.clone() };
    settled.settle(scene)?;
    settled.world.server.judge_rest()
}

/// A panic is a failure, too.
fn guarded<T>(act: impl FnOnce() -> Result<T, Violation>) -> Result<T, Violation> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        Err(format!("a panic: {}", text.unwrap_or_default()))
    })
}

/// What happens in a sequence of choices, in sentences.
pub fn story(scene: &Scene, path: &[Choice]) -> Vec<String> {
    let Ok(mut state) = State::new(scene) else { return Vec::new() };
    state.world.story = Some(Vec::new());
    for &choice in path {
        let _ = guarded(|| state.apply(scene, choice));
    }
    if let Ok(Err(rest)) = catch_unwind(AssertUnwindSafe(|| at_rest(&state, scene, &state.choices(scene)))) {
        state.world.say(|| rest);
    }
    state.world.story.unwrap_or_default()
}

/// The numbers of these choices among those that each state has, with which a story is told again.
pub fn numbers(scene: &Scene, path: &[Choice]) -> Vec<usize> {
    let Ok(mut state) = State::new(scene) else { return Vec::new() };
    let number = |choice: &Choice| {
        let number = state.choices(scene).iter().position(|other| other == choice);
        let _ = guarded(|| state.apply(scene, *choice));
        number.unwrap_or_default()
    };
    path.iter().map(number).collect()
}

/// The choices with these numbers.
pub fn chosen(scene: &Scene, numbers: &[usize]) -> Vec<Choice> {
    let Ok(mut state) = State::new(scene) else { return Vec::new() };
    let mut path = Vec::new();
    for &number in numbers {
        let Some(&choice) = state.choices(scene).get(number) else { break };
        let _ = guarded(|| state.apply(scene, choice));
        path.push(choice);
    }
    path
}
