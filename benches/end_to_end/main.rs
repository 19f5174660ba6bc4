//! Measures kube-gc end to end on a real API server: `make bench-e2e`.
//!
//! Three contestants take turns: a bare client that knows everything in advance (the limit), the
//! garbage collector of kube-controller-manager (the peer), and kube-gc. `docs/benchmarks.md`
//! explains how. Each row is a file in `rows/`.

mod arguments;
mod cascade;
mod contestants;
mod figure;
mod http;
mod identity;
mod machine;
mod objects;
mod observe;
mod pace;
mod pages;
mod proc;
mod report;
mod requests;
mod rest;
mod row;
mod rows;
mod stage;
mod statistics;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::Parser as _;

use self::arguments::{Arguments, Scale};
use self::contestants::kube_gc;
use self::contestants::peer::Peer;
use self::figure::{Contestant, Samples};
use self::machine::Others;
use self::objects::{Mode, make_namespace};
use self::report::Circumstances;
use self::row::Row;
use self::stage::{Programs, Stage};

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if arguments.list {
        let list = rows::ALL
            .iter()
            .map(|row| format!("{:16} {}\n", row.name, (row.about)(arguments.scale().objects)));
        return say(&list.collect::<String>());
    }
    let rows = chosen(&arguments.rows)?;
    // One thread, which leaves the rest of the machine to what is measured.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure(&arguments, &rows))
}

/// The selected rows, in the order of the table.
fn chosen(names: &[String]) -> Result<Vec<&'static Row>> {
    for name in names {
        let known = rows::ALL.iter().any(|row| row.name == name);
        ensure!(known, "there is no row {name:?}; --list says which there are");
    }
    let is_chosen = |row: &&&Row| names.is_empty() || names.iter().any(|name| name == row.name);
    Ok(rows::ALL.iter().filter(is_chosen).copied().collect())
}

