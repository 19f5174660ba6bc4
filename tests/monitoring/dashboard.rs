//! Generates the dashboard from its source, `grafana/dashboard.toml`.
//!
//! This file has what all panels have in common, and the source has what distinguishes them. Only
//! features of both Grafana 11 and 12 are used.

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::structure::selectors;
use crate::{read, repository};

/// The generated file.
const DASHBOARD: &str = "grafana/kube-gc.json";
/// The source.
const SOURCE: &str = "grafana/dashboard.toml";
/// The replacement of `@` in a query.
const SELECTORS: &str = r#"job=~"$job", namespace=~"$namespace", pod=~"$pod""#;
/// The number of columns of a dashboard.
const COLUMNS: u64 = 24;
/// The number of rows that are open at first: whether it is healthy, and what is stuck.
const OPEN: usize = 2;
/// The schema version of Grafana 11.0. Later releases migrate it themselves.
const SCHEMA: u64 = 39;

/// The source.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    title: String,
    description: String,
    pub row: Vec<Row>,
}

/// A row: a question, and the panels that answer it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The question.
    pub title: String,
    /// The answers.
    panel: Vec<Panel>,
}

/// One panel.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Panel {
    /// Its title.
    pub title: String,
    /// Its type.
    #[serde(rename = "type")]
    kind: Kind,
    size: [u64; 2],
    /// The unit of its values.
    pub unit: String,
    pub description: String,
    /// Legends and expressions.
    queries: Vec<[String; 2]>,
    /// Names of values.
    #[serde(default)]
    values: Vec<(f64, String, String)>,
    /// Colours, each with the value from which it applies.
    #[serde(default)]
    limits: Vec<(f64, String)>,
    /// Whether the value or its name is shown.
    #[serde(default)]
    show: Show,
    /// The labels that a table shows.
    #[serde(default)]
    columns: Vec<String>,
}

/// The types of panels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    /// A single value.
    Stat,
    /// Lines.
    Timeseries,
    /// States over time.
    StateTimeline,
    /// The labels of the present series.
    Table,
}

/// What a stat panel shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Show {
    #[default]
    Value,
    Name,
}

/// Reads the source.
pub fn source() -> Result<Source> {
    toml::from_str(&read(SOURCE)?).context(SOURCE)
}

impl Source {
    /// All panels.
    pub fn panels(&self) -> impl Iterator<Item = &Panel> {
        self.row.iter().flat_map(|row| &row.panel)
    }

    /// The generated dashboard.
    pub fn made(&self) -> Result<Value> {
        let (mut panels, mut id, mut top) = (Vec::new(), 0, 0);
        for (place, row) in self.row.iter().enumerate() {
            id += 1;
            let mut head = json!({
                "id": id, "type": "row", "title": row.title, "collapsed": place >= OPEN, "panels": [],
                "gridPos": { "x": 0, "y": top, "w": COLUMNS, "h": 1 },
            });
            top += 1;
            let (mut x, mut y, mut height) = (0, top, 0);
            let mut below = Vec::new();
            for panel in &row.panel {
                let [width, own] = panel.size;
                if x + width > COLUMNS {
                    (x, y) = (0, y + height);
                }
                // All panels of a line have the same height, because otherwise there would be
                // gaps.
                ensure!(x == 0 || own == height, "{}: not as high as its neighbour", panel.title);
                height = own;
                id += 1;
                below.push(panel.made(id, &json!({ "x": x, "y": y, "w": width, "h": height })));
                x += width;
            }
            if place < OPEN {
                panels.push(head);
                panels.append(&mut below);
                top = y + height;
            } else {
                // A collapsed row contains its panels, and takes no more than its own line.
                head["panels"] = json!(below);
                panels.push(head);
            }
        }
        Ok(json!({
            "title": self.title,
            "uid": "kube-gc",
            "description": self.description,
            "tags": ["kubernetes", "kube-gc"],
            "schemaVersion": SCHEMA,
            "version": 1,
            "editable": true,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": { "from": "now-1h", "to": "now" },
            "timezone": "",
            "annotations": { "list": [] },
            "links": [],
            "templating": { "list": variables() },
            "panels": panels,
        }))
    }
}

impl Panel {
    /// Each query with its legend.
    pub fn queries(&self) -> impl Iterator<Item = (&str, String)> {
        self.queries.iter().map(|[legend, query]| (legend.as_str(), query.replace('@', SELECTORS)))
    }

    /// Whether it shows series that rules record. Their names contain colons.
    fn is_recorded(&self) -> bool {
        self.queries().any(|(_, query)| selectors(&query).any(|(name, _)| name.contains(':')))
    }

