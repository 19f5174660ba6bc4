//! The text output, with colours.

use std::fmt::{self, Write as _};

use anstyle::{AnsiColor, Style};

use super::report::{Item, Overview, Pass, Plan, Removal};
use crate::demo::output::{Styled, TITLE, compose, wrapped};
use kube_gc_node::plan::Breakdown;

const ITEM: Style = Style::new().bold();
const GOES: Style = AnsiColor::Red.on_default();
const STAYS: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Yellow.on_default();
const QUIET: Style = Style::new().dimmed();
/// The width of the names of items.
const NAMES: usize = 36;

/// A size, as people say it.
fn size(bytes: u64) -> String {
    const GIB: u64 = 1 << 30;
    if bytes.is_multiple_of(GIB) {
        format!("{} GiB", bytes / GIB)
    } else if bytes < GIB {
        format!("{} KiB", bytes.div_ceil(1024))
    } else {
        format!("{}.{} GiB", bytes / GIB, bytes % GIB * 10 / GIB)
    }
}

pub fn begin(overview: &Overview) -> String {
    let Overview { capacity_bytes, used_bytes, percent, pods, containers, sandboxes, images, high, low } =
        overview;
    compose(|out| {
        writeln!(out, "{}", Styled(TITLE, "kube-gc demo --node"))?;
        writeln!(
            out,
            "A container runtime, a Kubernetes API server and node collection, all in this process.\n"
        )?;
        writeln!(out, "  {pods} pods, {containers} containers, {sandboxes} sandboxes, {images} images")?;
        writeln!(
            out,
            "  The disk of the images: {} of {} used, {percent} %. Images go from {high} % on, down to {low} %.",
            size(*used_bytes),
            size(*capacity_bytes)
        )
    })
}

/// What goes and what stays, and what fills the disk.
pub fn plan(plan: &Plan) -> String {
    compose(|out| {
        writeln!(out, "\n  {}", Styled(ITEM, format_args!("The plan at {} %", plan.percent)))?;
        let (go, stay): (Vec<&Item>, Vec<&Item>) = plan.items.iter().partition(|item| item.removes);
        for item in go {
            entry(out, item, GOES, "remove")?;
        }
        for item in stay {
            entry(out, item, STAYS, "keep")?;
        }
        let Breakdown { in_use, unused, kept, dead_containers, other } = plan.breakdown;
        writeln!(
            out,
            "  {} Images in use {}, unused {}, kept {}; dead containers {}; all else {}.",
            Styled(ITEM, format_args!("{} to free.", size(plan.wanted_bytes))),
            size(in_use),
            size(unused),
            size(kept),
            size(dead_containers),
            size(other)
        )
    })
}

fn entry(out: &mut String, item: &Item, style: Style, word: &str) -> fmt::Result {
    let Item { what, name, rule, reason, bytes, .. } = item;
    let bytes = bytes.filter(|_| *what == "image").map(size).unwrap_or_default();
    // A width does not apply to a text in a style.
    let gap = " ".repeat(NAMES.saturating_sub(name.chars().count()));
    writeln!(
        out,
        "    {} {what:<9} {}{gap} {bytes:>6}  {rule:<3} {}",
        Styled(style, format_args!("{word:<6}")),
        Styled(ITEM, name),
        Styled(QUIET, reason)
    )
}

/// What came of the plan.
pub fn pass(pass: &Pass, verified: &[String]) -> String {
    compose(|out| {
        let removed = pass.removals.iter().filter(|removal| removal.outcome == "removed").count();
        writeln!(
            out,
            "\n  {} {removed} removed in {:.1} ms; the disk is {} % full.",
            Styled(ITEM, "Carried out:"),
            pass.milliseconds,
            pass.percent
        )?;
        for Removal { what, name, reason, .. } in
            pass.removals.iter().filter(|removal| removal.reason.is_some())
        {
            let reason = reason.as_deref().unwrap_or_default();
            writeln!(out, "    {} {what:<9} {}  {reason}", Styled(BAD, "stays "), Styled(ITEM, name))?;
        }
        if pass.missing_bytes > 0 {
            writeln!(out, "    {} could not be freed", Styled(BAD, size(pass.missing_bytes)))?;
        }
        for verified in verified {
            for (at, line) in wrapped(verified, 90).iter().enumerate() {
                writeln!(out, "    {} {line}", Styled(STAYS, if at == 0 { "✓" } else { " " }))?;
            }
        }
        Ok(())
    })
}