async fn measure(arguments: &Arguments, rows: &[&'static Row]) -> Result<()> {
    let scale = arguments.scale();
    let programs = programs(arguments)?;
    let mut circumstances = Circumstances {
        date: humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(),
        processors: machine::processors()?,
        memory_mib: machine::memory_mib()?,
        others: 0.0,
        contestants: programs.identity.user(),
        api_server: String::new(),
        peer: programs.peer.as_ref().map(|peer| peer.version.clone()),
        kube_gc: kube_gc::version(&programs.kube_gc)?,
        objects: scale.objects,
        rounds: scale.rounds,
        turns: scale.turns,
    };
    let json = arguments.json.clone().unwrap_or_else(|| beside(&programs.kube_gc));
    let mut results = Vec::new();
    let mut failure = None;
    for row in rows {
        let measured = match measure_row(row, &programs, scale).await {
            Ok(measured) => measured,
            Err(error) => {
                progress(&format!("  failed: {error:#}"));
                failure = Some(error);
                continue;
            }
        };
        circumstances.api_server = measured.api_server;
        circumstances.others = circumstances.others.max(measured.others);
        results.push(measured.result);
        // Written after each row, so that an early end keeps the figures so far.
        let document = serde_json::to_vec_pretty(&report::json::document(&circumstances, &results))?;
        std::fs::write(&json, document).with_context(|| format!("cannot write {}", json.display()))?;
    }
    say(&report::markdown::page(&circumstances, &results))?;
    progress(&format!("all figures: {}", json.display()));
    failure.map_or(Ok(()), Err)
}

/// The results of a row.
struct MeasuredRow {
    result: report::Result,
    api_server: String,
    /// The largest share of the machine that others used.
    others: f64,
}

/// Measures a row. The contestants take turns within a round, and each round begins with a
/// different one. If each has several turns in a round, these alternate in the same way.
async fn measure_row(row: &'static Row, programs: &Programs, scale: Scale) -> Result<MeasuredRow> {
    let about = (row.about)(scale.objects);
    progress(&format!("{}: {about}", row.name));
    let figures = row.figures.iter().map(|figure| (figure, Samples::default())).collect();
    let result = report::Result { name: row.name, about, figures };
    let mut measured = MeasuredRow { result, api_server: String::new(), others: 0.0 };
    let contestants: Vec<_> = row
        .contestants
        .iter()
        .filter(|contestant| **contestant != Contestant::Peer || programs.peer.is_some())
        .collect();
    let mut kept = None;
    for round in 0..scale.rounds {
        for turn in 0..scale.turns * contestants.len() {
            let (again, place) = (turn / contestants.len(), turn % contestants.len());
            let contestant = *contestants[(round + again + place) % contestants.len()];
            let stage = match kept.take() {
                Some(stage) if row.prepare.is_some() => stage,
                before => {
                    // The state of one turn must not affect the next.
                    drop(before);
                    set_up(row, programs, scale).await?
                }
            };
            stage.version().clone_into(&mut measured.api_server);
            measure_turn(row, &stage, contestant, (round, again), &mut measured)
                .await
                .with_context(|| format!("{}, round {}, {}", row.name, round + 1, contestant.name()))?;
            kept = Some(stage);
        }
    }
    Ok(measured)
}

/// A control plane with everything that the row needs, at rest.
async fn set_up(row: &Row, programs: &Programs, scale: Scale) -> Result<Stage> {
    let stage = Stage::start(programs, scale).await?;
    warm_up(&stage).await?;
    if let Some(prepare) = row.prepare {
        prepare(&stage).await?;
    }
    stage.servers_at_rest().await?;
    Ok(stage)
}

async fn measure_turn(
    row: &'static Row,
    stage: &Stage,
    contestant: Contestant,
    (round, again): (usize, usize),
    measured: &mut MeasuredRow,
) -> Result<()> {
    let namespace = format!("{}-{round}-{again}-{}", row.name, contestant.name());
    make_namespace(&stage.client, &namespace).await?;
    let before = Others::begin(&stage.servers())?;
    let figures = (row.measure)(stage, contestant, &namespace).await?;
    let mut line = format!("  round {} of {}: {:8}", round + 1, stage.scale.rounds, contestant.name());
    for (key, value) in figures {
        let figure = measured.result.figures.iter_mut().find(|(figure, _)| figure.key == key);
        let (figure, samples) = figure.with_context(|| format!("{} has no figure {key}", row.name))?;
        samples.add(round, contestant, value);
        line += &format!("  {} {value:.*} {}", figure.title, figure.digits, figure.unit);
    }
    let taken = before.end(&stage.servers())?;
    measured.others = measured.others.max(taken);
    progress(&format!("{line}  (others took {:.0} % of the machine)", taken * 100.0));
    Ok(())
}

/// Warms the server up, because a server that has just started is slower.
async fn warm_up(stage: &Stage) -> Result<()> {
    const NAMESPACE: &str = "warm-up";
    const OBJECTS: usize = 1000;
    make_namespace(&stage.client, NAMESPACE).await?;
    cascade::run(stage, Contestant::Limit, NAMESPACE, Mode::Background, 1, OBJECTS).await?;
    Ok(())
}

fn programs(arguments: &Arguments) -> Result<Programs> {
    let kube_gc = kube_gc::program(arguments.kube_gc.as_deref(), progress)?;
    let peer = match (&arguments.peer, arguments.no_peer) {
        (_, true) => None,
        (Some(path), false) => Some(Peer::at(path.clone())?),
        (None, false) => {
            let name = "kube-controller-manager";
            Some(Peer::at(kube_gc_testkit::controller_manager::binaries(&[name])?.join(name))?)
        }
    };
    Ok(Programs { identity: arguments.identity(), kube_gc, peer })
}

/// A path in the target directory, which contains the directory of this program.
fn beside(kube_gc: &Path) -> PathBuf {
    let place = std::env::current_exe().ok();
    let place = place.as_deref().and_then(|program| program.ancestors().nth(3)).map(Path::to_owned);
    place.unwrap_or_else(|| kube_gc.with_file_name("")).join("end-to-end.json")
}

fn say(text: &str) -> Result<()> {
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

fn progress(line: &str) {
    // A closed standard error is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{line}");
}
