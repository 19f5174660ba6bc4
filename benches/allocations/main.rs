//! What the core costs in memory, counted: `make bench`, or
//! `cargo bench --bench allocations`. `-- --json` prints JSON instead of tables.
//!
//! Apart from the benchmark of time, because an allocator that counts costs some.
//! A block that grows in place counts as a new one of the new size.

#[expect(dead_code, reason = "the benchmark of time uses more of it")]
#[path = "../core/cluster.rs"]
mod cluster;
#[path = "../core/documents.rs"]
mod documents;

use std::fmt::Write as _;
use std::io::Write as _;

use allocation_counter::{AllocationInfo, measure};
use cluster::{BATCH, Cluster, batch, partition};
use documents::{ITEMS, Shape};
use kube_gc::benching;
use kube_gc::graph::{Change, Effects, Partition};
use kube_gc::object::ObjectFacts;
use serde_json::{Value, json};

/// A large cluster.
const OBJECTS: usize = 1_000_000;
/// What HTTP hands on at once when there is much to read.
const CHUNK: usize = 64 << 10;

fn main() -> std::io::Result<()> {
    let (decoding, graph) = (decoding(), graph());
    let report = if std::env::args().any(|argument| argument == "--json") {
        json!({ "decoding": decoding, "graph": graph }).to_string() + "\n"
    } else {
        let unit = "memory of decoding";
        let columns = ["bytes of JSON", "allocations", "bytes allocated", "bytes at the most", "bytes kept"];
        let mut text = table(unit, &columns, &decoding);
        text += &table("memory of the graph", &["objects", "references", "bytes per object"], &graph);
        text
    };
    std::io::stdout().write_all(report.as_bytes())
}

/// Per object of a body.
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

/// Counts what reading allocates, and what is left of it in the facts.
fn counted(read: impl FnOnce() -> Result<Vec<ObjectFacts>, String>) -> AllocationInfo {
    let mut facts = Ok(Vec::new());
    let info = measure(|| facts = read());
    assert_eq!(facts.map(|facts| facts.len()), Ok(ITEMS), "all of them are read");
    info
}

/// The graph's own account, the allocator's, and what the process has got more.
fn graph() -> Vec<Value> {
    let cluster = Cluster::new(OBJECTS);
    let mut partition = partition(&cluster);
    let before = resident();
    let info = measure(|| build(&mut partition, &cluster));
    let grown = resident().zip(before).map(|(now, before)| now.saturating_sub(before));
    let stats = partition.stats();
    let names: usize =
        cluster.types.iter().flat_map(|listing| &listing.objects).map(|facts| facts.name.len()).sum();
    let row = |what: &str, bytes: Option<u64>| {
        let each = bytes.map(|bytes| (bytes as f64 / stats.nodes as f64 * 10.0).round() / 10.0);
        json!({
            "what": what,
            "objects": stats.nodes,
            "references": stats.edges,
            "bytes per object": each,
        })
    };
    let live = info.bytes_current.unsigned_abs();
    vec![
        row("the names", Some(names as u64)),
        row("by its own account", Some(stats.bytes as u64)),
        row("by the allocator", Some(live)),
        row("by the allocator, without the names", Some(live - names as u64)),
        row("by the process (resident)", grown),
    ]
}

fn build(partition: &mut Partition, cluster: &Cluster) {
    let mut effects = Effects::default();
    for listing in &cluster.types {
        let mut apply = |changes: Vec<Change>| {
            partition.intake(batch(&listing.resource, changes), &mut effects);
            effects.clear();
        };
        apply(vec![Change::ListBegan]);
        for page in listing.objects.chunks(BATCH) {
            apply(page.iter().cloned().map(Change::Seen).collect());
        }
        apply(vec![Change::ListEnded { resource_version: None }]);
    }
}

/// What the process has in memory, where `/proc` says so.
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