    fn made(&self, id: usize, place: &Value) -> Value {
        let targets = self.queries().zip('A'..='Z').map(|((legend, expr), letter)| {
            let now = matches!(self.kind, Kind::Stat | Kind::Table);
            json!({
                "refId": letter.to_string(), "datasource": datasource(), "editorMode": "code",
                "expr": expr, "legendFormat": legend, "instant": now, "range": !now,
                "format": if self.kind == Kind::Table { "table" } else { "time_series" },
            })
        });
        let targets: Vec<Value> = targets.collect();
        // Without these rules, it stays empty.
        let needs = if self.is_recorded() { " Needs the recording rules." } else { "" };
        let mut panel = json!({
            "id": id, "type": self.kind.name(), "title": self.title,
            "description": format!("{}{needs}", self.description),
            "datasource": datasource(), "gridPos": place,
            "fieldConfig": { "defaults": self.defaults(), "overrides": [] },
            "options": self.options(),
            "targets": targets,
        });
        if self.kind == Kind::Table {
            // Only these of the columns that a query returns.
            let names: Vec<&String> = self.columns.iter().collect();
            panel["transformations"] =
                json!([{ "id": "filterFieldsByName", "options": { "include": { "names": names } } }]);
        }
        panel
    }

    fn defaults(&self) -> Value {
        let mut defaults = json!({ "unit": self.unit, "mappings": self.mappings(), "color": self.color() });
        let steps: Vec<Value> = match self.limits.as_slice() {
            [] => vec![json!({ "color": "green", "value": null })],
            [(_, first), others @ ..] => std::iter::once(json!({ "color": first, "value": null }))
                .chain(others.iter().map(|(from, color)| json!({ "color": color, "value": from })))
                .collect(),
        };
        defaults["thresholds"] = json!({ "mode": "absolute", "steps": steps });
        match self.kind {
            Kind::Timeseries => {
                defaults["min"] = json!(0);
                defaults["custom"] = json!({
                    "drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never",
                });
            }
            Kind::StateTimeline => defaults["custom"] = json!({ "lineWidth": 0, "fillOpacity": 70 }),
            Kind::Stat | Kind::Table => {}
        }
        defaults
    }

    fn color(&self) -> Value {
        let mode = if self.kind == Kind::Timeseries { "palette-classic" } else { "thresholds" };
        json!({ "mode": mode })
    }

    fn mappings(&self) -> Vec<Value> {
        let mut options = serde_json::Map::new();
        for (index, (value, text, color)) in self.values.iter().enumerate() {
            options.insert(value.to_string(), json!({ "text": text, "color": color, "index": index }));
        }
        if options.is_empty() { Vec::new() } else { vec![json!({ "type": "value", "options": options })] }
    }

    fn options(&self) -> Value {
        let legend = json!({ "calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": true });
        match self.kind {
            Kind::Stat => json!({
                "colorMode": "value", "graphMode": "none", "justifyMode": "auto", "orientation": "auto",
                "textMode": match self.show { Show::Value => "auto", Show::Name => "name" },
                "reduceOptions": { "calcs": ["lastNotNull"], "fields": "", "values": false },
            }),
            Kind::Timeseries => json!({ "legend": legend, "tooltip": { "mode": "multi", "sort": "desc" } }),
            Kind::StateTimeline => json!({
                "legend": legend, "tooltip": { "mode": "single", "sort": "none" },
                "mergeValues": true, "showValue": "auto", "rowHeight": 0.8, "alignValue": "left",
            }),
            Kind::Table => json!({ "showHeader": true, "cellHeight": "sm" }),
        }
    }
}

impl Kind {
    /// Its name in Grafana.
    const fn name(self) -> &'static str {
        match self {
            Self::Stat => "stat",
            Self::Timeseries => "timeseries",
            Self::StateTimeline => "state-timeline",
            Self::Table => "table",
        }
    }
}

fn datasource() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

fn variables() -> Value {
    let of = |name: &str, label: &str, selector: &str| {
        let query = format!("label_values(kube_gc_build_info{selector}, {name})");
        let mut variable = json!({
            "name": name, "label": label, "type": "query", "datasource": datasource(),
            "query": { "query": query, "refId": name }, "definition": query, "refresh": 2, "sort": 1,
            "includeAll": true, "multi": true, "current": { "text": "All", "value": "$__all" },
        });
        // All jobs are those of the list, and no other programs or nodes.
        if name != "job" {
            // Also matches series without the label, because without the operator there is no
            // pod.
            variable["allValue"] = json!(".*");
        }
        variable
    };
    json!([
        { "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {} },
        of("job", "Job", r#"{job!="kube-gc-node"}"#),
        of("namespace", "Namespace", r#"{job=~"$job"}"#),
        of("pod", "Pod", r#"{job=~"$job", namespace=~"$namespace"}"#),
    ])
}

/// With `KUBE_GC_WRITE=dashboard`, writes the dashboard instead.
#[test]
fn the_dashboard_is_generated_from_its_source() -> Result<()> {
    let made = serde_json::to_string_pretty(&source()?.made()?)? + "\n";
    if std::env::var_os("KUBE_GC_WRITE").is_some_and(|what| what == "dashboard") {
        std::fs::write(repository(DASHBOARD), &made)?;
    }
    ensure!(read(DASHBOARD)? == made, "{DASHBOARD} is not what {SOURCE} makes: run `make dashboard`");
    Ok(())
}
