//! Measures the memory of the core: `make bench`, or `cargo bench --bench allocations`. `--
//! --json` prints JSON instead of tables.
//!
//! This is not part of the time benchmark, because counting allocations takes time. A block that
//! grows in place counts as a new one of the new size.

#[expect(dead_code, reason = "the benchmark of time uses more of it")]
#[path = "../core/cluster.rs"]
mod cluster;
#[path = "../core/documents.rs"]
mod documents;
mod graph;
#[allow(dead_code, unused_imports, reason = "the benchmark of large clusters uses more of it")]
#[path = "../scale/cluster/mod.rs"]
mod large;

use std::fmt::Write as _;
use std::io::Write as _;
use std::num::NonZeroU16;

use allocation_counter::{AllocationInfo, measure};
use documents::{ITEMS, Shape};
use graph::Graph;
use kube_gc::benching;
use kube_gc_core::object::ObjectFacts;
use serde_json::{Value, json};

/// A large cluster.
const OBJECTS: u64 = 1_000_000;
/// The length of a chunk from HTTP when there is much to read.
const CHUNK: usize = 64 << 10;

fn main() -> std::io::Result<()> {
    let (decoding, graph) = (decoding(), graph_rows().map_err(std::io::Error::other)?);
    let report = if std::env::args().any(|argument| argument == "--json") {
        json!({ "decoding": decoding, "graph": graph }).to_string() + "\n"
    } else {
        let unit = "memory of decoding";
        let columns = ["bytes of JSON", "allocations", "bytes allocated", "bytes at the most", "bytes kept"];
        let mut text = table(unit, &columns, &decoding);
        text += &table(
            "memory of the graph",
            &["objects", "references", "bytes per object", "pieces per object"],
            &graph,
        );
        text
    };
    std::io::stdout().write_all(report.as_bytes())
}

/// Allocations for each object of a body.
fn decoding() -> Vec<Value> {
    let mut rows = Vec::new();
    for shape in Shape::ALL {
        let (page, watch) = (shape.page(), shape.watch());
        let row = |what: &str, body: &[u8], info: AllocationInfo| {
            let each = |total: u64| (total as f64 / ITEMS as f64 * 10.0).round() / 10.0;
            json!({
                "what": format!("{what} {}", shape.name()),
                "bytes of JSON": each(body.len() as u64),
                "allocations": each(info.count_total),
                "bytes allocated": each(info.bytes_total),
                "bytes at the most": each(info.bytes_max),
                "bytes kept": each(info.bytes_current.unsigned_abs()),
            })
        };
        rows.push(row("a page of", &page, counted(|| benching::list(page.chunks(CHUNK)))));
        rows.push(row("watch events of", &watch, counted(|| benching::watch(watch.chunks(CHUNK)))));
    }
    rows
}

/// Counts what reading allocates, and what the facts keep of it.
fn counted(read: impl FnOnce() -> Result<Vec<ObjectFacts>, String>) -> AllocationInfo {
    let mut facts = Ok(Vec::new());
    let info = measure(|| facts = read());
    assert_eq!(facts.map(|facts| facts.len()), Ok(ITEMS), "all of them are read");
    info
}

/// Compares the graph's own account, the allocator's, and the growth of the process.
fn graph_rows() -> Result<Vec<Value>, String> {
    let before = resident();
    let graph = Graph::new(OBJECTS, NonZeroU16::MIN.saturating_add(1))?;
    let grown = resident().zip(before).map(|(now, before)| now.saturating_sub(before));
    let each = |count: u64| (count as f64 / graph.objects as f64 * 10.0).round() / 10.0;
    let row = |what: &str, bytes: Option<u64>, pieces: Option<u64>| {
        json!({
            "what": what,
            "objects": graph.objects,
            "references": graph.references(),
            "bytes per object": bytes.map(each),
            "pieces per object": pieces.map(each),
        })
    };
    let counted = graph.bytes() as u64;
    let live = graph.allocated.bytes_current.unsigned_abs();
    let pieces = graph.allocated.count_current.unsigned_abs();
    Ok(vec![
        row("by its own account", Some(counted), None),
        row("by its own account, without the letters of the names", Some(counted - graph.names as u64), None),
        row("by the allocator", Some(live), Some(pieces)),
        row("by the allocator, without the letters", Some(live - graph.names as u64), None),
        row("by the process (resident)", grown, None),
    ])
}

/// The resident memory of the process, where `/proc` exists.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
}

fn table(title: &str, columns: &[&str], rows: &[Value]) -> String {
    let mut text = format!("\n{title:<40}");
    for column in columns {
        let _ = write!(text, " {column:>17}");
    }
    for row in rows {
        let _ = write!(text, "\n{:<40}", row["what"].as_str().unwrap_or_default());
        for column in columns {
            let _ = write!(text, " {:>17}", row[column].to_string());
        }
    }
    text + "\n"
}
