//! The table.

use std::fmt::Write as _;

use anyhow::Result;

use crate::contestants::Turn;

/// A title, how many digits are shown, and the number of a turn.
type Figure = (&'static str, usize, fn(&Turn) -> Option<f64>);

const FIGURES: [Figure; 8] = [
    ("idle pass: calls", 1, |it| Some(it.idle.calls)),
    ("idle pass: CPU (ms)", 2, |it| Some(it.idle.cpu_milliseconds)),
    ("300 dead containers: calls for each", 2, |it| Some(it.containers.calls_for_each)),
    ("300 dead containers: time (ms)", 0, |it| Some(it.containers.milliseconds)),
    ("50 unused images: calls for each", 2, |it| Some(it.images.calls_for_each)),
    ("50 unused images: time (ms)", 0, |it| Some(it.images.milliseconds)),
    ("pass over 2,000 images and 1,800 containers: time (ms)", 0, |it| Some(it.large?.milliseconds)),
    ("pass over 2,000 images and 1,800 containers: memory (MiB)", 1, |it| Some(it.large?.mebibytes)),
];

/// What each contestant took, by round, in Markdown.
pub fn page(kubelet: &[Turn], kube_gc: &[Turn]) -> Result<String> {
    let mut page = format!(
        "{} rounds. Each cell is the median, with the least and the greatest.\n\n\
         | 500 containers, 1,000 images | kubelet 1.20.2 | kube-gc |\n|---|--:|--:|\n",
        kube_gc.len()
    );
    for (title, digits, of) in FIGURES {
        let [theirs, ours] =
            [kubelet, kube_gc].map(|side| cell(side.iter().filter_map(of).collect(), digits));
        writeln!(page, "| {title} | {theirs} | {ours} |")?;
    }
    Ok(page)
}

fn cell(mut numbers: Vec<f64>, digits: usize) -> String {
    numbers.sort_by(f64::total_cmp);
    let (Some(least), Some(greatest)) = (numbers.first(), numbers.last()) else { return "–".to_owned() };
    let upper = numbers.len() / 2;
    let median = f64::midpoint(numbers[(numbers.len() - 1) / 2], numbers[upper]);
    format!("{median:.digits$} ({least:.digits$}–{greatest:.digits$})")
}
