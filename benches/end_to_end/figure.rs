//! The figures of a row, and their targets.

use serde::Serialize;

use crate::statistics::Spread;

/// The contestants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contestant {
    /// A bare client that knows everything in advance.
    Limit,
    /// The garbage collector of kube-controller-manager.
    Peer,
    /// kube-gc.
    KubeGc,
}

impl Contestant {
    /// All contestants.
    pub const ALL: [Self; 3] = [Self::Limit, Self::Peer, Self::KubeGc];

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Peer => "peer",
            Self::KubeGc => "kube-gc",
        }
    }
}

/// One kind of value that a row measures.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its name in the JSON, unique within the row.
    pub key: &'static str,
    /// Its name in the table.
    pub title: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The number of decimals.
    pub digits: usize,
    /// The targets of kube-gc. All must be met.
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

/// The values of one figure. The value of a round is the median of its turns, or missing if it
/// was not measured.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Each contestant's turns, by round.
    rounds: Vec<[Vec<f64>; 3]>,
}

impl Samples {
    /// Adds the value that a contestant measured in a turn of a round.
    pub fn add(&mut self, round: usize, contestant: Contestant, value: f64) {
        if self.rounds.len() <= round {
            self.rounds.resize(round + 1, [const { Vec::new() }; 3]);
        }
        self.rounds[round][contestant as usize].push(value);
    }

    /// The values of a contestant, in the order of the rounds.
    pub fn of(&self, contestant: Contestant) -> Vec<f64> {
        self.rounds.iter().filter_map(|round| in_round(round, contestant)).collect()
    }

    /// All values of a contestant: the turns of each round.
    pub fn turns(&self, contestant: Contestant) -> Vec<&[f64]> {
        self.rounds.iter().map(|round| round[contestant as usize].as_slice()).collect()
    }

    /// The ratios of kube-gc to another contestant, in each round that has both values.
    pub fn ratios(&self, to: Contestant) -> Vec<f64> {
        let pairs = self.rounds.iter().filter_map(|round| {
            let (ours, other) = (in_round(round, Contestant::KubeGc)?, in_round(round, to)?);
            (other != 0.0).then(|| ours / other)
        });
        pairs.collect()
    }

    /// Whether a target is met; `None` if it was not measured.
    pub fn meets(&self, target: Target) -> Option<bool> {
        match target {
            Target::OfLimit(factor) => {
                Spread::of(&self.ratios(Contestant::Limit)).map(|ratio| ratio.median >= factor)
            }
            Target::TimesPeer(factor) => {
                Spread::of(&self.ratios(Contestant::Peer)).map(|ratio| ratio.min >= factor)
            }
            Target::OfPeerAtMost(factor) => {
                Spread::of(&self.ratios(Contestant::Peer)).map(|ratio| ratio.max <= factor)
            }
            Target::AtMost(bound) => {
                Spread::of(&self.of(Contestant::KubeGc)).map(|ours| ours.median <= bound)
            }
        }
    }
}

fn in_round(round: &[Vec<f64>; 3], contestant: Contestant) -> Option<f64> {
    Spread::of(&round[contestant as usize]).map(|turns| turns.median)
}
