//! All figures as JSON.

use serde_json::{Map, Value, json};

use super::{Circumstances, Result};
use crate::figure::{Contestant, Figure, Samples};
use crate::statistics::Spread;

/// The whole document.
pub fn document(circumstances: &Circumstances, results: &[Result]) -> Value {
    let rows = results.iter().map(|result| {
        let figures = result.figures.iter();
        let figures: Vec<_> = figures.map(|(figure, samples)| one(figure, samples)).collect();
        json!({"name": result.name, "about": result.about, "figures": figures})
    });
    json!({"circumstances": circumstances, "rows": rows.collect::<Vec<_>>()})
}

fn one(figure: &Figure, samples: &Samples) -> Value {
    let targets = figure.targets.iter();
    let targets: Vec<_> =
        targets.map(|target| json!({"target": target.text(), "met": samples.meets(*target)})).collect();
    let contestants = Contestant::ALL.iter();
    let contestants: Map<_, _> =
        contestants.map(|one| (one.name().to_owned(), numbers(&samples.of(*one)))).collect();
    let turns = Contestant::ALL.iter();
    let turns: Map<_, _> = turns.map(|one| (one.name().to_owned(), json!(samples.turns(*one)))).collect();
    json!({
        "key": figure.key, "title": figure.title, "unit": figure.unit, "targets": targets,
        "contestants": contestants,
        "turns": turns,
        "kube-gc over": {
            "limit": numbers(&samples.ratios(Contestant::Limit)),
            "peer": numbers(&samples.ratios(Contestant::Peer)),
        },
    })
}

fn numbers(numbers: &[f64]) -> Value {
    json!({"samples": numbers, "spread": Spread::of(numbers)})
}
