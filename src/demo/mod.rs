//! `kube-gc demo`: an API server, a small shop and a collector in one process, and
//! a story of what follows from deletions.
//!
//! | part | what it does |
//! |---|---|
//! | `things`, `shop`, `acts` | what there is, what is done to it, what must follow: data |
//! | `house` | the embedded server, the collector, the kubeconfig |
//! | `user` | a client that does as kubectl does |
//! | `recorder` | hears the collector's requests and decisions, and puts them together |
//! | `theatre`, `load` | play the acts, collect many objects; both check what came of it |
//! | `story`, `narrator` | what there is to tell, as data; as text and as JSON |

mod acts;
mod house;
mod load;
mod narrator;
mod recorder;
mod shop;
mod story;
mod theatre;
mod things;
mod user;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cli::{DemoArgs, Exit, Failure, block_on_all_threads, ended_by_signal};
use crate::telemetry;
use house::House;
use narrator::Narrator;
use recorder::Recorder;
use theatre::Theatre;

/// For reading what an act was about, and what came of it.
const READ: Duration = Duration::from_millis(2500);

/// Runs the demo and returns how the process is to end.
#[must_use]
pub fn run(args: &DemoArgs) -> Exit {
    match settings(args).and_then(|settings| block_on_all_threads(demo(args, &settings))) {
        Ok(()) => Exit::Success,
        Err(failure) => failure.say(),
    }
}

fn settings(args: &DemoArgs) -> Result<crate::config::Settings, Failure> {
    let settings = args.settings().map_err(|error| Failure::new(Exit::Usage, error))?;
    telemetry::logging::init(&settings.log).map_err(|error| Failure::new(Exit::Failure, error))?;
    Ok(settings)
}

async fn demo(args: &DemoArgs, settings: &crate::config::Settings) -> Result<(), Failure> {
    // Before anything can take long: a signal is never missed.
    let ended = ended_by_signal()?;
    tokio::pin!(ended);
    let (recorder, mut steps) = Recorder::new(args.objects.is_none());
    let house = House::open(args, settings, &recorder).await?;
    let mut narrator = Narrator::new(args.output);
    narrator.begins(house.places());
    let told = async {
        match args.objects {
            Some(objects) => load::run(&house, &recorder, &mut narrator, objects, args.policy.into()).await,
            None => story(&house, &recorder, &mut steps, &mut narrator).await,
        }
        .map_err(|error| Failure::new(Exit::Failure, error))
    };
    let told = tokio::select! {
        biased;
        _ = &mut ended => None,
        told = told => Some(told),
        failure = house.fails() => Some(Err(failure)),
    };
    narrator.done();
    recorder.end();
    let result = match told {
        Some(Ok(())) if !args.once => {
            narrator.stays(house.places(), args.objects.is_some());
            tokio::select! {
                _ = &mut ended => Ok(()),
                failure = house.fails() => Err(failure),
            }
        }
        Some(told) => told,
        None => Ok(()),
    };
    house.close(settings.shutdown.grace).await;
    match &result {
        Ok(()) => narrator.ends(),
        Err(failure) => narrator.fails(&failure.message),
    }
    result
}

async fn story(
    house: &House,
    recorder: &Recorder,
    steps: &mut tokio::sync::mpsc::UnboundedReceiver<story::Step>,
    narrator: &mut Narrator,
) -> Result<(), String> {
    let mut theatre = Theatre {
        user: house.user(),
        recorder,
        steps,
        collector: house.collector(),
        narrator,
        uids: BTreeMap::new(),
        shown: BTreeMap::new(),
    };
    let drawn = theatre.build().await?;
    theatre.narrator.shop(&drawn);
    theatre.narrator.pause(2 * READ).await;
    let acts = acts::acts();
    for (number, act) in (1..).zip(&acts) {
        theatre.narrator.act(number, acts.len(), act.title, act.about);
        theatre.narrator.pause(READ).await;
        let played = theatre.play(act).await?;
        theatre.narrator.played(&played);
        theatre.narrator.pause(READ).await;
    }
    Ok(())
}
