//! What a repository promises outside of its code: that the README, the
//! manifests and the dashboards say what the code does.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use kube_gc::config::Loader;
use kube_gc::telemetry::names::{ALL, Kind};
use serde_json::Value;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(root().join(path)).with_context(|| path.to_owned())
}

/// Every file below a directory whose name ends so.
fn files(directory: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path, ending)?);
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    Ok(found)
}

/// That nothing newer is used, the lint `incompatible_msrv` sees to, which
/// clippy has on by default.
#[test]
fn the_readme_states_the_rust_version_of_the_manifest() -> Result<()> {
    let manifest: toml::Table = read("Cargo.toml")?.parse()?;
    let version = manifest["package"]["rust-version"].as_str().context("no rust-version")?;
    ensure!(
        read("README.md")?.contains(&format!("Rust {version} or newer")),
        "the README does not say {version}"
    );
    Ok(())
}

#[test]
fn the_configurations_in_the_manifests_are_valid() -> Result<()> {
    let configs = files(&root().join("deploy"), "config.toml")?;
    ensure!(configs.len() > 1, "{configs:?}");
    let base = read("deploy/base/config.toml")?;
    for path in configs {
        let settings = Loader::new().file(Some(&path)).load()?;
        let path = path.display();
        ensure!(!settings.http.listen.ip().is_loopback(), "{path}: the kubelet could not reach the probes");
        ensure!(
            settings.http.debug_listen.ip().is_loopback(),
            "{path}: the debug pages are open to the network"
        );
        ensure!(settings.warnings().is_empty(), "{path}: {:?}", settings.warnings());
        // Whole files replace each other: what holds for all has to be in each.
        ensure!(
            std::fs::read_to_string(path.to_string())?.starts_with(&base),
            "{path} lacks what the base has"
        );
    }
    Ok(())
}

/// The names that a dashboard may use: a histogram is scraped as three series.
fn series() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for metric in ALL {
        match metric.kind {
            Kind::Histogram(_) => {
                names.extend(["_bucket", "_sum", "_count"].map(|suffix| format!("{}{suffix}", metric.name)));
            }
            Kind::Counter | Kind::Gauge => {
                names.insert(metric.name.to_owned());
            }
        }
    }
    names
}

fn queries<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value.as_str() {
                    Some(text) if key == "expr" || key == "definition" => found.push(text),
                    _ => queries(value, found),
                }
            }
        }
        Value::Array(elements) => elements.iter().for_each(|element| queries(element, found)),
        _ => {}
    }
}

#[test]
fn dashboards_ask_only_for_metrics_that_exist() -> Result<()> {
    let dashboards = files(&root().join("grafana"), ".json")?;
    ensure!(!dashboards.is_empty());
    let series = series();
    for path in dashboards {
        let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
        let mut found = Vec::new();
        queries(&dashboard, &mut found);
        ensure!(!found.is_empty(), "{}: no query", path.display());
        for query in found {
            let words = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            let ours = ["kube_gc_", "workqueue_", "garbagecollector_"];
            let mut named =
                words.filter(|word| ours.iter().any(|prefix| word.starts_with(prefix))).peekable();
            ensure!(named.peek().is_some() || query.contains("process_"), "no metric in {query}");
            for name in named {
                ensure!(series.contains(name), "{}: there is no {name}", path.display());
            }
        }
    }
    Ok(())
}

#[test]
fn alerts_ask_only_for_metrics_that_exist_and_are_explained() -> Result<()> {
    let series = series();
    let readme = read("deploy/README.md")?;
    let mut alerts = 0;
    for path in files(&root().join("deploy"), "prometheus-rule.yaml")? {
        let rules = std::fs::read_to_string(&path)?;
        let values = |key: &str| -> Vec<String> {
            let values =
                rules.lines().filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix(key));
            values.map(|value| value.trim().to_owned()).collect()
        };
        let (names, expressions, runbooks) = (values("alert:"), values("expr:"), values("runbook:"));
        ensure!(names.len() == expressions.len() && names.len() == runbooks.len(), "{names:?}");
        for ((name, expression), runbook) in names.iter().zip(&expressions).zip(&runbooks) {
            ensure!(*runbook == format!("deploy/README.md#{}", name.to_lowercase()), "{name}: {runbook}");
            ensure!(readme.contains(&format!("\n### {name}\n")), "deploy/README.md does not explain {name}");
            let words = expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            let ours = ["kube_gc_", "workqueue_", "garbagecollector_"];
            for word in words.filter(|word| ours.iter().any(|prefix| word.starts_with(prefix))) {
                ensure!(series.contains(word), "{name}: there is no {word}");
            }
            // Others have metrics of the same names.
            ensure!(expression.contains("job=\"kube-gc\""), "{name}: of any job");
            alerts += 1;
        }
    }
    ensure!(alerts > 0, "no alerts");
    Ok(())
}

#[test]
fn documents_link_only_to_files_that_exist() -> Result<()> {
    for document in ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "deploy/README.md", "grafana/README.md"]
    {
        let directory = root().join(document);
        let directory = directory.parent().context("no parent")?;
        let text = read(document)?;
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = target.split('#').next().unwrap_or_default();
            let outside = target.starts_with("http");
            ensure!(outside || path.is_empty() || directory.join(path).exists(), "{document}: no {target}");
        }
    }
    Ok(())
}

#[cfg(unix)]
#[test]
fn scripts_can_be_run_and_stop_at_the_first_error() -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    let mut scripts = files(&root().join("tests"), ".sh")?;
    scripts
        .extend([".ci/run", "deploy/build-image", "deploy/build-static"].map(|script| root().join(script)));
    for script in scripts {
        let text = std::fs::read_to_string(&script)?;
        ensure!(text.starts_with("#!/usr/bin/env bash\n"), "{}: no bash", script.display());
        ensure!(text.contains("\nset -euo pipefail\n"), "{}: goes on after errors", script.display());
        let mode = std::fs::metadata(&script)?.permissions().mode();
        ensure!(mode & 0o111 == 0o111, "{}: not executable", script.display());
    }
    Ok(())
}

/// Fails if a scenario is played on one of the two servers only, without a word of
/// why.
#[test]
fn what_is_tested_on_the_real_server_is_tested_on_the_embedded_one() -> Result<()> {
    for suite in ["conformance", "faults"] {
        let modules = |root: &str| -> Result<BTreeSet<String>> {
            let root = read(&format!("tests/{suite}/{root}.rs"))?;
            let names = root.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
            Ok(names.map(str::to_owned).collect())
        };
        let embedded = read(&format!("tests/{suite}/embedded.rs"))?;
        // What only those use that are left out goes with them.
        let shared = ["user"];
        for left_out in modules("main")?.difference(&modules("embedded")?) {
            let explained = embedded.contains(&format!("//! - `{left_out}`: "));
            ensure!(explained || shared.contains(&left_out.as_str()), "{suite}: {left_out} is left out");
        }
    }
    Ok(())
}
