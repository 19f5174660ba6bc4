//! Draws panels as SVG from the results of their own queries in Prometheus. The picture resembles
//! Grafana, but is not made by it.

use std::fmt::Write as _;

use crate::dashboard::{Kind, Panel};
use crate::prometheus::Series;

/// The size of the picture and of its parts, in pixels.
const WIDTH: f64 = 1200.0;
const GAP: f64 = 8.0;
const STAT_HEIGHT: f64 = 84.0;
const HEIGHT: f64 = 216.0;
/// The number of panels in a row.
const COLUMNS: usize = 3;
/// The maximum number of lines that a reader can distinguish. The highest ones are drawn.
const LINES: usize = 8;
const PALETTE: [&str; LINES] =
    ["#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#f2495c", "#b877d9", "#8ab8ff", "#ffcb7d"];

/// A series with its name.
#[derive(Debug)]
pub struct Line {
    name: String,
    samples: Vec<(f64, f64)>,
}

impl Line {
    /// A series whose name is the filled-in legend.
    pub fn new(legend: &str, series: Series) -> Self {
        let mut parts = legend.split("{{");
        let mut name = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (label, rest) = part.split_once("}}").unwrap_or((part, ""));
            // Here, the instance and the pod have the same name.
            let again = label == "instance" && name.trim_end() == series.label("pod");
            name += if again { "" } else { series.label(label) };
            name += rest;
        }
        let name = name.trim().replace("garbage_collector_", "");
        Self { name, samples: series.samples.into_iter().filter(|(_, value)| value.is_finite()).collect() }
    }

    fn highest(&self) -> f64 {
        self.samples.iter().map(|(_, value)| *value).fold(0.0, f64::max)
    }

    fn last(&self) -> Option<f64> {
        self.samples.last().map(|(_, value)| *value)
    }
}

/// A part of the picture.
#[derive(Clone, Copy)]
struct Area {
    x: f64,
    y: f64,
    w: f64,
    h: f64,
}

/// The period of time that is drawn, in seconds.
#[derive(Clone, Copy)]
struct Span {
    begin: f64,
    length: f64,
}

impl Span {
    fn x(self, area: Area, time: f64) -> f64 {
        area.x + (time - self.begin) / self.length * area.w
    }
}

/// The picture.
pub fn drawn(panels: &[(&Panel, Vec<Line>)], begin: f64, length: f64) -> String {
    let span = Span { begin, length };
    let (stats, others): (Vec<_>, Vec<_>) = panels.iter().partition(|(panel, _)| panel.kind == Kind::Stat);
    let rows = others.len().div_ceil(COLUMNS);
    let height = GAP + STAT_HEIGHT + GAP + count(rows) * (HEIGHT + GAP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"11\" fill=\"#ccccdc\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#111217\"/>\n"
    );
    let in_line = |index: usize, of: usize, y: f64, h: f64| {
        let w = (WIDTH - GAP) / count(of) - GAP;
        Area { x: GAP + count(index) * (w + GAP), y, w, h }
    };
    for (index, (panel, lines)) in stats.iter().enumerate() {
        let area = in_line(index, stats.len(), GAP, STAT_HEIGHT);
        frame(&mut svg, panel, area);
        stat(&mut svg, panel, lines, area);
    }
    for (index, (panel, lines)) in others.iter().enumerate() {
        let y = GAP + STAT_HEIGHT + GAP + count(index / COLUMNS) * (HEIGHT + GAP);
        let area = in_line(index % COLUMNS, COLUMNS, y, HEIGHT);
        frame(&mut svg, panel, area);
        if panel.kind == Kind::StateTimeline {
            states(&mut svg, panel, lines, area, span);
        } else {
            curves(&mut svg, panel, lines, area, span);
        }
    }
    svg + "</svg>\n"
}

#[allow(clippy::cast_precision_loss)]
fn count(number: usize) -> f64 {
    number as f64
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn text(svg: &mut String, (x, y): (f64, f64), attributes: &str, content: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.0}\" y=\"{y:.0}\" {attributes}>{}</text>", escaped(content));
}

fn frame(svg: &mut String, panel: &Panel, Area { x, y, w, h }: Area) {
    let _ = writeln!(
        svg,
        "<rect x=\"{x:.0}\" y=\"{y:.0}\" width=\"{w:.0}\" height=\"{h:.0}\" rx=\"2\" fill=\"#181b1f\" stroke=\"#2c3035\"/>"
    );
    text(svg, (x + 8.0, y + 18.0), "font-size=\"12\" font-weight=\"bold\"", &panel.title);
}

fn color(name: &str) -> &str {
    match name {
        "green" => "#73bf69",
        "red" => "#f2495c",
        "orange" => "#ff9830",
        "blue" => "#5794f2",
        other => other,
    }
}

/// The text and the colour of a value.
fn shown(panel: &Panel, value: f64) -> (String, &str) {
    let named = panel.values.iter().find(|(number, ..)| (number - value).abs() < 1e-9);
    if let Some((_, name, of)) = named {
        return (name.clone(), color(of));
    }
    let limit = panel.limits.iter().rev().find(|(from, _)| value >= *from).or(panel.limits.first());
    (number(&panel.unit, value), limit.map_or("#73bf69", |(_, of)| color(of)))
}

