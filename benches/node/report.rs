//! The table.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};

use crate::contestants::Turn;

/// What each contestant took, by round.
#[derive(Default)]
pub struct Table {
    kubelet: Vec<Turn>,
    kube_gc: Vec<Turn>,
}

/// One kind of value.
struct Figure {
    title: &'static str,
    digits: usize,
    of: fn(&Turn) -> f64,
    target: Target,
}

enum Target {
    /// At most this, in the median.
    AtMost(f64),
    /// At most this multiple of the kubelet's, in the median of the rounds.
    OfKubelet(f64),
    /// Whatever it is.
    None,
}

const FIGURES: [Figure; 7] = [
    Figure { title: "idle pass: calls", digits: 1, of: |it| it.idle.calls, target: Target::AtMost(4.0) },
    Figure {
        title: "idle pass: CPU (ms)",
        digits: 2,
        of: |it| it.idle.cpu_milliseconds,
        target: Target::AtMost(5.0),
    },
    Figure {
        title: "memory, largest (MiB)",
        digits: 1,
        of: |it| it.idle.peak_mib,
        target: Target::AtMost(15.0),
    },
    Figure {
        title: "300 dead containers: calls for each",
        digits: 2,
        of: |it| it.containers.calls_for_each,
        target: Target::AtMost(2.0),
    },
    Figure {
        title: "300 dead containers: time (ms)",
        digits: 0,
        of: |it| it.containers.milliseconds,
        target: Target::OfKubelet(0.5),
    },
    Figure {
        title: "50 unused images: calls for each",
        digits: 2,
        of: |it| it.images.calls_for_each,
        target: Target::None,
    },
    Figure {
        title: "50 unused images: time (ms)",
        digits: 0,
        of: |it| it.images.milliseconds,
        target: Target::None,
    },
];

impl Table {
    pub fn kubelet(&mut self, turn: Turn) {
        self.kubelet.push(turn);
    }

    pub fn kube_gc(&mut self, turn: Turn) {
        self.kube_gc.push(turn);
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
                Target::None => "–".to_owned(),
            };
            let numbers = |side: &[Turn]| side.iter().map(figure.of).collect::<Vec<_>>();
            let (kubelet, kube_gc) = (numbers(&self.kubelet), numbers(&self.kube_gc));
            writeln!(
                page,
                "| {} | {target} | {} | {} | {} | {} |",
                figure.title,
                cell(&kubelet, figure.digits)?,
                cell(&kube_gc, figure.digits)?,
                cell(&self.ratios(figure), 2)?,
                match self.meets(figure) {
                    None => "–",
                    Some(true) => "yes",
                    Some(false) => "**no**",
                }
            )?;
        }
        Ok(page)
    }

    pub fn is_met(&self) -> bool {
        FIGURES.iter().all(|figure| self.meets(figure) != Some(false))
    }

    /// Whether a target is met; nothing without a target.
    fn meets(&self, figure: &Figure) -> Option<bool> {
        let (numbers, most) = match figure.target {
            Target::None => return None,
            Target::AtMost(most) => (self.kube_gc.iter().map(figure.of).collect(), most),
            Target::OfKubelet(most) => (self.ratios(figure), most),
        };
        Some(median(&numbers).is_some_and(|median| median <= most))
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
