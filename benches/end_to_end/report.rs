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
    /// The targets of kube-gc. All must be met.
    #[serde(skip)]
    pub targets: &'static [Target],
}

/// A target of kube-gc. A ratio always compares two values of the same round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// At least this multiple of the limit, in the median of the rounds.
    OfLimit(f64),
    /// At least this multiple of the peer, in every round.
    TimesPeer(f64),
    /// At most this multiple of the peer, in every round.
    OfPeerAtMost(f64),
    /// At most this value, in the median of the rounds.
    AtMost(f64),
}

impl Target {
    /// Its text in the table.
    pub fn text(self) -> String {
        match self {
            Self::OfLimit(factor) => format!("≥ {factor} × limit"),
            Self::TimesPeer(factor) => format!("≥ {factor} × peer in every round"),
            Self::OfPeerAtMost(factor) => format!("≤ {factor} × peer in every round"),
            Self::AtMost(bound) => format!("≤ {bound}"),
        }
    }
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

    /// Whether a target is met; `None` if it was not measured.
    fn meets(&self, target: Target) -> Option<bool> {
        let ratios = |to| Spread::of(&self.ratios(to));
        Some(match target {
            Target::OfLimit(factor) => ratios(Contestant::Limit)?.median >= factor,
            Target::TimesPeer(factor) => ratios(Contestant::Peer)?.min >= factor,
            Target::OfPeerAtMost(factor) => ratios(Contestant::Peer)?.max <= factor,
            Target::AtMost(bound) => Spread::of(&self.of(Contestant::KubeGc))?.median <= bound,
        })
    }
}

/// The minimum, the median and the maximum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The minimum.
    pub min: f64,
    /// The median: the middle value, or the mean of the two middle values.
    pub median: f64,
    /// The maximum.
    pub max: f64,
}

impl Spread {
    /// The statistics of these values; `None` if there are none.
    pub fn of(numbers: &[f64]) -> Option<Self> {
        let mut sorted = numbers.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Some(Self { min, median, max })
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
         | | target | limit | peer | kube-gc | of the limit | of the peer | met |\n\
         |---|---|--:|--:|--:|--:|--:|---|\n",
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
fn met(targets: &[Target], samples: &Samples) -> &'static str {
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