fn number(unit: &str, value: f64) -> String {
    let plain = |value: f64| {
        let digits =
            if value == value.trunc() { 0 } else { usize::from(value < 10.0) + usize::from(value < 1.0) };
        format!("{value:.digits$}")
    };
    match unit {
        "percentunit" => format!("{} %", plain((value * 1000.0).round() / 10.0)),
        "bytes" => format!("{} MiB", plain((value / 1024.0 / 1024.0 * 10.0).round() / 10.0)),
        "s" if value > 0.0 && value < 1.0 => format!("{} ms", plain((value * 10000.0).round() / 10.0)),
        "s" => format!("{} s", plain(value)),
        "ops" | "reqps" => format!("{}/s", plain(value)),
        _ => plain(value),
    }
}

fn stat(svg: &mut String, panel: &Panel, lines: &[Line], Area { x, y, w, h }: Area) {
    let value = lines.first().and_then(Line::last);
    let (content, fill) =
        value.map_or_else(|| ("No data".to_owned(), "#ccccdc"), |value| shown(panel, value));
    let attributes = format!("font-size=\"26\" text-anchor=\"middle\" fill=\"{fill}\"");
    text(svg, (x + w / 2.0, y + h - 20.0), &attributes, &content);
}

/// Draws the axes, with times below.
fn axes(svg: &mut String, Area { x, y, w, h }: Area, left: f64, below: f64, span: Span) -> Area {
    let area = Area { x: x + left, y: y + 30.0, w: w - left - 12.0, h: h - 30.0 - below };
    for part in 0..=4 {
        let after = span.length * f64::from(part) / 4.0;
        let at = (span.x(area, span.begin + after), area.y + area.h + 14.0);
        text(svg, at, "font-size=\"9\" text-anchor=\"middle\" fill=\"#8e8e99\"", &format!("{after:.0} s"));
    }
    area
}

/// The smallest of 1, 2 or 5 times a power of ten that is not less.
fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|step| step * power)
        .into_iter()
        .find(|step| *step >= value * 0.999)
        .unwrap_or(value)
}

fn curves(svg: &mut String, panel: &Panel, lines: &[Line], area: Area, span: Span) {
    let mut lines: Vec<&Line> = lines.iter().collect();
    lines.sort_by(|a, b| b.highest().total_cmp(&a.highest()));
    lines.truncate(LINES);
    let highest = lines.iter().map(|line| line.highest()).fold(0.0, f64::max);
    let step = if highest > 0.0 { round_up(highest / 4.0) } else { 0.25 };
    let top = (highest / step).ceil().max(1.0) * step;
    let plot = axes(svg, area, 52.0, 62.0, span);
    let mut at = 0.0;
    while at <= top * 1.001 {
        let y = plot.y + plot.h * (1.0 - at / top);
        let _ = writeln!(svg, "<path d=\"M{:.0} {y:.0}h{:.0}\" stroke=\"#2c3035\"/>", plot.x, plot.w);
        let attributes = "font-size=\"9\" text-anchor=\"end\" fill=\"#8e8e99\"";
        text(svg, (plot.x - 5.0, y + 3.0), attributes, &number(&panel.unit, at));
        at += step;
    }
    for (line, color) in lines.iter().zip(PALETTE) {
        let mut path = String::new();
        let mut before = f64::NEG_INFINITY;
        // A gap in the data is a gap in the line.
        let pause = (span.length / 120.0).max(1.0) * 2.5;
        for (time, value) in &line.samples {
            let way = if time - before > pause { 'M' } else { 'L' };
            before = *time;
            let _ =
                write!(path, "{way}{:.1} {:.1}", span.x(plot, *time), plot.y + plot.h * (1.0 - value / top));
        }
        let _ = writeln!(svg, "<path d=\"{path}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"1.4\"/>");
    }
    legend(svg, area, lines.iter().zip(PALETTE).map(|(line, color)| (line.name.as_str(), color)));
}

fn legend<'a>(svg: &mut String, area: Area, entries: impl Iterator<Item = (&'a str, &'a str)>) {
    let (mut x, mut y) = (area.x + 10.0, area.y + area.h - 32.0);
    for (name, color) in entries {
        let width = 22.0 + count(name.chars().count()) * 5.4;
        if x + width > area.x + area.w {
            (x, y) = (area.x + 10.0, y + 12.0);
        }
        if y > area.y + area.h - 4.0 {
            return;
        }
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.0}\" y=\"{:.0}\" width=\"10\" height=\"3\" fill=\"{color}\"/>",
            y - 4.0
        );
        text(svg, (x + 14.0, y), "font-size=\"9.5\"", name);
        x += width;
    }
}

fn states(svg: &mut String, panel: &Panel, lines: &[Line], area: Area, span: Span) {
    let plot = axes(svg, area, 146.0, 22.0, span);
    let height = (plot.h / count(lines.len().max(1))).min(28.0);
    let pause = (span.length / 120.0).max(1.0);
    for (index, line) in lines.iter().enumerate() {
        let y = plot.y + count(index) * height;
        let attributes = "font-size=\"9.5\" text-anchor=\"end\"";
        text(svg, (plot.x - 6.0, y + height / 2.0 + 3.0), attributes, &line.name);
        for run in line.samples.chunk_by(|a, b| (a.1 - b.1).abs() < 1e-9 && b.0 - a.0 < 2.5 * pause) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let (x, end) = (span.x(plot, first.0), span.x(plot, last.0 + pause).min(plot.x + plot.w));
            let (name, fill) = shown(panel, first.1);
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{fill}\" fill-opacity=\"0.7\"/>",
                y + 1.0,
                (end - x).max(1.0),
                height - 2.0
            );
            if end - x > 46.0 && height > 10.0 {
                text(svg, (x + 4.0, y + height / 2.0 + 3.0), "font-size=\"9\" fill=\"#111217\"", &name);
            }
        }
    }
}
