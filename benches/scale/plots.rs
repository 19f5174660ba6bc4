//! Plots of the figures.

use std::ops::Range;
use std::path::Path;

use anyhow::{Context as _, Result};
use plotters::prelude::*;

use crate::report::Results;
use crate::scenarios::{Growth, Point, Size};

const MIB: f64 = 1024.0 * 1024.0;

/// A line with its name.
type Line = (&'static str, Vec<Point>);

/// Draws a plot for each part that was measured.
pub fn draw(results: &Results, directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory)?;
    let sizes = |of: fn(&Size) -> f64| -> Vec<Point> {
        results.sizes.iter().map(|size| (size.objects as f64 / 1e6, of(size))).collect()
    };
    let memory = [
        ("resident", sizes(|size| size.resident / MIB)),
        ("peak", sizes(|size| size.peak / MIB)),
        ("graph", sizes(|size| size.graph_bytes / MIB)),
    ];
    let time = [
        ("start to ready", sizes(|size| size.seconds)),
        ("CPU", sizes(|size| size.cpu)),
        ("CPU of the graph", sizes(|size| size.graph_cpu)),
    ];
    let pictures = Pictures { directory };
    pictures.draw("objects-memory", "Memory by objects", ("million objects", "MiB"), &memory)?;
    pictures.draw("objects-time", "Start by objects", ("million objects", "seconds"), &time)?;
    for of in ["references", "types", "partitions"] {
        let grown = |figure: fn(&Size) -> f64| -> Vec<Point> {
            let all = results.growth.iter().filter(|growth| growth.of == of);
            all.map(|Growth { count, size, .. }| (*count as f64, figure(size))).collect()
        };
        let lines = [
            ("resident, MiB", grown(|size| size.resident / MIB)),
            ("graph, MiB", grown(|size| size.graph_bytes / MIB)),
            ("CPU, hundredths of a second", grown(|size| size.cpu * 100.0)),
        ];
        let title = format!("Cost by {of}");
        pictures.draw(&format!("growth-{of}"), &title, (of, ""), &lines)?;
    }
    let courses = [
        (
            "churn",
            "Memory while 500 pods come and go a second",
            results.churn.as_ref().map(|churn| &churn.course),
        ),
        (
            "namespace",
            "Memory while half of all objects go",
            results.namespace.as_ref().map(|deletion| &deletion.course),
        ),
    ];
    for (name, title, course) in courses {
        let Some(course) = course else { continue };
        let mib = |points: &[Point]| points.iter().map(|&(at, bytes)| (at, bytes / MIB)).collect();
        let lines = [("resident", mib(&course.resident)), ("graph", mib(&course.graph))];
        pictures.draw(name, title, ("seconds", "MiB"), &lines)?;
    }
    Ok(())
}

struct Pictures<'a> {
    directory: &'a Path,
}

impl Pictures<'_> {
    /// Draws lines that begin at zero. Draws nothing if there is no data.
    fn draw(&self, name: &str, title: &str, axes: (&str, &str), lines: &[Line]) -> Result<()> {
        let points = || lines.iter().flat_map(|(_, points)| points);
        if points().nth(lines.len()).is_none() {
            return Ok(());
        }
        let until = |of: fn(&Point) -> f64| -> Range<f64> {
            0.0..points().map(of).fold(f64::MIN_POSITIVE, f64::max) * 1.05
        };
        let (across, upward) = (until(|point| point.0), until(|point| point.1));
        let path = self.directory.join(format!("{name}.svg"));
        let area = SVGBackend::new(&path, (720, 400)).into_drawing_area();
        let drawn = || -> Result<(), DrawingAreaErrorKind<<SVGBackend<'_> as DrawingBackend>::ErrorType>> {
            area.fill(&WHITE)?;
            let mut chart = ChartBuilder::on(&area)
                .caption(title, ("sans-serif", 20))
                .margin(12)
                .x_label_area_size(40)
                .y_label_area_size(60)
                .build_cartesian_2d(across, upward)?;
            chart.configure_mesh().light_line_style(WHITE).x_desc(axes.0).y_desc(axes.1).draw()?;
            for (index, (label, points)) in lines.iter().enumerate() {
                let style = Palette99::pick(index).stroke_width(2);
                let drawn = chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
                drawn.label(*label).legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
                if points.len() < 20 {
                    chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, style.filled())))?;
                }
            }
            let legend = SeriesLabelPosition::UpperLeft;
            chart
                .configure_series_labels()
                .position(legend)
                .background_style(WHITE.mix(0.8))
                .border_style(BLACK)
                .draw()?;
            area.present()
        };
        drawn().with_context(|| format!("cannot draw {}", path.display()))
    }
}
