//! Measures kube-gc end to end on a real API server: `make bench-e2e`.
//!
//! Three contestants take turns: a bare client that knows everything in advance (the limit), the
//! garbage collector of kube-controller-manager (the peer), and kube-gc. `docs/benchmarks.md`
//! explains how.

mod cascade;
mod client;
mod contestants;
#[path = "../common/kube_gc.rs"]
mod kube_gc;
#[path = "../common/proc.rs"]
mod proc;
mod process;
mod report;
mod rows;
mod stage;

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;

use kube_gc_testkit::Policy;

use self::contestants::{Contestant, Peer};
use self::report::{Circumstances, Measurement, Report, Samples};
use self::rows::Row;
use self::stage::{Programs, Stage};

/// Compares kube-gc with a bare client and the garbage collector of kube-controller-manager, on a
/// real API server.
///
/// The table goes to standard output, progress to standard error. docs/benchmarks.md explains how
/// to read it, and has the targets. The exit code is 0 if everything was measured.
#[derive(Debug, Parser)]
#[command(name = "end_to_end", bin_name = "cargo bench --bench end_to_end --")]
struct Arguments {
    /// The rows to measure, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_name = "ROW")]
    rows: Vec<String>,

    /// List the rows and measure nothing
    #[arg(long)]
    list: bool,

    /// The number of rounds. In each one, every contestant measures each row
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,

    /// The number of dependents in a cascade. The other sizes are in proportion to it
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    objects: u32,

    /// Two rounds with 1000 objects, to see that everything works
    #[arg(long, conflicts_with_all = ["rounds", "objects"])]
    quick: bool,

    /// The kube-controller-manager to compare with [default: the one that
    /// tests/control-plane/ensure.sh finds or builds]
    #[arg(long, value_name = "PATH", conflicts_with = "no_peer")]
    peer: Option<PathBuf>,

    /// Measure without kube-controller-manager
    #[arg(long)]
    no_peer: bool,

    /// The kube-gc to measure [default: the one that `cargo build --release --locked --bin
    /// kube-gc` builds]
    #[arg(long, value_name = "PATH")]
    kube_gc: Option<PathBuf>,

    /// The file for all figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// `cargo bench` passes this to every benchmark.
    #[arg(long = "bench", hide = true)]
    by_cargo: bool,
}

impl Arguments {
    /// Dependents of a cascade, and rounds.
    fn size(&self) -> (usize, usize) {
        if self.quick { (1000, 2) } else { (self.objects as usize, self.rounds.into()) }
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if arguments.list {
        let list =
            rows::ALL.iter().map(|row| format!("{:16} {}\n", row.name, (row.about)(arguments.size().0)));
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
    let is_chosen = |row: &&Row| names.is_empty() || names.iter().any(|name| name == row.name);
    Ok(rows::ALL.iter().filter(is_chosen).collect())
}

async fn measure(arguments: &Arguments, rows: &[&'static Row]) -> Result<()> {
    let (objects, rounds) = arguments.size();
    let programs = programs(arguments)?;
    let circumstances = Circumstances {
        date: humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(),
        processors: processors()?,
        api_server: String::new(),
        peer: programs.peer.as_ref().map(|peer| peer.version.clone()),
        kube_gc: kube_gc::version(&programs.kube_gc)?,
        objects,
        rounds,
    };
    let mut report = Report { circumstances, rows: Vec::new() };
    let mut failure = None;
    for row in rows {
        match measure_row(row, &programs, arguments.size(), &mut report.circumstances.api_server).await {
            Ok(measured) => report.rows.push(measured),
            Err(error) => {
                progress(&format!("  failed: {error:#}"));
                failure = Some(error);
                continue;
            }
        }
        if let Some(json) = &arguments.json {
            // Written after each row, so that an early end keeps the figures so far.
            let document = serde_json::to_vec_pretty(&report)?;
            std::fs::write(json, document).with_context(|| format!("cannot write {}", json.display()))?;
        }
    }
    say(&report::page(&report))?;
    failure.map_or(Ok(()), Err)
}

/// Measures a row. The contestants take turns within a round, and each round begins with a
/// different one.
async fn measure_row(
    row: &'static Row,
    programs: &Programs,
    (objects, rounds): (usize, usize),
    api_server: &mut String,
) -> Result<Measurement> {
    let about = (row.about)(objects);
    progress(&format!("{}: {about}", row.name));
    let figures = row.figures.iter().map(|figure| (figure, Samples::default())).collect();
    let mut measured = Measurement { name: row.name, about, figures };
    let takes_part = |one: &&Contestant| **one != Contestant::Peer || programs.peer.is_some();
    let contestants: Vec<_> = row.contestants.iter().copied().filter(|one| takes_part(&one)).collect();
    let mut kept = None;
    for round in 0..rounds {
        for place in 0..contestants.len() {
            let contestant = contestants[(round + place) % contestants.len()];
            let stage = match kept.take() {
                Some(stage) if row.prepare.is_some() => stage,
                before => {
                    // The state of one turn must not affect the next.
                    drop(before);
                    set_up(row, programs, objects).await?
                }
            };
            stage.version().clone_into(api_server);
            measure_turn(row, &stage, contestant, round, &mut measured)
                .await
                .with_context(|| format!("{}, round {}, {}", row.name, round + 1, contestant.name()))?;
            kept = Some(stage);
        }
    }
    Ok(measured)
}

/// A control plane with everything that the row needs, at rest.
async fn set_up(row: &Row, programs: &Programs, objects: usize) -> Result<Stage> {
    let stage = Stage::start(programs, objects).await?;
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
    round: usize,
    measured: &mut Measurement,
) -> Result<()> {
    let ns = stage.cluster.namespace().await?;
    let figures = (row.measure)(stage, contestant, &ns).await?;
    let mut line = format!("  round {}: {:8}", round + 1, contestant.name());
    for (key, value) in figures {
        let figure = measured.figures.iter_mut().find(|(figure, _)| figure.key == key);
        let (figure, samples) = figure.with_context(|| format!("{} has no figure {key}", row.name))?;
        samples.add(round, contestant, value);
        line += &format!("  {} {value:.*} {}", figure.title, figure.digits, figure.unit);
    }
    progress(&line);
    Ok(())
}

/// Warms the server up, because a server that has just started is slower.
async fn warm_up(stage: &Stage) -> Result<()> {
    const OBJECTS: usize = 1000;
    let ns = stage.cluster.namespace().await?;
    cascade::run(stage, Contestant::Limit, &ns, Policy::Background, OBJECTS).await?;
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
    Ok(Programs { kube_gc, peer })
}

/// Number and model of the processors.
fn processors() -> Result<String> {
    let count = std::thread::available_parallelism()?;
    let info = std::fs::read_to_string("/proc/cpuinfo")?;
    // Some architectures do not name the model.
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    Ok(format!("{count} × {}", model.map_or(std::env::consts::ARCH, |(_, model)| model)))
}

fn say(text: &str) -> Result<()> {
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

fn progress(line: &str) {
    // A closed standard error is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{line}");
}
