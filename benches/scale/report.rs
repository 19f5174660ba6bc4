//! The figures as Markdown and JSON.

use std::fmt::Write as _;

use serde::Serialize;

use crate::scenarios::{Churn, Deletion, Growth, Saturation, Size, Updates};

const MIB: f64 = 1024.0 * 1024.0;

/// The machine of the measurements.
#[derive(Clone, Debug, Serialize)]
pub struct Circumstances {
    pub date: String,
    pub processors: usize,
    pub kube_gc: String,
    /// The load of the machine before the measurements.
    pub load: f64,
}

/// All results.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    pub circumstances: Circumstances,
    pub sizes: Vec<Size>,
    pub updates: Option<Updates>,
    pub saturation: Option<Saturation>,
    pub churn: Option<Churn>,
    pub namespace: Option<Deletion>,
    pub growth: Vec<Growth>,
}

impl Results {
    /// All results as Markdown.
    pub fn markdown(&self) -> String {
        let Circumstances { date, processors, kube_gc, load } = &self.circumstances;
        let mut page = format!(
            "kube-gc {kube_gc}, {date}, {processors} processors, load {load:.2} at the beginning.\n\n"
        );
        self.targets(&mut page);
        if !self.sizes.is_empty() {
            page.push_str("\n| cluster | ");
            size_header(&mut page);
            for size in &self.sizes {
                let _ = write!(page, "| {} objects ", grouped(size.objects));
                size_cells(&mut page, size);
            }
        }
        if !self.growth.is_empty() {
            page.push_str("\n| what grows | ");
            size_header(&mut page);
            for Growth { of, count, size } in &self.growth {
                let _ = write!(page, "| {count} {of} ");
                size_cells(&mut page, size);
            }
        }
        page
    }

    fn targets(&self, page: &mut String) {
        page.push_str("| what | goal | measured | met |\n|---|---|---|---|\n");
        let mut row = |what: &str, goal: &str, measured: String, met: bool| {
            let _ = writeln!(page, "| {what} | {goal} | {measured} | {} |", if met { "yes" } else { "no" });
        };
        if let Some(size) = self.sizes.iter().find(|size| size.objects == 1_000_000).or(self.sizes.last()) {
            let objects = grouped(size.objects);
            row(
                &format!("graph per object, names left aside ({objects} objects)"),
                "≤ 100 B",
                format!("{:.0} B", size.without_names()),
                size.without_names() <= 100.0,
            );
            row(
                &format!("whole process ({objects} objects)"),
                "≤ 250 MiB at a million",
                format!("{:.0} MiB (peak {:.0})", size.resident / MIB, size.peak / MIB),
                size.resident <= 250.0 * MIB,
            );
            row(
                &format!("JSON per second and core, everything included ({objects} objects)"),
                "≥ 400 MB/s",
                format!(
                    "{:.0} MB/s ({:.0} on the threads that read)",
                    size.json_per_cpu() / 1e6,
                    size.json_per_reading_cpu() / 1e6
                ),
                size.json_per_cpu() >= 400e6,
            );
        }
        if let Some(saturation) = &self.saturation {
            row(
                "graph events per second and core",
                "≥ 1,000,000",
                format!(
                    "{} on the threads of the graph ({} per core of the whole process, {} in all)",
                    rounded(saturation.per_graph_core()),
                    rounded(saturation.per_core()),
                    rounded(saturation.per_second())
                ),
                saturation.per_graph_core() >= 1e6,
            );
        }
        if let Some(updates) = &self.updates {
            let of_the_graph = updates.graph_cores.map_or_else(String::new, |cores| {
                format!(" ({:.1} % on the threads of the graph)", cores * 100.0)
            });
            row(
                &format!("{} irrelevant updates a second", rounded(updates.per_second)),
                "≤ 10 % of a core",
                format!("{:.1} %{of_the_graph}", updates.cores * 100.0),
                updates.cores <= 0.1,
            );
        }
        if let Some(churn) = &self.churn {
            let first = churn.course.resident.first().map_or(0.0, |&(_, resident)| resident);
            let last = churn.course.resident.last().map_or(0.0, |&(_, resident)| resident);
            row(
                &format!("memory over {:.0} s of 500 creates and 500 deletes a second", churn.seconds),
                "flat",
                format!(
                    "{:.1} → {:.1} MiB, {:+.1} MiB an hour; {:.1} % of a core",
                    first / MIB,
                    last / MIB,
                    churn.slope / MIB,
                    churn.cores * 100.0
                ),
                churn.slope.abs() <= 0.05 * first,
            );
        }
        if let Some(deletion) = &self.namespace {
            let given_back = deletion.before - deletion.after();
            row(
                &format!("memory after a namespace of {} objects was deleted", grouped(deletion.objects)),
                "returned",
                format!(
                    "{:.0} → {:.0} MiB; graph {:.0} → {:.0} MiB; seen after {:.1} s, {} deleted by request",
                    deletion.before / MIB,
                    deletion.after() / MIB,
                    deletion.graph_before / MIB,
                    deletion.graph_after / MIB,
                    deletion.seconds,
                    grouped(deletion.by_requests)
                ),
                given_back >= 0.5 * (deletion.graph_before - deletion.graph_after),
            );
        }
    }
}

fn size_header(page: &mut String) {
    page.push_str(
        "references | types | graph, B/object | … without names | RSS, MiB | peak, MiB | start to ready, s | CPU, s | … of the graph | JSON, MB | MB/s per core |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
}

fn size_cells(page: &mut String, size: &Size) {
    let _ = writeln!(
        page,
        "| {} | {} | {:.0} | {:.0} | {:.1} | {:.1} | {:.2} | {:.2} | {:.2} | {:.0} | {:.0} |",
        grouped(size.edges),
        size.types,
        size.bytes_per_object(),
        size.without_names(),
        size.resident / MIB,
        size.peak / MIB,
        size.seconds,
        size.cpu,
        size.graph_cpu,
        size.json_bytes as f64 / 1e6,
        size.json_per_cpu() / 1e6,
    );
}

/// A number with commas between the thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn rounded(number: f64) -> String {
    grouped(number.max(0.0).round() as u64)
}
