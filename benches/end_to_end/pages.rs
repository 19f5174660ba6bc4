//! Parses pages of metrics.

use std::collections::BTreeMap;

/// The API server's count of requests for ConfigMaps by verb, without watches.
///
/// Rejected requests count, too. Older servers count them separately, with the requests that
/// ended early.
pub fn requests(page: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in page.lines() {
        let Some((labels, value)) = line.rsplit_once(' ') else { continue };
        let counts_all = labels.starts_with("apiserver_request_total{");
        let refused =
            labels.starts_with("apiserver_request_terminations_total{") && labels.contains("code=\"429\"");
        if !(counts_all || refused) || !labels.contains("resource=\"configmaps\"") {
            continue;
        }
        let verb = labels.split("verb=\"").nth(1).and_then(|rest| rest.split('"').next());
        let (Some(verb), Ok(value)) = (verb, value.parse::<f64>()) else { continue };
        if verb != "WATCH" {
            // The value is a count.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let value = value as u64;
            *counts.entry(verb.to_owned()).or_default() += value;
        }
    }
    counts
}

/// The buckets of a histogram without labels: (upper bound, cumulative count).
pub fn buckets(page: &str, name: &str) -> Vec<(f64, f64)> {
    let prefix = format!("{name}_bucket{{le=\"");
    let lines = page.lines().filter_map(|line| line.strip_prefix(&prefix)?.split_once("\"} "));
    let number = |text: &str| match text {
        "+Inf" => Some(f64::INFINITY),
        text => text.parse().ok(),
    };
    lines.filter_map(|(bound, count)| Some((number(bound)?, number(count)?))).collect()
}
