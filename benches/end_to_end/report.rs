//! The figures of the rows, and the report about them.

use std::fmt::Write as _;

use serde::Serialize;

use crate::contestants::Contestant;

/// One kind of value that a row measures.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figure {
    /// Its name in the JSON, unique within the row.
    pub key: &'static str,
    /// Its name in the table.
    pub title: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The number of decimals.
    #[serde(skip)]
    pub digits: usize,
}

/// The values of one figure, by round and in the order of [`Contestant::ALL`]; `None` if it was not measured.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Samples(Vec<[Option<f64>; 3]>);

impl Samples {
    /// Adds the value that a contestant measured in a round.
    pub fn add(&mut self, round: usize, contestant: Contestant, value: f64) {
        if self.0.len() <= round {
            self.0.resize(round + 1, [None; 3]);
        }
        self.0[round][contestant as usize] = Some(value);
    }

    /// The values of a contestant, in the order of the rounds.
    fn of(&self, contestant: Contestant) -> Vec<f64> {
        self.0.iter().filter_map(|round| round[contestant as usize]).collect()
    }

    /// The ratios of kube-gc to another contestant, in each round that has both values.
    fn ratios(&self, to: Contestant) -> Vec<f64> {
        let pairs = self.0.iter().filter_map(|round| {
            let (ours, other) = (round[Contestant::KubeGc as usize]?, round[to as usize]?);
            (other != 0.0).then(|| ours / other)
        });
        pairs.collect()
    }
}

/// The results of a row.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// Its name for `--rows`.
    pub name: &'static str,
    pub about: String,
    pub figures: Vec<(&'static Figure, Samples)>,
}

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub circumstances: Circumstances,
    pub rows: Vec<Measurement>,
}

/// The circumstances of the measurements.
#[derive(Clone, Debug, Serialize)]
pub struct Circumstances {
    /// When the measurements began.
    pub date: String,
    /// Model and number of the processors.
    pub processors: String,
    /// The API server's release.
    pub api_server: String,
    /// The release of the peer.
    pub peer: Option<String>,
    /// The version of kube-gc.
    pub kube_gc: String,
    /// Dependents of one cascade.
    pub objects: usize,
    /// Rounds of each row.
    pub rounds: usize,
}

/// The whole page.
pub fn page(Report { circumstances, rows }: &Report) -> String {
    let Circumstances { date, processors, api_server, peer, kube_gc, objects, rounds } = circumstances;
    let peer = peer.as_ref().map_or("none".to_owned(), |peer| format!("kube-controller-manager {peer}"));
    let mut page = format!(
        "kube-gc {kube_gc}, measured {date} on {processors}; kube-apiserver {api_server}; peer: {peer}; \
         {rounds} rounds of {objects} objects. Each cell is the median, with the least and the greatest; \
         ratios are of numbers of the same round.\n\n\
         | | limit | peer | kube-gc | of the limit | of the peer |\n|---|--:|--:|--:|--:|--:|\n",
    );
    for result in rows {
        for (figure, samples) in &result.figures {
            page.push_str(&line(result, figure, samples));
        }
    }
    page
}

fn line(result: &Measurement, figure: &Figure, samples: &Samples) -> String {
    let mut line = format!("| {}: {}", result.about, figure.title);
    if !figure.unit.is_empty() {
        let _ = write!(line, " ({})", figure.unit);
    }
    line.push_str(" |");
    for contestant in Contestant::ALL {
        let _ = write!(line, " {} |", cell(&samples.of(contestant), figure.digits));
    }
    for to in [Contestant::Limit, Contestant::Peer] {
        let _ = write!(line, " {} |", cell(&samples.ratios(to), 2));
    }
    line.push('\n');
    line
}

/// The median, with the least and the greatest.
fn cell(numbers: &[f64], digits: usize) -> String {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (Some(least), Some(greatest)) = (sorted.first(), sorted.last()) else { return "–".to_owned() };
    let median = f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    format!("{median:.digits$} ({least:.digits$}–{greatest:.digits$})")
}
