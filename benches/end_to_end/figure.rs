//! What is measured of whom, and what is wanted of it.

use serde::Serialize;

use crate::statistics::Spread;

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contestant {
    /// A bare client that knows everything beforehand.
    Limit,
    /// The garbage collector of kube-controller-manager.
    Peer,
    /// This one.
    KubeGc,
}

impl Contestant {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Limit, Self::Peer, Self::KubeGc];

    /// What it is called in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Peer => "peer",
            Self::KubeGc => "kube-gc",
        }
    }
}

/// One kind of number that a row measures.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// What it is called in the JSON; unique within the row.
    pub key: &'static str,
    /// What it is called in the table.
    pub title: &'static str,
    /// What it is counted in.
    pub unit: &'static str,
    /// How many digits follow the point.
    pub digits: usize,
    /// What kube-gc is to reach; all of it.
    pub targets: &'static [Target],
}

/// What kube-gc is to reach. A ratio is always one of two numbers of the same round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// So many times the limit or more, in the median of the rounds.
    OfLimit(f64),
    /// So many times the peer or more, in every round.
    TimesPeer(f64),
    /// So many times the peer or less, in every round.
    OfPeerAtMost(f64),
    /// So much or less, in the median of the rounds.
    AtMost(f64),
}

impl Target {
    /// As it is written in the table.
    pub fn text(self) -> String {
        match self {
            Self::OfLimit(factor) => format!("≥ {factor} × limit"),
            Self::TimesPeer(factor) => format!("≥ {factor} × peer in every round"),
            Self::OfPeerAtMost(factor) => format!("≤ {factor} × peer in every round"),
            Self::AtMost(bound) => format!("≤ {bound}"),
        }
    }
}

/// Numbers of one figure. That of a round is the median of its turns; there is none where
/// nobody measured it.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Each contestant's turns, by round.
    rounds: Vec<[Vec<f64>; 3]>,
}

impl Samples {
    /// Adds what a contestant measured in a turn of a round.
    pub fn add(&mut self, round: usize, contestant: Contestant, value: f64) {
        if self.rounds.len() <= round {
            self.rounds.resize(round + 1, [const { Vec::new() }; 3]);
        }
        self.rounds[round][contestant as usize].push(value);
    }

    /// What a contestant measured, in the order of the rounds.
    pub fn of(&self, contestant: Contestant) -> Vec<f64> {
        self.rounds.iter().filter_map(|round| in_round(round, contestant)).collect()
    }

    /// All that a contestant measured: the turns of each round.
    pub fn turns(&self, contestant: Contestant) -> Vec<&[f64]> {
        self.rounds.iter().map(|round| round[contestant as usize].as_slice()).collect()
    }

    /// kube-gc's number over another one's, in each round that has both.
    pub fn ratios(&self, to: Contestant) -> Vec<f64> {
        let pairs = self.rounds.iter().filter_map(|round| {
            let (ours, other) = (in_round(round, Contestant::KubeGc)?, in_round(round, to)?);
            (other != 0.0).then(|| ours / other)
        });
        pairs.collect()
    }

    /// Whether a target is met; `None` if what it takes was not measured.
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
