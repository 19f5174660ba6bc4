//! The table.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};

use crate::contestants::Turn;

/// A title, how many digits are shown, and the number of a turn.
type Figure = (&'static str, usize, fn(&Turn) -> f64);

const FIGURES: [Figure; 6] = [
    ("idle pass: calls", 1, |it| it.idle.calls),
    ("idle pass: CPU (ms)", 2, |it| it.idle.cpu_milliseconds),
    ("300 dead containers: calls for each", 2, |it| it.containers.calls_for_each),
    ("300 dead containers: time (ms)", 0, |it| it.containers.milliseconds),
    ("50 unused images: calls for each", 2, |it| it.images.calls_for_each),
    ("50 unused images: time (ms)", 0, |it| it.images.milliseconds),
];

/// What each contestant took, by round, in Markdown.
pub fn page(kubelet: &[Turn], kube_gc: &[Turn]) -> Result<String> {
    let mut page = format!(
        "{} rounds. Each cell is the median, with the least and the greatest.\n\n\
         | 500 containers, 1,000 images | kubelet 1.20.2 | kube-gc |\n|---|--:|--:|\n",
        kube_gc.len()
    );
    for (title, digits, of) in FIGURES {
        let [theirs, ours] = [kubelet, kube_gc].map(|side| cell(side.iter().map(of).collect(), digits));
        writeln!(page, "| {title} | {} | {} |", theirs?, ours?)?;
    }
    Ok(page)
}

fn cell(mut numbers: Vec<f64>, digits: usize) -> Result<String> {
    numbers.sort_by(f64::total_cmp);
    let (least, greatest) = (numbers.first().context("no numbers")?, numbers.last().context("no numbers")?);
    let upper = numbers.len() / 2;
    let median = f64::midpoint(numbers[(numbers.len() - 1) / 2], numbers[upper]);
    Ok(format!("{median:.digits$} ({least:.digits$}–{greatest:.digits$})"))
}
