//! The table.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};

use crate::contestants::{Idle, Removal};

/// What each contestant took, by round.
#[derive(Default)]
pub struct Table {
    kubelet: Vec<(Idle, Removal)>,
    kube_gc: Vec<(Idle, Removal)>,
}

/// One kind of value.
struct Figure {
    title: &'static str,
    digits: usize,
    of: fn(&(Idle, Removal)) -> f64,
    target: Target,
}

enum Target {
    /// At most this, in the median.
    AtMost(f64),
    /// At most this multiple of the kubelet's, in the median of the rounds.
    OfKubelet(f64),
}

const FIGURES: [Figure; 5] = [
    Figure { title: "idle pass: calls", digits: 1, of: |it| it.0.calls, target: Target::AtMost(4.0) },
    Figure {
        title: "idle pass: CPU (ms)",
        digits: 2,
        of: |it| it.0.cpu_milliseconds,
        target: Target::AtMost(5.0),
    },
    Figure {
        title: "memory, largest (MiB)",
        digits: 1,
        of: |it| it.0.peak_mib,
        target: Target::AtMost(15.0),
    },
    Figure {
        title: "300 dead containers: calls for each",
        digits: 2,
        of: |it| it.1.calls_per_container,
        target: Target::AtMost(2.0),
    },
    Figure {
        title: "300 dead containers: time (ms)",
        digits: 0,
        of: |it| it.1.milliseconds,
        target: Target::OfKubelet(0.5),
    },
];

impl Table {
    pub fn kubelet(&mut self, idle: Idle, removal: Removal) {
        self.kubelet.push((idle, removal));
    }

    pub fn kube_gc(&mut self, idle: Idle, removal: Removal) {
        self.kube_gc.push((idle, removal));
    }

    /// The table in Markdown.
    pub fn page(&self) -> Result<String> {
        let mut page = format!(
            "{} rounds. Each cell is the median, with the least and the greatest; ratios are of numbers of \
             the same round.\n\n\
             | 500 containers, 1,000 images | target | kubelet 1.20.2 | kube-gc | of the kubelet | met |\n\
             |---|---|--:|--:|--:|---|\n",
            self.kube_gc.len()
        );
        for figure in &FIGURES {
            let target = match figure.target {
                Target::AtMost(most) => format!("≤ {most}"),
                Target::OfKubelet(most) => format!("≤ {most} × kubelet"),
            };
            let numbers = |side: &[(Idle, Removal)]| side.iter().map(figure.of).collect::<Vec<_>>();
            let (kubelet, kube_gc) = (numbers(&self.kubelet), numbers(&self.kube_gc));
            writeln!(
                page,
                "| {} | {target} | {} | {} | {} | {} |",
                figure.title,
                cell(&kubelet, figure.digits)?,
                cell(&kube_gc, figure.digits)?,
                cell(&self.ratios(figure), 2)?,
                if self.meets(figure) { "yes" } else { "**no**" }
            )?;
        }
        Ok(page)
    }

    pub fn is_met(&self) -> bool {
        FIGURES.iter().all(|figure| self.meets(figure))
    }

    fn meets(&self, figure: &Figure) -> bool {
        let (numbers, most) = match figure.target {
            Target::AtMost(most) => (self.kube_gc.iter().map(figure.of).collect(), most),
            Target::OfKubelet(most) => (self.ratios(figure), most),
        };
        median(&numbers).is_some_and(|median| median <= most)
    }

    fn ratios(&self, figure: &Figure) -> Vec<f64> {
        let pairs = self.kube_gc.iter().zip(&self.kubelet);
        pairs.map(|(ours, theirs)| (figure.of)(ours) / (figure.of)(theirs)).collect()
    }
}

fn sorted(numbers: &[f64]) -> Vec<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn median(numbers: &[f64]) -> Option<f64> {
    let sorted = sorted(numbers);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 { Some(upper) } else { Some(f64::midpoint(sorted[sorted.len() / 2 - 1], upper)) }
}

fn cell(numbers: &[f64], digits: usize) -> Result<String> {
    let sorted = sorted(numbers);
    let (least, greatest) = (sorted.first().context("no numbers")?, sorted.last().context("no numbers")?);
    let median = median(numbers).context("no numbers")?;
    Ok(format!("{median:.digits$} ({least:.digits$}–{greatest:.digits$})"))
}
