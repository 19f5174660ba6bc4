//! The table.

use std::fmt::Write as _;

use super::{Circumstances, Result};
use crate::figure::{Contestant, Figure, Samples, Target};
use crate::statistics::Spread;

/// The share of the processors that others may use without a warning.
const QUIET: f64 = 0.05;
const WARNING: &str = " **The machine was not quiet: these figures are not to be judged by.**";

/// The whole page.
pub fn page(circumstances: &Circumstances, results: &[Result]) -> String {
    let Circumstances {
        date,
        processors,
        memory_mib,
        others,
        contestants,
        api_server,
        peer,
        kube_gc,
        objects,
        rounds,
        turns,
    } = circumstances;
    let peer = peer.as_ref().map_or("none".to_owned(), |peer| format!("kube-controller-manager {peer}"));
    let turns = match turns {
        1 => String::new(),
        several => format!(", in each of which a number is the median of {several} turns"),
    };
    let mut page = format!(
        "kube-gc {kube_gc}, measured {date} on {processors}, {memory_mib} MiB of memory; others took \
         {:.0} % of the processors at most during a turn; kube-apiserver {api_server}; peer: {peer}; all contestants as {contestants}; {rounds} rounds of {objects} objects{turns}. \
         Each cell is the median, with the least and the greatest; ratios are of numbers of the same round.{}\n\n\
         | | target | limit | peer | kube-gc | of the limit | of the peer | met |\n\
         |---|---|--:|--:|--:|--:|--:|---|\n",
        others * 100.0,
        if *others > QUIET { WARNING } else { "" },
    );
    for result in results {
        for (figure, samples) in &result.figures {
            page.push_str(&line(result, figure, samples));
        }
    }
    page
}

fn line(result: &Result, figure: &Figure, samples: &Samples) -> String {
    let mut line = format!("| {}: {}", result.about, figure.title);
    if !figure.unit.is_empty() {
        let _ = write!(line, " ({})", figure.unit);
    }
    let targets: Vec<_> = figure.targets.iter().map(|target| target.text()).collect();
    let _ = write!(line, " | {} |", if targets.is_empty() { "–".to_owned() } else { targets.join("; ") });
    for contestant in Contestant::ALL {
        let _ = write!(line, " {} |", cell(&samples.of(contestant), figure.digits));
    }
    for to in [Contestant::Limit, Contestant::Peer] {
        let _ = write!(line, " {} |", cell(&samples.ratios(to), 2));
    }
    let _ = writeln!(line, " {} |", met(figure.targets, samples));
    line
}

fn cell(numbers: &[f64], digits: usize) -> String {
    match Spread::of(numbers) {
        None => "–".to_owned(),
        Some(Spread { median, .. }) if numbers.len() == 1 => format!("{median:.digits$}"),
        Some(Spread { min, median, max }) => {
            format!("{median:.digits$} ({min:.digits$}–{max:.digits$})")
        }
    }
}

/// Whether all targets are met. An unmeasured target leaves it open, unless another one is
/// missed.
pub fn met(targets: &[Target], samples: &Samples) -> &'static str {
    if targets.is_empty() {
        return "–";
    }
    let met: Vec<_> = targets.iter().map(|target| samples.meets(*target)).collect();
    if met.contains(&Some(false)) {
        "**no**"
    } else if met.contains(&None) {
        "open"
    } else {
        "yes"
    }
}
