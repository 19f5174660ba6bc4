//! The model: every interleaving of what users, faults and the collector do with a few objects.
//!
//! The simulation draws random steps of the whole collector. This suite has less around it and leaves nothing
//! out: a small API server, and around the real partition, the real verdicts and the real mailboxes each step
//! of the workers between two moments at which they wait.
//!
//! | file | what it does |
//! |---|---|
//! | [`cast`], [`scenes`] | names, lives and references; which worlds are explored |
//! | [`server`], [`judge`] | the API server and its users, and what is wrong |
//! | [`collector`], [`fence`], [`task`], [`worker`], [`orphan`] | the actors and the workers, as steps |
//! | [`state`], [`sketch`] | what can happen in a state, and when two states are the same |
//! | [`search`], [`story`], [`mutations`] | all states of a scene, and what happens in words; the check that mistakes would be found |
#![expect(clippy::print_stdout, reason = "this is what the person who runs it came for")]
#![allow(clippy::expect_used, reason = "it is a test")]

#[path = "../../../../tests/simulation/cargo.rs"]
mod cargo;
mod cast;
mod collector;
mod fence;
mod judge;
mod mutations;
mod orphan;
mod scenes;
mod search;
mod server;
mod sketch;
mod state;
mod story;
mod task;
mod worker;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser as _;
use kube_gc_core::mutation::{self, Mutation};

use self::cargo::Cargo;
use self::scenes::Scene;
use self::search::{Explored, Failure, chosen, explore, numbers, story};

/// Explores every interleaving of users, faults and the collector in small worlds, and judges each write and
/// each end.
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "cargo test -p kube-gc-core --test model --")]
struct Options {
    /// Also explores larger worlds, for up to an hour
    #[arg(long)]
    deep: bool,
    /// Explores only this scene, for example "a b>a, delete create, 2, 0"
    #[arg(long)]
    scene: Option<String>,
    /// With --scene: tells what happens in this sequence of choices, for example 0,3,1
    #[arg(long, value_name = "SEQUENCE", value_delimiter = ',')]
    story: Option<Vec<usize>>,
    /// Makes each deliberate mistake that concerns the model, and checks that it is found
    #[arg(long)]
    mutations: bool,
    /// Makes this mistake
    #[arg(long, value_name = "NAME", value_parser = cargo::mutation)]
    mutation: Option<Mutation>,
    /// Gives up on a scene after this many states
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    states: usize,
    /// Gives up on all after this many seconds
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    #[command(flatten)]
    cargo: Cargo,
}

impl Options {
    fn scenes(&self) -> Result<Vec<Scene>, String> {
        let all = match &self.scene {
            Some(scene) => vec![scene.as_str()],
            None => scenes::GATE.iter().chain(scenes::DEEP.iter().filter(|_| self.deep)).copied().collect(),
        };
        all.into_iter().map(scenes::parse).collect()
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    if options.cargo.is_for_others("model") {
        return ExitCode::SUCCESS;
    }
    // A panic is reported with its story.
    std::panic::set_hook(Box::new(|_| {}));
    let scenes = match options.scenes() {
        Ok(scenes) => scenes,
        Err(error) => {
            println!("model: {error}");
            return ExitCode::from(2);
        }
    };
    mutation::choose(options.mutation);
    if let (Some(sequence), [scene]) = (&options.story, &scenes[..]) {
        tell(scene, &chosen(scene, sequence));
        return ExitCode::SUCCESS;
    }
    let good = if options.mutations { mutations::prove(&options) } else { run(&options, scenes) };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tell(scene: &Scene, path: &[state::Choice]) {
    for (number, line) in story(scene, path).iter().enumerate() {
        println!("  {}. {line}", number + 1);
    }
}

/// The scenes of the gate end by themselves.
const FOR_EVER: u64 = 1 << 30;

/// Explores the scenes, as many at a time as there are cores.
fn run(options: &Options, scenes: Vec<Scene>) -> bool {
    let seconds = options.seconds.or(options.deep.then_some(3600)).unwrap_or(FOR_EVER);
    let (began, until) = (Instant::now(), Instant::now() + Duration::from_secs(seconds));
    let (left, good, total) = (Mutex::new(scenes.into_iter()), AtomicBool::new(true), Mutex::new((0, 0)));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, Into::into) {
            scope.spawn(|| {
                mutation::choose(options.mutation);
                while let Some(scene) = left.lock().ok().and_then(|mut left| left.next()) {
                    let explored = explore(&scene, options.states, until);
                    report(&scene, &explored);
                    if let Some(Failure { path, violation }) = &explored.failure {
                        println!("{violation}");
                        tell(&scene, path);
                        let numbers: Vec<_> = numbers(&scene, path).iter().map(ToString::to_string).collect();
                        println!("--scene '{}' --story {}", scene.name, numbers.join(","));
                    }
                    if explored.failure.is_some()
                        || !options.deep && options.scene.is_none() && !explored.complete
                    {
                        good.store(false, Ordering::Relaxed);
                    }
                    if let Ok(mut total) = total.lock() {
                        *total = (total.0 + explored.transitions, total.1 + explored.states);
                    }
                }
            });
        }
    });
    let (transitions, states) = total.into_inner().unwrap_or_default();
    println!(
        "model: {transitions} states reached, {states} distinct, in {:.1} s",
        began.elapsed().as_secs_f64()
    );
    good.into_inner()
}

fn report(scene: &Scene, explored: &Explored) {
    let Explored { transitions, states, depth, complete, took, .. } = explored;
    let pace = *transitions as f64 / took.as_secs_f64().max(0.001);
    let end = if *complete { "all" } else { "not all" };
    println!(
        "{}: {end}: {transitions} states, {states} distinct, depth {depth}, {:.1} s, {pace:.0} states/s",
        scene.name,
        took.as_secs_f64()
    );
}
